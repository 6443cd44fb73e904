//! The `format` files of tracepoints as recorders copy them: the fields of each tracepoint.

use schedlens_input::bytes::Bytes;

use crate::error::Error;

/// The first bytes of formats.
pub const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// A field of a tracepoint's raw data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Offset in the raw data.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    /// A signed number.
    pub signed: bool,
    /// `__data_loc`: the field contains length and offset of the data.
    pub data_loc: bool,
    /// An array of `char`.
    pub is_text: bool,
}

/// The format of one tracepoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// Name of its system, such as `sched`.
    pub system: String,
    /// Name in its system.
    pub name: String,
    /// Number by which records name it; of the machine that recorded.
    pub id: u64,
    /// Its fields in order, with the common ones.
    pub fields: Vec<Field>,
    /// How the kernel prints it, as C.
    pub print_fmt: String,
}

impl Format {
    /// Reads the text of a `format` file.
    fn parse(system: &str, text: &str) -> Self {
        let mut format = Self { system: system.to_owned(), ..Self::default() };
        for line in text.lines() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().to_owned();
            } else if let Some(id) = line.strip_prefix("ID:") {
                format.id = id.trim().parse().unwrap_or_default();
            } else if let Some(print_fmt) = line.strip_prefix("print fmt:") {
                format.print_fmt = print_fmt.trim().to_owned();
            } else if let Some(field) = line.strip_prefix("field:") {
                format.fields.extend(parse_field(field));
            }
        }
        format
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// `system:name`, as perf prints it.
    pub fn full_name(&self) -> String {
        format!("{}:{}", self.system, self.name)
    }
}

/// Reads `type name[n];\toffset:8;\tsize:16;\tsigned:0;`.
fn parse_field(text: &str) -> Option<Field> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next()?;
    let mut field = Field {
        name: String::new(),
        offset: usize::MAX,
        size: 0,
        signed: false,
        data_loc: declaration.starts_with("__data_loc"),
        is_text: declaration.contains("char") && declaration.contains('['),
    };
    let bare = declaration.split('[').next().unwrap_or(declaration).trim_end();
    let last = if field.data_loc { declaration } else { bare };
    field.name = last.rsplit([' ', '*']).next()?.to_owned();
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => field.offset = value.parse().ok()?,
            Some(("size", value)) => field.size = value.parse().ok()?,
            Some(("signed", value)) => field.signed = value == "1",
            _ => {}
        }
    }
    (field.offset != usize::MAX).then_some(field)
}

/// How the formats begin, in perf's copy as in trace-cmd's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Version of the file: `0.6` from perf, else that of trace-cmd.
    pub version: String,
    /// Size of `long` in the recorder.
    pub long_size: u8,
    /// Size of a page of memory.
    pub page_size: u32,
}

/// Reads the magic bytes, the version, and the sizes.
///
/// # Errors
/// They are not those of formats, or of a big-endian machine.
pub fn beginning(bytes: &mut Bytes<'_>) -> Result<Beginning, Error> {
    let magic = bytes.take(MAGIC.len() as u64)?;
    if magic != MAGIC {
        return Err(Error::Magic { found: magic.to_vec() });
    }
    let version = bytes.zero_ended()?;
    if bytes.u8()? != 0 {
        return Err(Error::BigEndian);
    }
    Ok(Beginning { version, long_size: bytes.u8()?, page_size: bytes.u32()? })
}

/// Reads `header_page` and `header_event`; returns the fields of a page's header.
///
/// # Errors
/// The data ends before they do.
pub fn page_header(bytes: &mut Bytes<'_>) -> Result<Format, Error> {
    let mut text = || {
        bytes.zero_ended()?;
        let size = bytes.u64()?;
        bytes.take(size)
    };
    let page = Format::parse("", &String::from_utf8_lossy(text()?));
    text()?;
    Ok(page)
}

