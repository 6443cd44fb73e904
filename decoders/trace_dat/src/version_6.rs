//! Version 6: one part after the other.

use schedlens_input::bytes::{Bytes, text};
use schedlens_tracepoints::formats;

use crate::error::Error;
use crate::options::{Buffer, CpuData, Options};
use crate::packing::Packing;
use crate::parts::{Parts, names};

/// Most CPUs of a file: `NR_CPUS` is at most this.
const MOST_CPUS: u32 = 1 << 13;

/// Reads what follows the first bytes.
///
/// # Errors
/// The file ends before its description does, or contains no events.
pub(crate) fn read(file: &[u8], mut bytes: Bytes<'_>, page_size: u32) -> Result<Parts, Error> {
    let header_page = formats::page_header(&mut bytes)?;
    let mut formats = Vec::new();
    formats::ftrace(&mut bytes, &mut formats)?;
    formats::systems(&mut bytes, &mut formats)?;
    for _ in ["kallsyms", "printk_formats"] {
        let size = bytes.u32()?;
        bytes.take(u64::from(size))?;
    }
    let size = bytes.u64()?;
    let names = names(bytes.take(size)?);
    let mut cpus = bytes.u32()?;
    let mut options = Options::default();
    let mut buffer = Buffer::default();
    kind(&mut bytes, &mut options)?;
    // The list of CPUs of a later trace-cmd may be longer than older programs expect.
    cpus = options.cpu_count.unwrap_or(cpus);
    buffer.cpus = cpu_list(&mut bytes, cpus)?;
    if options.states_clock
        && options.clocks.is_none()
        && let Ok(size) = bytes.u64()
        && let Ok(clocks) = bytes.take(size)
    {
        options.clocks = Some(text(clocks));
    }
    let mut instances = std::mem::take(&mut options.buffers);
    options.take_room(buffer.cpus.len());
    for instance in &mut instances {
        let rest = usize::try_from(instance.offset).ok().and_then(|at| file.get(at..));
        let mut bytes = Bytes::new(rest.unwrap_or_default(), "a buffer of trace.dat");
        match kind(&mut bytes, &mut Options::default()) {
            Err(Error::Latency) => instance.is_text = true,
            other => {
                other?;
                if options.take_room(cpus as usize) {
                    instance.cpus = cpu_list(&mut bytes, cpus)?;
                } else {
                    options.leave_out();
                }
            }
        }
    }
    options.buffers.push(buffer);
    options.buffers.append(&mut instances);
    Ok(Parts {
        version: 6,
        page_size,
        packing: Packing::None,
        header_page,
        formats,
        names,
        options,
    })
}

/// Reads the options, if there are some, up to the mark of a list of CPUs.
fn kind(bytes: &mut Bytes<'_>, options: &mut Options) -> Result<(), Error> {
    const SIZE: u64 = 10;
    let mut word = bytes.take(SIZE)?;
    if word.starts_with(b"options") {
        options.add(bytes, false)?;
        word = bytes.take(SIZE)?;
    }
    if word.starts_with(b"flyrecord") {
        Ok(())
    } else if word.starts_with(b"latency") {
        Err(Error::Latency)
    } else {
        Err(Error::Misplaced { what: "the list of CPUs" })
    }
}

fn cpu_list(bytes: &mut Bytes<'_>, cpus: u32) -> Result<Vec<CpuData>, Error> {
    if cpus > MOST_CPUS {
        let (found, most) = (u64::from(cpus), u64::from(MOST_CPUS));
        return Err(Error::Size { what: "the list of CPUs", found, least: 1, most });
    }
    (0..cpus.cast_signed())
        .map(|cpu| Ok(CpuData { cpu, offset: bytes.u64()?, size: bytes.u64()? }))
        .collect()
}
