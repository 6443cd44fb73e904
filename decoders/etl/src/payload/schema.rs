//! Events of manifest providers, decoded with the schemas in the file: the `TRACE_EVENT_INFO` that
//! merging embeds, or the manifest of an EventSource.

use std::sync::Arc;

use schedlens_input::bytes::{u16_at, u32_at};

use super::reader::{Reader, ansi_text};
use super::value::{Fields, Value, guid_text, sid_text};
use crate::guid::Guid;

/// Offset of the properties in a `TRACE_EVENT_INFO`.
const PROPERTIES: usize = 112;
const PROPERTY: usize = 24;
const IS_STRUCT: u32 = 1;
const LENGTH_BY_PROPERTY: u32 = 2;
const COUNT_BY_PROPERTY: u32 = 4;
/// Maximum nesting of structs; more means damaged data.
const DEEPEST: usize = 8;

/// A count or a length of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Not specified.
    None,
    /// The same in every event.
    Fixed(u16),
    /// The value of the field with that number.
    Field(u16),
}

/// A field, or a struct of fields.
#[derive(Clone, Debug)]
pub(crate) struct Property {
    name: String,
    flags: u32,
    /// `TDH_INTYPE_*`, or the first member of a struct.
    kind: u16,
    /// `TDH_OUTTYPE_*`, or the number of members.
    out: u16,
    count: u16,
    length: u16,
}

impl Property {
    /// A field other than a struct; `kind` is a `TDH_INTYPE_*`.
    pub(crate) fn new(name: String, kind: u16, count: Size, length: Size) -> Self {
        let (count_flag, count) = match count {
            Size::None => (0, 1),
            Size::Fixed(count) => (0, count),
            Size::Field(number) => (COUNT_BY_PROPERTY, number),
        };
        let (length_flag, length) = match length {
            Size::None => (0, 0),
            Size::Fixed(length) => (0, length),
            Size::Field(number) => (LENGTH_BY_PROPERTY, number),
        };
        Self { name, flags: count_flag | length_flag, kind, out: 0, count, length }
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// The layout of one version of an event.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(crate) provider: Guid,
    pub(crate) id: u16,
    pub(crate) version: u8,
    pub(crate) provider_name: String,
    pub(crate) task: String,
    pub(crate) opcode: String,
    top_level: usize,
    properties: Arc<[Property]>,
}

/// A string by its offset; offset 0: none.
fn name_at(bytes: &[u8], offset: u32) -> String {
    let found = bytes.get(offset as usize..).filter(|_| offset != 0);
    let text = found.and_then(|rest| Reader::new(rest, 8).text());
    text.map(|text| text.trim().to_owned()).unwrap_or_default()
}

impl Schema {
    /// Reads a `TRACE_EVENT_INFO`: payload of opcode 32 of the EventMetadata class.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let count = u32_at(bytes, 100)? as usize;
        let top_level = u32_at(bytes, 104)? as usize;
        let room = bytes.len().checked_sub(PROPERTIES)? / PROPERTY;
        if count > room || top_level > count {
            return None;
        }
        let mut properties = Vec::with_capacity(count);
        for number in 0..count {
            let at = PROPERTIES + PROPERTY * number;
            properties.push(Property {
                flags: u32_at(bytes, at)?,
                name: name_at(bytes, u32_at(bytes, at + 4)?),
                kind: u16_at(bytes, at + 8)?,
                out: u16_at(bytes, at + 10)?,
                count: u16_at(bytes, at + 16)?,
                length: u16_at(bytes, at + 18)?,
            });
        }
        Some(Self {
            provider: Guid::at(bytes, 0)?,
            id: u16_at(bytes, 32)?,
            version: *bytes.get(34)?,
            provider_name: name_at(bytes, u32_at(bytes, 52)?),
            task: name_at(bytes, u32_at(bytes, 68)?),
            opcode: name_at(bytes, u32_at(bytes, 72)?),
            top_level,
            properties: properties.into(),
        })
    }

    /// An event without structs: provider, number and version; names of provider, task and opcode.
    pub(crate) fn new(
        (provider, id, version): (Guid, u16, u8),
        [provider_name, task, opcode]: [&str; 3],
        properties: Arc<[Property]>,
    ) -> Self {
        Self {
            provider,
            id,
            version,
            provider_name: provider_name.to_owned(),
            task: task.to_owned(),
            opcode: opcode.to_owned(),
            top_level: properties.len(),
            properties,
        }
    }

    /// Task and opcode names, else the number.
    pub(crate) fn title(&self) -> String {
        match (self.task.as_str(), self.opcode.as_str()) {
            ("", "") => self.id.to_string(),
            (task, "" | "win:Info" | "Info") => task.to_owned(),
            ("", opcode) => opcode.to_owned(),
            (task, opcode) => format!("{task}/{opcode}"),
        }
    }

    /// The fields of an event, up to the first that does not fit.
    pub(crate) fn fields(&self, payload: &[u8], pointer: usize) -> Fields {
        let mut reader = Reader::new(payload, pointer);
        let mut numbers = vec![0; self.properties.len()];
        let mut fields = Fields::default();
        let range = 0..self.top_level;
        self.read_range(range, &mut reader, &mut numbers, &mut fields, 0);
        fields
    }

