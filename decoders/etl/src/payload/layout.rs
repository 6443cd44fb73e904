//! Payloads described in words: a sequence of `Name:type`, read without knowing the event.
//!
//! Types: `u8`..`u64`, `i8`..`i64`, `f64`, `bool` (4 bytes), `ptr`, `guid`, `text` and `ansi` (to
//! their NUL), `text[N]` and `bytes[N]` (fixed), `sid` (the user of a process), `port` and `ipv4`,
//! `ipv6` (as on the wire), `fill` (to the width of a pointer after a `u32`), the records of
//! [`ITEMS`], `T*` (as many as there are) and `T#Field` (with the count in that field). A field
//! named `-` is padding. If a payload ends early, the remaining fields are missing; bytes after the
//! last field are ignored.

use super::reader::Reader;
use super::value::{Fields, Value, guid_text, sid_text};

/// Array entries that are not plain numbers.
const ITEMS: [(&str, &str); 4] = [
    ("corruption", "Source:u32 LastGoodTime:u64"),
    ("node", "Mask:u64 Group:u16 -:bytes[6]"),
    ("processor", "Group:u16 Number:u8 -:u8"),
    ("branch", "From:ptr To:ptr Reserved:ptr"),
];

#[derive(Clone, Debug)]
enum Kind {
    Unsigned(usize),
    Signed(usize),
    Float,
    Flag,
    Pointer,
    Guid,
    Text,
    Ansi,
    FixedText(usize),
    Bytes(usize),
    Sid,
    Port,
    Ipv4,
    Ipv6,
    Fill,
    Item(Layout),
    Many(Box<Kind>),
    Counted(Box<Kind>, &'static str),
}

/// The fields of one version of an event.
#[derive(Clone, Debug)]
pub(crate) struct Layout(Vec<(&'static str, Kind)>);

/// How to read a payload whose marker is unreliable.
#[derive(Clone, Copy, Debug, Default)]
struct Quirks {
    /// `TOKEN_USER` is zeroed, but a SID follows.
    sid_behind_zero: bool,
}

impl Layout {
    /// Parses a description; `None` if it is invalid.
    pub(crate) fn parse(text: &'static str) -> Option<Self> {
        text.split_ascii_whitespace()
            .map(|field| {
                let (name, kind) = field.split_once(':')?;
                Some((name, Kind::parse(kind)?))
            })
            .collect::<Option<Vec<_>>>()
            .map(Self)
    }

    /// The fields that the payload contains.
    pub(crate) fn read(&self, reader: Reader<'_>) -> Fields {
        self.read_as(reader, Quirks::default()).0
    }

    /// The fields of a payload that a program wrote itself.
    ///
    /// Such programs put 64-bit payloads under 32-bit markers, and SIDs after an empty
    /// `TOKEN_USER`. Prefer the interpretation that ends with the payload's last byte.
    pub(crate) fn read_foreign(&self, reader: Reader<'_>) -> Fields {
        let (fields, end) = self.read_as(reader, Quirks::default());
        let whole = end.rest().is_empty();
        if whole || !self.has_sid() {
            return fields;
        }
        let other = reader.with_pointer(12 - reader.pointer_size());
        for (reader, sid_behind_zero) in [(other, false), (reader, true), (other, true)] {
            let (found, end) = self.read_as(reader, Quirks { sid_behind_zero });
            if end.rest().is_empty() && found.0.len() >= fields.0.len() {
                return found;
            }
        }
        fields
    }

    /// The payload with each text replaced by what `rename` returns for its field, and without
    /// users, addresses, GUIDs, undescribed bytes, or what follows the last field.
    pub(crate) fn rewritten(&self, reader: Reader<'_>, rename: &mut Rename<'_>) -> Vec<u8> {
        let (mut reader, mut fields, mut out) = (reader, Fields::default(), Vec::new());
        for (name, kind) in &self.0 {
            let before = reader.rest();
            let Some(value) = kind.read(&mut reader, &fields, Quirks::default()) else { break };
            let raw = before.get(..before.len() - reader.rest().len()).unwrap_or_default();
            kind.rewrite(name, &value, raw, rename, &mut out);
            if *name != "-" {
                fields.0.push(((*name).into(), value));
            }
        }
        out
    }

    /// Whether a field is a text or a user.
    pub(crate) fn has_words(&self) -> bool {
        self.0.iter().any(|(_, kind)| kind.is_word())
    }

    fn has_sid(&self) -> bool {
        self.0.iter().any(|(_, kind)| matches!(kind, Kind::Sid))
    }

    fn read_as<'a>(&self, mut reader: Reader<'a>, quirks: Quirks) -> (Fields, Reader<'a>) {
        let mut fields = Fields::default();
        for (name, kind) in &self.0 {
            let Some(value) = kind.read(&mut reader, &fields, quirks) else { break };
            if *name != "-" {
                fields.0.push(((*name).into(), value));
            }
        }
        (fields, reader)
    }
}

/// Returns what stands for the text of a field: the field's name, its text.
pub type Rename<'a> = dyn FnMut(&str, &str) -> String + 'a;

/// Fields with a wall-clock time.
const WALL_TIMES: [&str; 3] = ["CreateTime", "ExitTime", "InstallDate"];

impl Kind {
    fn is_word(&self) -> bool {
        match self {
            Self::Text | Self::Ansi | Self::FixedText(_) | Self::Sid => true,
            Self::Many(kind) | Self::Counted(kind, _) => kind.is_word(),
            _ => false,
        }
    }

    fn rewrite(
        &self,
        name: &str,
        value: &Value,
        raw: &[u8],
        rename: &mut Rename<'_>,
        out: &mut Vec<u8>,
    ) {
        match (self, value) {
            (Self::Text, Value::Text(text)) => {
                let units = rename(name, text);
                out.extend(units.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
            }
            (Self::Ansi, Value::Text(text)) => {
                out.extend(rename(name, text).into_bytes());
                out.push(0);
            }
            // No user.
            (Self::Sid, _) => out.extend([0; 4]),
            (Self::Many(kind) | Self::Counted(kind, _), Value::List(values)) if kind.is_word() => {
                for value in values {
                    kind.rewrite(name, value, &[], rename, out);
                }
            }
            (
                Self::Guid
                | Self::FixedText(_)
                | Self::Bytes(_)
                | Self::Fill
                | Self::Ipv4
                | Self::Ipv6
                | Self::Text
                | Self::Ansi,
                _,
            ) => out.resize(out.len() + raw.len(), 0),
            _ if WALL_TIMES.contains(&name) => out.resize(out.len() + raw.len(), 0),
            _ => out.extend(raw),
        }
    }

    fn parse(text: &'static str) -> Option<Self> {
        if let Some((kind, count)) = text.split_once('#') {
            return Some(Self::Counted(Box::new(Self::parse(kind)?), count));
        }
        if let Some(kind) = text.strip_suffix('*') {
            return Some(Self::Many(Box::new(Self::parse(kind)?)));
        }
        if let Some((kind, length)) = text.strip_suffix(']').and_then(|t| t.split_once('[')) {
            let length = length.parse().ok()?;
            return match kind {
                "text" => Some(Self::FixedText(length)),
                "bytes" => Some(Self::Bytes(length)),
                _ => None,
            };
        }
        if let Some((_, fields)) = ITEMS.iter().find(|(name, _)| *name == text) {
            return Layout::parse(fields).map(Self::Item);
        }
        Some(match text {
            "u8" => Self::Unsigned(1),
            "u16" => Self::Unsigned(2),
            "u32" => Self::Unsigned(4),
            "u64" => Self::Unsigned(8),
            "i8" => Self::Signed(1),
            "i16" => Self::Signed(2),
            "i32" => Self::Signed(4),
            "i64" => Self::Signed(8),
            "f64" => Self::Float,
            "bool" => Self::Flag,
            "ptr" => Self::Pointer,
            "guid" => Self::Guid,
            "text" => Self::Text,
            "ansi" => Self::Ansi,
            "sid" => Self::Sid,
            "port" => Self::Port,
            "ipv4" => Self::Ipv4,
            "ipv6" => Self::Ipv6,
            "fill" => Self::Fill,
            _ => return None,
        })
    }

    fn read(&self, reader: &mut Reader<'_>, before: &Fields, quirks: Quirks) -> Option<Value> {
        Some(match self {
            Self::Unsigned(length) => Value::Unsigned(reader.unsigned(*length)?),
            Self::Signed(length) => Value::Signed(reader.signed(*length)?),
            Self::Float => Value::Float(f64::from_bits(reader.unsigned(8)?)),
            Self::Flag => Value::Flag(reader.unsigned(4)? != 0),
            Self::Pointer => Value::Unsigned(reader.pointer()?),
            Self::Guid => Value::Text(guid_text(reader.take(16)?)),
            Self::Text => Value::Text(reader.text()?),
            Self::Ansi => Value::Text(reader.ansi()?),
            Self::FixedText(units) => Value::Text(reader.fixed_text(*units)?),
            Self::Bytes(length) => Value::Bytes(reader.take(*length)?.to_vec()),
            Self::Sid => Value::Text(sid(reader, quirks)?),
            Self::Port => {
                let bytes = reader.take(2)?;
                Value::Unsigned(u64::from(u16::from_be_bytes([bytes[0], bytes[1]])))
            }
            Self::Ipv4 => {
                let bytes = <[u8; 4]>::try_from(reader.take(4)?).ok()?;
                Value::Text(std::net::Ipv4Addr::from(bytes).to_string())
            }
            Self::Ipv6 => {
                let bytes = <[u8; 16]>::try_from(reader.take(16)?).ok()?;
                Value::Text(std::net::Ipv6Addr::from(bytes).to_string())
            }
            Self::Fill => Value::Bytes(reader.take(reader.pointer_size() - 4)?.to_vec()),
            Self::Item(layout) => {
                let (fields, after) = layout.read_as(*reader, quirks);
                let whole = layout.0.iter().filter(|(name, _)| *name != "-").count();
                if fields.0.len() < whole || after.position() == reader.position() {
                    return None;
                }
                *reader = after;
                Value::Record(fields)
            }
            Self::Many(kind) => {
                let mut values = Vec::new();
                while !reader.rest().is_empty()
                    && let Some(value) = kind.read(reader, before, quirks)
                {
                    values.push(value);
                }
                Value::List(values)
            }
            Self::Counted(kind, field) => {
                let mut values = Vec::new();
                for _ in 0..before.number(field)? {
                    if reader.rest().is_empty() {
                        break;
                    }
                    let Some(value) = kind.read(reader, before, quirks) else { break };
                    values.push(value);
                }
                Value::List(values)
            }
        })
    }
}

/// The user of a process: 4 zero bytes for none, else `TOKEN_USER` (two pointers) and the SID.
fn sid(reader: &mut Reader<'_>, quirks: Quirks) -> Option<String> {
    let first = reader.rest().get(..4)?;
    if first == [0; 4] && !quirks.sid_behind_zero {
        reader.take(4)?;
        return Some(String::new());
    }
    let mut ahead = *reader;
    ahead.take(2 * ahead.pointer_size())?;
    let count = usize::from(*ahead.rest().get(1)?);
    let text = sid_text(ahead.take(8 + 4 * count)?)?;
    *reader = ahead;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(layout: &'static str, bytes: &[u8]) -> String {
        let layout = Layout::parse(layout).expect("a layout");
        layout.read(Reader::new(bytes, 8)).json().to_string()
    }

    #[test]
    fn fields_follow_each_other() {
        assert_eq!(read("a:u8 -:u8 b:i16 c:text", &[1, 9, 0xfe, 0xff]), r#"{"a":1,"b":-2}"#);
        assert_eq!(read("n:u8 v:u16#n w:u8*", &[2, 1, 0, 2, 0, 7, 8]), {
            r#"{"n":2,"v":[1,2],"w":[7,8]}"#
        });
        assert_eq!(read("n:u32 v:processor#n", &[9, 0, 0, 0, 1, 0, 2, 0, 3]), {
            r#"{"n":9,"v":[{"Group":1,"Number":2}]}"#
        });
    }

    #[test]
    fn rewritten_payload_has_other_words_and_no_user_guid_or_rest() {
        let layout = Layout::parse("a:u16 u:sid n:ansi p:text g:guid CreateTime:u64 c:text#a");
        let layout = layout.expect("a layout");
        let text = |text: &str| -> Vec<u8> {
            text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
        };
        let user = [&[7; 16][..], &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0]].concat();
        let rest = [text("path"), vec![9; 24], text("x"), text("y"), b"secret".to_vec()];
        let payload = [&[2, 0][..], &user, b"game\0", &rest.concat()].concat();
        let mut rename = |field: &str, text: &str| format!("{field}{}", text.len());
        let made = layout.rewritten(Reader::new(&payload, 8), &mut rename);
        let rest = [text("p4"), vec![0; 24], text("c1"), text("c1")].concat();
        assert_eq!(made, [&[2, 0][..], &[0; 4], b"n4\0", &rest].concat());
        assert!(layout.has_words());
    }

    #[test]
    fn count_from_the_payload_is_bounded_by_its_size() {
        assert_eq!(read("n:u32 v:u8#n", &[255; 6]), r#"{"n":4294967295,"v":[255,255]}"#);
    }

    #[test]
    fn invalid_descriptions_are_refused() {
        for text in ["a", "a:u7", "a:text[x]", "a:ptr[3]"] {
            assert!(Layout::parse(text).is_none(), "{text}");
        }
    }
}
