//! TraceLogging: events that contain the names and types of their fields.

use super::reader::{Reader, ansi_text};
use super::schema::scalar;
use super::value::{Fields, Value};

const STRUCT: u8 = 24;
const FIXED_COUNT: u8 = 0x20;
const VARIABLE_COUNT: u8 = 0x40;
const CUSTOM: u8 = 0x60;
/// Maximum nesting of structs; more means damaged data.
const DEEPEST: usize = 8;

struct Field {
    name: String,
    kind: u8,
    out: u8,
    /// Elements: one, a fixed number, or a number from the payload.
    count: Count,
}

#[derive(Clone, Copy)]
enum Count {
    One,
    Fixed(u16),
    InPayload,
}

/// Name and fields of an event; `metadata` is its extended item `EVENT_SCHEMA_TL`.
pub(crate) fn read(metadata: &[u8], payload: &[u8], pointer: usize) -> Option<(String, Fields)> {
    let size = usize::from(u16::from_le_bytes(*metadata.first_chunk()?));
    let mut schema = Reader::new(metadata.get(2..size.min(metadata.len()))?, pointer);
    skip_tags(&mut schema)?;
    let name = schema.ansi()?;
    let mut described = Vec::new();
    while !schema.rest().is_empty() {
        let Some(field) = field(&mut schema) else { break };
        described.push(field);
    }
    let mut fields = Fields::default();
    let mut data = Reader::new(payload, pointer);
    let mut next = 0;
    while next < described.len() {
        let Some((value, after)) = value(&described, next, &mut data, 0) else { break };
        fields.0.push((described[next].name.clone().into(), value));
        next = after;
    }
    Some((name, fields))
}

/// Bytes of an event's name; `metadata` as for [`read`].
pub(crate) fn name(metadata: &[u8]) -> Option<&[u8]> {
    let size = usize::from(u16::from_le_bytes(*metadata.first_chunk()?));
    let rest = metadata.get(2..size.min(metadata.len()))?;
    let tags = rest.iter().position(|byte| byte & 0x80 == 0)? + 1;
    let rest = rest.get(tags..)?;
    rest.get(..rest.iter().position(|byte| *byte == 0)?)
}

/// A name as text.
pub(crate) fn text(name: &[u8]) -> String {
    ansi_text(name)
}

/// Name of a provider; `traits` is the extended item `PROV_TRAITS`.
pub(crate) fn provider(traits: &[u8]) -> Option<String> {
    let rest = traits.get(2..)?;
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    Some(ansi_text(&rest[..end]))
}

fn skip_tags(schema: &mut Reader<'_>) -> Option<()> {
    while schema.unsigned(1)? & 0x80 != 0 {}
    Some(())
}

fn field(schema: &mut Reader<'_>) -> Option<Field> {
    let name = schema.ansi()?;
    let kind = schema.unsigned(1)? as u8;
    let mut out = 0;
    if kind & 0x80 != 0 {
        let byte = schema.unsigned(1)? as u8;
        out = byte & 0x7f;
        if byte & 0x80 != 0 {
            skip_tags(schema)?;
        }
    }
    let count = match kind & CUSTOM {
        FIXED_COUNT => Count::Fixed(schema.unsigned(2)? as u16),
        VARIABLE_COUNT => Count::InPayload,
        CUSTOM => {
            let size = schema.unsigned(2)?;
            schema.take(usize::try_from(size).ok()?)?;
            Count::One
        }
        _ => Count::One,
    };
    Some(Field { name, kind: kind & 0x1f, out, count })
}

/// The value of a field and the number of the next field.
fn value(
    described: &[Field],
    number: usize,
    data: &mut Reader<'_>,
    depth: usize,
) -> Option<(Value, usize)> {
    let field = described.get(number)?;
    data.count(&field.name)?;
    let members = if field.kind == STRUCT { usize::from(field.out) } else { 0 };
    let one = |data: &mut Reader<'_>| -> Option<(Value, usize)> {
        if field.kind != STRUCT {
            return Some((single(field.kind, data)?, number + 1));
        }
        if depth >= DEEPEST {
            return None;
        }
        let mut fields = Fields::default();
        let mut next = number + 1;
        for _ in 0..members {
            let (found, after) = value(described, next, data, depth + 1)?;
            fields.0.push((described[next].name.clone().into(), found));
            next = after;
        }
        Some((Value::Record(fields), next))
    };
    let count = match field.count {
        Count::One => return one(data),
        Count::Fixed(count) => usize::from(count),
        Count::InPayload => data.unsigned(2)? as usize,
    };
    let mut values = Vec::new();
    let mut next = behind(described, number, depth)?;
    for _ in 0..count {
        if data.rest().is_empty() {
            break;
        }
        data.count("")?;
        let (found, after) = one(data)?;
        values.push(found);
        next = after;
    }
    Some((Value::List(values), next))
}

