//! Objects and lists of JSON from iterators.

use serde_json::Value;

/// An object from pairs of key and value.
pub fn object<K: Into<String>>(pairs: impl IntoIterator<Item = (K, Value)>) -> Value {
    Value::Object(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

/// A list of values.
pub fn list<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Value {
    Value::Array(items.into_iter().map(Into::into).collect())
}
