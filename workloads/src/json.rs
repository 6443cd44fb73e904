//! Writes the simple JSON that this program needs.

use std::fmt::{self, Write as _};

/// A JSON value; objects keep the order in which keys were added.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i128),
    Real(f64),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// An object from pairs of key and value.
    pub fn object<K: Into<String>>(pairs: impl IntoIterator<Item = (K, Value)>) -> Value {
        Value::Object(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// A list of values.
    pub fn list<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Value {
        Value::List(items.into_iter().map(Into::into).collect())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Value::Real(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Value::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Value::Text(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

macro_rules! from_integer {
    ($($kind:ty),+) => {$(
        impl From<$kind> for Value {
            fn from(value: $kind) -> Self {
                Value::Int(value as i128)
            }
        }
    )+};
}

from_integer!(u16, u32, u64, usize, i32, i64);

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => out.write_str("null"),
            Value::Bool(value) => write!(out, "{value}"),
            Value::Int(value) => write!(out, "{value}"),
            // JSON cannot represent infinity or NaN.
            Value::Real(value) if !value.is_finite() => out.write_str("null"),
            Value::Real(value) => write!(out, "{value:?}"),
            Value::Text(value) => write_text(out, value),
            Value::List(items) => {
                out.write_char('[')?;
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.write_str(", ")?;
                    }
                    write!(out, "{item}")?;
                }
                out.write_char(']')
            }
            Value::Object(pairs) => {
                out.write_char('{')?;
                for (index, (key, value)) in pairs.iter().enumerate() {
                    if index > 0 {
                        out.write_str(", ")?;
                    }
                    write_text(out, key)?;
                    write!(out, ": {value}")?;
                }
                out.write_char('}')
            }
        }
    }
}

fn write_text(out: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    out.write_char('"')?;
    for letter in text.chars() {
        match letter {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            control if (control as u32) < 0x20 => write!(out, "\\u{:04x}", control as u32)?,
            plain => out.write_char(plain)?,
        }
    }
    out.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn values_are_written_as_json() {
        let value = Value::object([
            ("text", Value::from("a\"b\\c\n\u{1}é")),
            ("numbers", Value::list([1_u64, u64::MAX])),
            ("real", Value::from(0.5)),
            ("whole", Value::from(2.0)),
            ("huge", Value::from(1e300)),
            ("nan", Value::from(f64::NAN)),
            ("none", Value::from(None::<bool>)),
        ]);
        assert_eq!(
            value.to_string(),
            "{\"text\": \"a\\\"b\\\\c\\n\\u0001é\", \"numbers\": [1, 18446744073709551615], \
             \"real\": 0.5, \"whole\": 2.0, \"huge\": 1e300, \"nan\": null, \"none\": null}"
        );
    }
}
