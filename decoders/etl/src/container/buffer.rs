//! `WMI_BUFFER_HEADER`, and how to find the next buffer.

use schedlens_input::bytes::{u16_at, u32_at, u64_at};

/// Size of a `WMI_BUFFER_HEADER`.
pub(crate) const HEADER: usize = 0x48;
/// The largest buffer that ETW writes, including its header.
pub(crate) const LARGEST: u32 = (16 << 20) + HEADER as u32;

/// `BufferFlag`: events were lost before or in this buffer.
pub(crate) const EVENTS_LOST: u16 = 0x2;
/// `BufferFlag`: a buffer was lost before this one.
pub(crate) const BUFFER_LOST: u16 = 0x4;
const PROCESSOR_INDEX: u16 = 0x20;
const COMPRESSED: u16 = 0x40;
const FLAGS: u16 = 0x7f;
/// `BufferType` of the first buffer.
pub(crate) const TYPE_HEADER: u16 = 4;
/// The highest `BufferType`.
const TYPE_LAST: u16 = 7;

/// The contents of a buffer's header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferHeader {
    /// `BufferSize`: bytes in the file, header included.
    pub(crate) size: u32,
    /// `SequenceNumber`, of the session.
    pub(crate) sequence: i64,
    /// `ProcessorIndex`.
    pub(crate) cpu: u16,
    /// `State`; in the first buffer of a packed file, the number of the compression format.
    pub(crate) state: u32,
    /// `Offset`: end of the records in the unpacked buffer, header included.
    pub(crate) filled: u32,
    /// `BufferFlag`.
    pub(crate) flags: u16,
    /// `BufferType`.
    pub(crate) kind: u16,
}

impl BufferHeader {
    /// The header at an offset of the file; `None` if it does not fit in the file.
    pub(crate) fn at(file: &[u8], at: usize) -> Option<Self> {
        let header = file.get(at..at.checked_add(HEADER)?)?;
        let flags = u16_at(header, 0x34)?;
        let client = u16_at(header, 0x28)?;
        Some(Self {
            size: u32_at(header, 0)?,
            sequence: u64_at(header, 0x18)?.cast_signed(),
            cpu: if flags & PROCESSOR_INDEX != 0 { client & 0x7ff } else { client & 0xff },
            state: u32_at(header, 0x2c)?,
            filled: u32_at(header, 0x30)?,
            flags,
            kind: u16_at(header, 0x36)?,
        })
    }

    /// Whether the records are packed.
    pub(crate) fn packed(&self) -> bool {
        self.flags & COMPRESSED != 0
    }

    /// Whether flags and type are documented; later systems may have more.
    pub(crate) fn is_described(&self) -> bool {
        self.flags & !FLAGS == 0 && self.kind <= TYPE_LAST
    }

    /// Whether the numbers are possible for a buffer; `session` is the session's buffer size.
    pub(crate) fn is_sound(&self, session: u32) -> bool {
        self.is_described() && self.fits(session)
    }

    /// The same, ignoring flags and type.
    fn fits(&self, session: u32) -> bool {
        let most = session.clamp(HEADER as u32, LARGEST);
        let size_fits = if self.packed() {
            // Packing may slightly enlarge incompressible data.
            self.size <= most + most / 8 + HEADER as u32
        } else {
            self.size <= most && self.filled <= self.size
        };
        self.size >= HEADER as u32
            && size_fits
            && (HEADER as u32..=most).contains(&self.filled)
            && self.sequence >= 0
    }
}

/// What is at an offset of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// A buffer, and how many bytes from its header on are present.
    Buffer(BufferHeader, usize),
    /// Space that was never written.
    Unused(usize),
    /// Bytes that are not a buffer.
    Damage(usize),
}

/// Iterates over the buffers of a file.
pub(crate) struct Buffers<'a> {
    file: &'a [u8],
    at: usize,
    session: u32,
}

