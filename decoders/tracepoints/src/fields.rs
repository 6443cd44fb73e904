//! All fields of a tracepoint by name.

use schedlens_input::bytes::{text, u32_at};
use serde_json::{Map, Value as Json};

use crate::formats::{Field, Format};

/// The fields without the common ones; `None` if the data ends before one of them.
pub fn own(format: &Format, raw: &[u8]) -> Option<Map<String, Json>> {
    let own = format.fields.iter().filter(|field| !field.name.starts_with("common_"));
    own.map(|field| Some((field.name.clone(), value(field, raw)?))).collect()
}

/// A number, a text, or the bytes in hexadecimal; `None` if the data ends before the field.
fn value(field: &Field, raw: &[u8]) -> Option<Json> {
    let bytes = if field.data_loc {
        // Length in the upper half, offset in the lower one.
        let place = u32_at(raw, field.offset)?;
        let (offset, length) = ((place & 0xffff) as usize, (place >> 16) as usize);
        raw.get(offset..offset + length)?
    } else {
        raw.get(field.offset..field.offset.checked_add(field.size)?)?
    };
    if field.is_text {
        return Some(text(bytes).into());
    }
    let number = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let unused = 64 - 8 * bytes.len() as u32;
        let number = u64::from_le_bytes(wide);
        let signed = (number << unused).cast_signed() >> unused;
        if field.signed { Json::from(signed) } else { Json::from(number) }
    };
    Some(match bytes.len() {
        1 | 2 | 4 | 8 if !field.data_loc => number(bytes),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
    })
}
