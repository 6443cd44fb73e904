//! Field values by name, common to all payload decoders.

use std::borrow::Cow;

use serde_json::{Map, Value as Json};

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An unsigned number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// A floating-point number.
    Float(f64),
    /// A flag.
    Flag(bool),
    /// Text.
    Text(String),
    /// Bytes without a known meaning.
    Bytes(Vec<u8>),
    /// Several values.
    List(Vec<Value>),
    /// Nested fields.
    Record(Fields),
}

/// Fields in the order of the payload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(pub Vec<(Cow<'static, str>, Value)>);

impl Fields {
    /// The value of a field.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// A non-negative number, or a flag as 0 and 1.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Value::Unsigned(value) => Some(*value),
            Value::Signed(value) => u64::try_from(*value).ok(),
            Value::Flag(value) => Some(u64::from(*value)),
            _ => None,
        }
    }

    /// A number that fits in 32 bits.
    pub fn id(&self, name: &str) -> Option<u32> {
        self.number(name).and_then(|value| u32::try_from(value).ok())
    }

    /// A flag.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.number(name).map(|value| value != 0)
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The entries of a list.
    pub fn list(&self, name: &str) -> &[Value] {
        match self.get(name) {
            Some(Value::List(values)) => values,
            _ => &[],
        }
    }

    /// As a JSON object.
    pub fn json(&self) -> Json {
        let mut object = Map::new();
        for (name, value) in &self.0 {
            object.insert(name.to_string(), value.json());
        }
        Json::Object(object)
    }
}

impl Value {
    /// As JSON, with bytes in hexadecimal.
    pub fn json(&self) -> Json {
        match self {
            Self::Unsigned(value) => (*value).into(),
            Self::Signed(value) => (*value).into(),
            Self::Float(value) => (*value).into(),
            Self::Flag(value) => (*value).into(),
            Self::Text(text) => text.as_str().into(),
            Self::Bytes(bytes) => {
                bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
            }
            Self::List(values) => values.iter().map(Self::json).collect(),
            Self::Record(fields) => fields.json(),
        }
    }
}

/// A GUID in text form.
pub(crate) fn guid_text(bytes: &[u8]) -> String {
    let Ok(b) = <[u8; 16]>::try_from(bytes) else { return String::new() };
    let hex = |range: &[u8]| range.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!(
        "{:08x}-{:04x}-{:04x}-{}-{}",
        u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
        u16::from_le_bytes([b[4], b[5]]),
        u16::from_le_bytes([b[6], b[7]]),
        hex(&b[8..10]),
        hex(&b[10..])
    )
}

/// A security identifier in text form: revision, count, authority, parts.
pub(crate) fn sid_text(bytes: &[u8]) -> Option<String> {
    let (revision, count) = (*bytes.first()?, usize::from(*bytes.get(1)?));
    let authority = bytes.get(2..8)?.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let mut text = format!("S-{revision}-{authority}");
    for part in bytes.get(8..8 + 4 * count)?.chunks_exact(4) {
        text.push_str(&format!("-{}", u32::from_le_bytes([part[0], part[1], part[2], part[3]])));
    }
    Some(text)
}