impl<'a> Buffers<'a> {
    /// Starts at the first buffer; `session` is the buffer size in the log's header.
    pub(crate) fn new(file: &'a [u8], session: u32) -> Self {
        Self { file, at: 0, session }
    }

    /// The next position at which a buffer may begin, or the end of the file.
    fn resume(&self) -> usize {
        let step = self.session as usize;
        // Unpacked buffers are at multiples of their size; packed ones can be anywhere.
        let even = (self.at / step.max(1) + 1).saturating_mul(step);
        if step >= HEADER && self.chains(even) {
            return even;
        }
        let rest = (self.at + 1)..self.file.len().saturating_sub(HEADER);
        rest.into_iter().find(|at| self.chains(*at)).unwrap_or(self.file.len())
    }

    /// Whether a buffer at `at` is valid, and so is the data after it.
    fn chains(&self, at: usize) -> bool {
        let Some(header) = BufferHeader::at(self.file, at) else { return false };
        if !header.is_sound(self.session) {
            return false;
        }
        let next = at + header.size as usize;
        match BufferHeader::at(self.file, next) {
            Some(next) => next.is_sound(self.session),
            None => next >= self.file.len(),
        }
    }

    /// Bytes to the next buffer: the size in the header, unless only the session's size leads to a
    /// buffer.
    fn reach(&self, header: &BufferHeader) -> usize {
        let (size, step) = (header.size as usize, self.session as usize);
        let leads = |length: usize| match BufferHeader::at(self.file, self.at + length) {
            Some(next) => next.is_sound(LARGEST),
            None => self.at + length == self.file.len(),
        };
        let misled = !header.packed() && size != step && step >= HEADER && !leads(size);
        if misled && leads(step) { step } else { size }
    }

    /// Whether an undocumented flag or type still belongs to a buffer: its sizes match the session,
    /// and another buffer or the end of the file follows.
    fn is_newer(&self, header: &BufferHeader) -> bool {
        let next = self.at + header.size as usize;
        let leads = match BufferHeader::at(self.file, next) {
            Some(next) => next.fits(self.session),
            None => next >= self.file.len(),
        };
        let usual = header.packed() || header.size == self.session;
        !header.is_described() && usual && header.fits(self.session) && leads
    }

    /// Zeros up to the position of the next buffer.
    fn unused(&self) -> Option<usize> {
        let step = (self.session as usize).max(HEADER);
        let end = (self.at + step).min(self.file.len());
        let room = self.file.get(self.at..end)?;
        room.iter().all(|byte| *byte == 0).then_some(room.len())
    }
}