    /// Returns whether all of them were present.
    fn read_range(
        &self,
        range: std::ops::Range<usize>,
        reader: &mut Reader<'_>,
        numbers: &mut [u64],
        into: &mut Fields,
        depth: usize,
    ) -> bool {
        for number in range {
            let Some(property) = self.properties.get(number) else { return false };
            let Some(value) = self.property(number, property, reader, numbers, depth) else {
                return false;
            };
            match value {
                Value::Unsigned(value) => numbers[number] = value,
                Value::Signed(value) => numbers[number] = u64::try_from(value).unwrap_or(0),
                _ => {}
            }
            into.0.push((property.name.clone().into(), value));
        }
        true
    }

    fn property(
        &self,
        number: usize,
        property: &Property,
        reader: &mut Reader<'_>,
        numbers: &mut [u64],
        depth: usize,
    ) -> Option<Value> {
        reader.count(&property.name)?;
        let by_index = |index: u16| numbers.get(usize::from(index)).copied();
        let counted = property.flags & COUNT_BY_PROPERTY != 0;
        let count = if counted { by_index(property.count)? } else { property.count.into() };
        let length = if property.flags & LENGTH_BY_PROPERTY != 0 {
            by_index(property.length)?
        } else {
            property.length.into()
        };
        let single = !counted && count <= 1;
        let mut values = Vec::new();
        for _ in 0..if single { 1 } else { count } {
            if !single && reader.rest().is_empty() {
                break;
            }
            if !single {
                reader.count("")?;
            }
            let value = if property.flags & IS_STRUCT != 0 {
                if depth >= DEEPEST {
                    return None;
                }
                let mut members = Fields::default();
                let first = usize::from(property.kind);
                let range = first..first + usize::from(property.out);
                // A struct that contains itself would never end.
                if range.contains(&number) {
                    return None;
                }
                let whole = self.read_range(range, reader, numbers, &mut members, depth + 1);
                if !whole && members.0.is_empty() {
                    return None;
                }
                Value::Record(members)
            } else {
                scalar(property.kind, property.out, usize::try_from(length).ok()?, reader)?
            };
            values.push(value);
        }
        if single { values.pop() } else { Some(Value::List(values)) }
    }
}

/// One value by its `TDH_INTYPE_*`.
pub(crate) fn scalar(kind: u16, out: u16, length: usize, reader: &mut Reader<'_>) -> Option<Value> {
    /// `TDH_OUTTYPE_*`
    const OUT_STRING: u16 = 1;
    const OUT_PORT: u16 = 22;
    Some(match kind {
        1 if length > 0 => Value::Text(reader.fixed_text(length)?),
        1 => Value::Text(reader.text()?),
        2 if length > 0 => {
            let bytes = reader.take(length)?;
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(length);
            Value::Text(ansi_text(&bytes[..end]))
        }
        2 => Value::Text(reader.ansi()?),
        3 => Value::Signed(reader.signed(1)?),
        4 => Value::Unsigned(reader.unsigned(1)?),
        5 => Value::Signed(reader.signed(2)?),
        6 if out == OUT_PORT => Value::Unsigned((reader.unsigned(2)? as u16).swap_bytes().into()),
        6 => Value::Unsigned(reader.unsigned(2)?),
        7 => Value::Signed(reader.signed(4)?),
        8 | 20 => Value::Unsigned(reader.unsigned(4)?),
        9 => Value::Signed(reader.signed(8)?),
        10 | 17 | 21 => Value::Unsigned(reader.unsigned(8)?),
        11 => Value::Float(f32::from_bits(reader.unsigned(4)? as u32).into()),
        12 => Value::Float(f64::from_bits(reader.unsigned(8)?)),
        13 => Value::Flag(reader.unsigned(4)? != 0),
        14 => Value::Bytes(reader.take(length)?.to_vec()),
        15 => Value::Text(guid_text(reader.take(16)?)),
        16 | 308 => Value::Unsigned(reader.pointer()?),
        18 => Value::Text(system_time(reader.take(16)?)?),
        19 => {
            let count = usize::from(*reader.rest().get(1)?);
            Value::Text(sid_text(reader.take(8 + 4 * count)?)?)
        }
        22 | 300 => counted(reader, true, false)?,
        23 | 301 => counted(reader, false, false)?,
        302 => counted(reader, true, true)?,
        303 => counted(reader, false, true)?,
        304 => {
            let units = reader.rest().len() / 2;
            Value::Text(reader.fixed_text(units)?)
        }
        305 => Value::Text(ansi_text(reader.take(reader.rest().len())?)),
        306 => Value::Text(reader.fixed_text(1)?),
        307 if out == OUT_STRING => Value::Text(ansi_text(reader.take(1)?)),
        307 => Value::Unsigned(reader.unsigned(1)?),
        25 | 309 => {
            let length = reader.unsigned(if kind == 309 { 4 } else { 2 })?;
            Value::Bytes(reader.take(usize::try_from(length).ok()?)?.to_vec())
        }
        310 => {
            reader.take(2 * reader.pointer_size())?;
            let count = usize::from(*reader.rest().get(1)?);
            Value::Text(sid_text(reader.take(8 + 4 * count)?)?)
        }
        _ => return None,
    })
}