/// Reads the formats of the system `ftrace`, which come without its name.
///
/// # Errors
/// The data ends before they do; what was read remains in `formats`.
pub fn ftrace(bytes: &mut Bytes<'_>, formats: &mut Vec<Format>) -> Result<(), Error> {
    let events = bytes.u32()?;
    read_system(bytes, "ftrace", events, formats)
}

/// Reads the formats of all other systems.
///
/// # Errors
/// The data ends before they do; what was read remains in `formats`.
pub fn systems(bytes: &mut Bytes<'_>, formats: &mut Vec<Format>) -> Result<(), Error> {
    let systems = bytes.u32()?;
    for _ in 0..systems {
        let system = bytes.zero_ended()?;
        let events = bytes.u32()?;
        read_system(bytes, &system, events, formats)?;
    }
    Ok(())
}

/// Reads the formats of perf's `HEADER_TRACING_DATA`; the rest is not needed.
///
/// # Errors
/// The data ends before they do, or does not contain formats.
pub fn read(data: &[u8]) -> Result<Vec<Format>, Error> {
    let mut bytes = Bytes::new(data, "HEADER_TRACING_DATA");
    let mut formats = Vec::new();
    beginning(&mut bytes)?;
    page_header(&mut bytes)?;
    ftrace(&mut bytes, &mut formats)?;
    systems(&mut bytes, &mut formats)?;
    Ok(formats)
}

fn read_system(
    bytes: &mut Bytes<'_>,
    system: &str,
    events: u32,
    formats: &mut Vec<Format>,
) -> Result<(), Error> {
    for _ in 0..events {
        let size = bytes.u64()?;
        let text = bytes.take(size)?;
        formats.push(Format::parse(system, &String::from_utf8_lossy(text)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORK: &str = "name: sched_process_fork\nID: 366\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:__data_loc char[] parent_comm;\toffset:8;\tsize:4;\tsigned:0;\n\
        \tfield:pid_t parent_pid;\toffset:12;\tsize:4;\tsigned:1;\n\
        \tfield:char old_comm[16];\toffset:16;\tsize:16;\tsigned:0;\n\
        \tfield:const char *text;\toffset:32;\tsize:8;\tsigned:0;\n\n\
        print fmt: \"x=%d\", REC->x\n";

    #[test]
    fn fields_are_found_by_name_in_every_spelling() {
        let format = Format::parse("sched", FORK);
        assert_eq!(format.full_name(), "sched:sched_process_fork");
        assert_eq!(format.id, 366);
        let field = |name: &str| format.field(name).cloned().expect(name);
        assert!(field("parent_comm").data_loc);
        assert_eq!((field("parent_pid").offset, field("parent_pid").signed), (12, true));
        assert_eq!((field("old_comm").offset, field("old_comm").size), (16, 16));
        assert_eq!(field("text").size, 8);
        assert_eq!(format.print_fmt, "\"x=%d\", REC->x");
    }

    #[test]
    fn tracing_data_is_read_system_by_system() {
        let mut data = b"\x17\x08\x44tracing0.6\0".to_vec();
        data.extend([0, 8]);
        data.extend(4096_u32.to_le_bytes());
        for part in ["header_page", "header_event"] {
            data.extend(part.as_bytes());
            data.push(0);
            data.extend(3_u64.to_le_bytes());
            data.extend(b"abc");
        }
        data.extend(0_u32.to_le_bytes());
        data.extend(1_u32.to_le_bytes());
        data.extend(b"sched\0");
        data.extend(1_u32.to_le_bytes());
        data.extend((FORK.len() as u64).to_le_bytes());
        data.extend(FORK.as_bytes());
        let formats = read(&data).expect("read");
        assert_eq!(formats.len(), 1);
        assert_eq!(formats[0].id, 366);
        for cut in 0..data.len() {
            assert!(read(&data[..cut]).is_err(), "{cut}");
        }
    }
}