impl Iterator for Buffers<'_> {
    type Item = (usize, Found);

    fn next(&mut self) -> Option<(usize, Found)> {
        let at = self.at;
        let left = self.file.len().checked_sub(at).filter(|left| *left > 0)?;
        let header = BufferHeader::at(self.file, at);
        let found = match header {
            Some(header) if header.is_sound(LARGEST) || self.is_newer(&header) => {
                Found::Buffer(header, left.min(self.reach(&header)))
            }
            _ => match self.unused() {
                Some(room) => Found::Unused(room),
                None => Found::Damage(self.resume() - at),
            },
        };
        self.at += match found {
            Found::Buffer(_, length) | Found::Unused(length) | Found::Damage(length) => length,
        };
        Some((at, found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: u32 = 0x100;

    fn buffer(sequence: u8, size: u32, filled: u32, flags: u16) -> Vec<u8> {
        let mut bytes = vec![0xff; size as usize];
        bytes[..HEADER].fill(0);
        bytes[..4].copy_from_slice(&size.to_le_bytes());
        bytes[0x18] = sequence;
        bytes[0x28..0x2a].copy_from_slice(&0x0105_u16.to_le_bytes());
        bytes[0x30..0x34].copy_from_slice(&filled.to_le_bytes());
        bytes[0x34..0x36].copy_from_slice(&flags.to_le_bytes());
        bytes
    }

    fn walk(file: &[u8]) -> Vec<(usize, String)> {
        Buffers::new(file, SESSION)
            .map(|(at, found)| {
                let text = match found {
                    Found::Buffer(header, there) => format!("{} {there}", header.sequence),
                    Found::Unused(room) => format!("unused {room}"),
                    Found::Damage(bytes) => format!("damage {bytes}"),
                };
                (at, text)
            })
            .collect()
    }

    fn texts(file: &[u8]) -> Vec<String> {
        walk(file).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn buffers_follow_each_other_by_their_sizes() {
        let file =
            [buffer(0, SESSION, 0x60, 0), buffer(1, 0x50, 0x90, 0x40), buffer(2, 0x48, 0x48, 0x40)];
        assert_eq!(texts(&file.concat()), ["0 256", "1 80", "2 72"]);
    }

    #[test]
    fn processor_numbers_take_one_byte_or_eleven_bits() {
        let narrow = BufferHeader::at(&buffer(0, SESSION, 0x60, 0), 0).expect("fits");
        let wide = BufferHeader::at(&buffer(0, SESSION, 0x60, 0x20), 0).expect("fits");
        assert_eq!((narrow.cpu, wide.cpu), (5, 0x105));
    }

    #[test]
    fn cut_off_buffer_is_returned_as_far_as_present() {
        let mut file = [buffer(0, SESSION, 0x60, 0), buffer(1, SESSION, 0x90, 0)].concat();
        file.truncate(SESSION as usize + 0x50);
        assert_eq!(texts(&file), ["0 256", "1 80"]);
        file.truncate(SESSION as usize + 0x20);
        assert_eq!(texts(&file), ["0 256", "damage 32"]);
    }

    #[test]
    fn unwritten_space_is_not_damage() {
        let file = [buffer(0, SESSION, 0x60, 0), vec![0; 0x140], buffer(1, SESSION, 0x60, 0)];
        let found = texts(&file.concat());
        assert_eq!(found, ["0 256", "unused 256", "damage 64", "1 256"]);
    }

    #[test]
    fn unknown_flags_and_types_keep_the_buffer() {
        let mut file = [
            buffer(0, SESSION, 0x60, 0),
            buffer(1, SESSION, 0x60, 0x120),
            buffer(2, 0x50, 0x90, 0x140),
            buffer(3, SESSION, 0x60, 0),
        ]
        .concat();
        // Type 9 in the last buffer.
        let last = file.len() - SESSION as usize;
        file[last + 0x36] = 9;
        assert_eq!(texts(&file), ["0 256", "1 256", "2 80", "3 256"]);
        // Sizes that differ from the session's still count as damage.
        file[SESSION as usize..][..4].copy_from_slice(&0xf0_u32.to_le_bytes());
        assert!(texts(&file)[1].starts_with("damage"), "{:?}", texts(&file));
    }

    #[test]
    fn wrong_size_falls_back_to_the_session_size() {
        let mut file = [buffer(0, SESSION, 0x60, 0), buffer(1, SESSION, 0x60, 0)].concat();
        file[0..4].copy_from_slice(&0x180_u32.to_le_bytes());
        assert_eq!(texts(&file), ["0 256", "1 256"]);
    }

    #[test]
    fn after_damage_the_next_buffer_is_found() {
        let mut even =
            [buffer(0, SESSION, 0x60, 0), buffer(1, SESSION, 0x60, 0), buffer(2, SESSION, 0x60, 0)]
                .concat();
        even[0x100..0x104].fill(0x77);
        assert_eq!(texts(&even), ["0 256", "damage 256", "2 256"]);
        let mut packed =
            [buffer(0, 0x50, 0x90, 0x40), buffer(1, 0x61, 0x90, 0x40), buffer(2, 0x50, 0x90, 0x40)]
                .concat();
        packed[0x50..0x54].fill(0x77);
        assert_eq!(texts(&packed), ["0 80", "damage 97", "2 80"]);
    }
}