/// A string preceded by its length in bytes.
fn counted(reader: &mut Reader<'_>, wide: bool, reversed: bool) -> Option<Value> {
    let length = reader.unsigned(2)? as u16;
    let length = usize::from(if reversed { length.swap_bytes() } else { length });
    let bytes = reader.take(length)?;
    Some(Value::Text(if wide {
        Reader::new(bytes, 8).fixed_text(length / 2).unwrap_or_default()
    } else {
        ansi_text(bytes)
    }))
}

/// `SYSTEMTIME` as ISO 8601.
fn system_time(bytes: &[u8]) -> Option<String> {
    let part = |number: usize| u16_at(bytes, 2 * number);
    let (year, month, day) = (part(0)?, part(1)?, part(3)?);
    let (hour, minute, second, milli) = (part(4)?, part(5)?, part(6)?, part(7)?);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Properties: flags, name, kind, out, count, length.
    fn info(top_level: u32, properties: &[(u32, &str, u16, u16, u16, u16)]) -> Vec<u8> {
        let mut bytes = vec![7; 32];
        bytes.extend(5_u16.to_le_bytes());
        bytes.extend([3]);
        bytes.resize(100, 0);
        bytes.extend((properties.len() as u32).to_le_bytes());
        bytes.extend(top_level.to_le_bytes());
        bytes.extend([0; 4]);
        let mut names = Vec::new();
        let base = PROPERTIES + PROPERTY * properties.len();
        for (flags, name, kind, out, count, length) in properties {
            let offset = (base + names.len()) as u32;
            names.extend(name.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
            bytes.extend(flags.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
            for number in [*kind, *out, 0, 0, *count, *length] {
                bytes.extend(number.to_le_bytes());
            }
            bytes.extend([0; 4]);
        }
        bytes.extend(names);
        bytes
    }

    #[test]
    fn counts_lengths_and_structs_are_followed() {
        let schema = Schema::read(&info(
            3,
            &[
                (0, "n", 4, 0, 1, 1),
                (IS_STRUCT | COUNT_BY_PROPERTY, "s", 3, 2, 0, 0),
                (0, "t", 1, 0, 1, 0),
                (0, "g", 6, 0, 1, 2),
                (0, "m", 16, 0, 1, 0),
            ],
        ))
        .expect("a schema");
        assert_eq!((schema.id, schema.version), (5, 3));
        let mut payload = vec![2];
        for (group, mask) in [(0_u16, 3_u32), (1, 9)] {
            payload.extend(group.to_le_bytes());
            payload.extend(mask.to_le_bytes());
        }
        payload.extend("x\0".encode_utf16().flat_map(u16::to_le_bytes));
        assert_eq!(
            schema.fields(&payload, 4).json().to_string(),
            r#"{"n":2,"s":[{"g":0,"m":3},{"g":1,"m":9}],"t":"x"}"#
        );
        assert_eq!(schema.fields(&payload[..3], 4).0.len(), 2);
    }

    #[test]
    fn a_count_may_be_a_signed_number() {
        let counted = [(0, "n", 7, 0, 1, 4), (COUNT_BY_PROPERTY, "v", 6, 0, 0, 2)];
        let schema = Schema::read(&info(2, &counted)).expect("a schema");
        let payload = [2, 0, 0, 0, 5, 0, 6, 0, 7, 0];
        assert_eq!(schema.fields(&payload, 8).json().to_string(), r#"{"n":2,"v":[5,6]}"#);
        let none = [0xff; 8];
        assert_eq!(schema.fields(&none, 8).json().to_string(), r#"{"n":-1,"v":[]}"#);
    }

    #[test]
    fn hostile_schemas_end() {
        let own = info(1, &[(IS_STRUCT, "s", 0, 1, 1, 0)]);
        assert!(Schema::read(&own).expect("a schema").fields(&[1; 64], 8).0.is_empty());
        let many = info(1, &[(0, "a", 4, 0, u16::MAX, 1)]);
        // A name that would be repeated for each of the 65,535 empty values.
        let long = "n".repeat(20_000);
        let members = [(IS_STRUCT, "s", 1, 1, u16::MAX, 0), (0, &long, 14, 0, 1, 0)];
        assert!(
            Schema::read(&info(1, &members)).expect("a schema").fields(&[1; 8], 8).0.is_empty()
        );
        assert_eq!(Schema::read(&many).expect("a schema").fields(&[1; 3], 8).list("a").len(), 3);
        let mut cut = info(1, &[(0, "a", 4, 0, 1, 1)]);
        cut.truncate(120);
        assert!(Schema::read(&cut).is_none());
        assert!(Schema::read(&[0; 50]).is_none());
    }
}