/// The number of the field after one and its members.
fn behind(described: &[Field], number: usize, depth: usize) -> Option<usize> {
    let field = described.get(number)?;
    let mut next = number + 1;
    if field.kind == STRUCT {
        if depth >= DEEPEST {
            return None;
        }
        for _ in 0..field.out {
            next = behind(described, next, depth + 1)?;
        }
    }
    Some(next)
}

fn single(kind: u8, data: &mut Reader<'_>) -> Option<Value> {
    match kind {
        0 => Some(Value::Bytes(Vec::new())),
        14 => {
            let length = data.unsigned(2)? as usize;
            Some(Value::Bytes(data.take(length)?.to_vec()))
        }
        _ => scalar(kind.into(), 0, 0, data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(fields: &[u8]) -> Vec<u8> {
        let mut body = vec![0];
        body.extend(b"Event\0");
        body.extend(fields);
        let mut metadata = ((body.len() + 2) as u16).to_le_bytes().to_vec();
        metadata.extend(body);
        metadata
    }

    #[test]
    fn strings_arrays_and_structs_follow_the_metadata() {
        let metadata =
            described(b"text\0\x02wide\0\x81\x01list\0\x46pair\0\x98\x02a\0\x04b\0\x03last\0\x0d");
        let mut payload = b"hi\0".to_vec();
        payload.extend("w\0".encode_utf16().flat_map(u16::to_le_bytes));
        payload.extend([2, 0, 1, 0, 2, 0, 9, 0xff, 1, 0, 0, 0]);
        let (name, fields) = read(&metadata, &payload, 8).expect("an event");
        assert_eq!(name, "Event");
        assert_eq!(
            fields.json().to_string(),
            r#"{"last":true,"list":[1,2],"pair":{"a":9,"b":-1},"text":"hi","wide":"w"}"#
        );
        assert_eq!(read(&metadata, &payload[..4], 8).expect("a part").1.0.len(), 1);
    }

    #[test]
    fn hostile_metadata_ends() {
        let mut deep = Vec::new();
        for _ in 0..40 {
            deep.extend(b"s\0\x98\x01");
        }
        assert!(read(&described(&deep), &[1; 8], 8).expect("an event").1.0.is_empty());
        assert!(read(&[9], &[], 8).is_none());
        assert!(read(&[0, 0], &[], 8).is_none());
        let tags = [0xff; 40];
        assert!(read(&tags, &[], 8).is_none());
    }

    #[test]
    fn values_without_bytes_are_limited() {
        // Structs of eight lists, each of as many empty values as 16 bits can count.
        let empty = b"e\0\x20\xff\xff".repeat(8);
        let fields = [b"s\0\xb8\x08\xff\xff".as_slice(), &empty].concat();
        assert!(read(&described(&fields), &[1; 8], 8).expect("an event").1.0.is_empty());
    }

    #[test]
    fn repeated_names_are_limited() {
        // Its name would be repeated for each of the 65,535 structs.
        let long = [&[b'n'; 20_000][..], b"\0\x00"].concat();
        let fields = [b"s\0\xb8\x01\xff\xff".as_slice(), &long].concat();
        assert!(read(&described(&fields), &[1; 8], 8).expect("an event").1.0.is_empty());
    }

    #[test]
    fn largest_list_of_small_structs_is_read() {
        let metadata = described(b"pairs\0\xd8\x02first\0\x04second\0\x04");
        let payload = [&[0xff, 0x7f][..], &[7; 2 * 0x7fff]].concat();
        let (_, fields) = read(&metadata, &payload, 8).expect("an event");
        assert_eq!(fields.list("pairs").len(), 0x7fff);
    }
}
