//! Text columns: plain, or dictionaries with keys of any type.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt8Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, LargeStringArray, StringArray, UInt8Array};
use arrow_schema::DataType;

use super::error::TableFault;

/// A dictionary of texts uses one byte per row.
const MOST_WORDS: usize = 256;
/// A short text in a dictionary may repeat in every row; more than this is not unpacked.
const MOST_BYTES: usize = 1 << 28;

/// The type of a text column's texts.
pub(super) fn plain_type(kind: &DataType) -> Option<&DataType> {
    let plain = match kind {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    matches!(plain, DataType::Utf8 | DataType::LargeUtf8).then_some(plain)
}

enum Values<'a> {
    Plain(&'a StringArray),
    Large(&'a LargeStringArray),
}

/// A text column of a file.
struct Texts<'a> {
    /// The row of the dictionary for each row; `None` for plain texts.
    keys: Option<(&'a dyn Array, Vec<usize>)>,
    values: Values<'a>,
    rows: usize,
}

impl<'a> Texts<'a> {
    fn of(array: &'a dyn Array) -> Result<Self, TableFault> {
        let rows = array.len();
        let (keys, values): (_, &dyn Array) = match array.as_any_dictionary_opt() {
            // Without any word, every row is NULL.
            Some(words) if words.values().is_empty() => {
                (Some((words.keys(), vec![0; rows])), { words.values() })
            }
            Some(words) => (Some((words.keys(), words.normalized_keys())), words.values()),
            None => (None, array),
        };
        let any = values.as_any();
        let values = match (any.downcast_ref(), any.downcast_ref()) {
            (Some(texts), _) => Values::Plain(texts),
            (_, Some(texts)) => Values::Large(texts),
            _ => return Err(TableFault::Unfit { why: format!("{} texts", array.data_type()) }),
        };
        Ok(Self { keys, values, rows })
    }

    /// The place of a row's text; `None` if it is NULL.
    fn place(&self, row: usize) -> Option<usize> {
        let place = match &self.keys {
            Some((keys, places)) if keys.is_valid(row) => *places.get(row)?,
            Some(_) => return None,
            None => row,
        };
        let is_valid = match self.values {
            Values::Plain(texts) => place < texts.len() && texts.is_valid(place),
            Values::Large(texts) => place < texts.len() && texts.is_valid(place),
        };
        is_valid.then_some(place)
    }

    fn text(&self, place: usize) -> &'a str {
        match self.values {
            Values::Plain(texts) => texts.value(place),
            Values::Large(texts) => texts.value(place),
        }
    }

    fn get(&self, row: usize) -> Option<&'a str> {
        self.place(row).map(|place| self.text(place))
    }
}

/// Text columns of several batches as one plain column.
pub(super) fn unpacked(parts: &[ArrayRef], column: &'static str) -> Result<ArrayRef, TableFault> {
    let parts: Vec<Texts<'_>> =
        parts.iter().map(|part| Texts::of(part.as_ref())).collect::<Result<_, _>>()?;
    let rows = || parts.iter().flat_map(|part| (0..part.rows).map(|row| part.get(row)));
    let bytes = rows().flatten().map(str::len).fold(0, usize::saturating_add);
    if bytes > MOST_BYTES {
        return Err(TableFault::TextBytes { column, most: MOST_BYTES });
    }
    Ok(Arc::new(rows().collect::<StringArray>()))
}

/// Text columns of several batches as one dictionary with one byte per row.
pub(super) fn words(parts: &[ArrayRef], column: &'static str) -> Result<ArrayRef, TableFault> {
    if let [part] = parts
        && let Some(found) = part.as_any().downcast_ref::<DictionaryArray<UInt8Type>>()
        && let Some(texts) = found.values().as_any().downcast_ref::<StringArray>()
        && texts.null_count() == 0
        && !texts.is_empty()
    {
        return Ok(Arc::clone(part));
    }
    let mut dictionary: HashMap<&str, u8> = HashMap::new();
    let mut keys: Vec<Option<u8>> = Vec::new();
    for part in parts {
        let texts = Texts::of(part.as_ref())?;
        // Many rows have the text of the row before them.
        let mut latest: Option<(usize, u8)> = None;
        for row in 0..texts.rows {
            let Some(place) = texts.place(row) else {
                keys.push(None);
                continue;
            };
            if let Some((_, key)) = latest
                .filter(|(before, _)| *before == place || texts.text(*before) == texts.text(place))
            {
                keys.push(Some(key));
                continue;
            }
            let next = dictionary.len();
            let key = *dictionary.entry(texts.text(place)).or_insert(next as u8);
            if dictionary.len() > MOST_WORDS {
                return Err(TableFault::Words { column });
            }
            latest = Some((place, key));
            keys.push(Some(key));
        }
    }
    let mut words: Vec<(&str, u8)> = dictionary.into_iter().collect();
    words.sort_unstable_by_key(|(_, key)| *key);
    if words.is_empty() {
        words.push(("", 0));
    }
    let words: StringArray = words.into_iter().map(|(word, _)| Some(word)).collect();
    let array = DictionaryArray::<UInt8Type>::try_new(UInt8Array::from(keys), Arc::new(words));
    Ok(Arc::new(array.map_err(|error| TableFault::Unfit { why: error.to_string() })?))
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;

    use super::*;

    fn of(array: &ArrayRef) -> Vec<Option<String>> {
        let texts = Texts::of(array.as_ref()).expect("texts");
        (0..texts.rows).map(|row| texts.get(row).map(str::to_owned)).collect()
    }

    fn parts() -> Vec<ArrayRef> {
        let keyed: DictionaryArray<Int32Type> =
            vec![Some("a"), None, Some("b"), Some("a")].into_iter().collect();
        vec![
            Arc::new(keyed),
            Arc::new(StringArray::from(vec![Some("c"), None, Some("b")])),
            Arc::new(LargeStringArray::from(vec![Some("a"), Some("d")])),
        ]
    }

    #[test]
    fn texts_of_any_type_become_one_column() {
        let expected = ["a", "-", "b", "a", "c", "-", "b", "a", "d"];
        let expected = expected.map(|text| (text != "-").then(|| text.to_owned()));
        assert_eq!(of(&unpacked(&parts(), "x").expect("unpacked")), expected);
        let words = words(&parts(), "x").expect("encoded");
        assert_eq!(of(&words), expected);
        assert_eq!(words.as_any_dictionary().values().len(), 4);
    }

    #[test]
    fn dictionary_without_words_has_only_nulls() {
        let empty: DictionaryArray<Int32Type> = vec![None::<&str>; 2].into_iter().collect();
        let parts: Vec<ArrayRef> = vec![Arc::new(empty)];
        assert_eq!(of(&words(&parts, "x").expect("encoded")), [None, None]);
        assert_eq!(of(&unpacked(&parts, "x").expect("unpacked")), [None, None]);
    }

    #[test]
    fn too_many_words_and_too_long_texts_are_refused() {
        let many: StringArray = (0..=MOST_WORDS).map(|word| Some(word.to_string())).collect();
        let all: ArrayRef = Arc::new(many);
        assert!(words(&[all.slice(0, MOST_WORDS)], "x").is_ok());
        assert!(matches!(words(&[all], "x"), Err(TableFault::Words { column: "x" })));
        let long = "x".repeat(MOST_BYTES / 1000 + 1);
        let repeated: DictionaryArray<Int32Type> = vec![&*long; 1000].into_iter().collect();
        let refused = unpacked(&[Arc::new(repeated)], "x");
        assert!(matches!(refused, Err(TableFault::TextBytes { .. })));
    }
}
