//! Slices and instants on tracks (`TrackEvent`), with arguments.

use crate::TRACK_SEQUENCE;
use crate::message::{Message, packet};

/// The value of an argument.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A text.
    Text(&'a str),
    /// A number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// Yes or no.
    Bool(bool),
}

/// A slice, or an instant.
#[derive(Clone, Debug)]
pub struct Slice<'a> {
    /// `TrackDescriptor.uuid`.
    pub track: u64,
    /// Start, ns.
    pub ts: i64,
    /// Length, ns; None: an instant.
    pub dur: Option<i64>,
    /// Text on it.
    pub name: &'a str,
    /// The arrow that begins here.
    pub flow: Option<u64>,
    /// The arrow that ends here.
    pub flow_end: Option<u64>,
    /// Names and values.
    pub arguments: Vec<(&'a str, Value<'a>)>,
}

const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;

/// Appends the packets of a slice.
pub fn write(trace: &mut Vec<u8>, slice: &Slice<'_>) {
    let mut event = Message::default();
    event.uint(9, if slice.dur.is_some() { BEGIN } else { INSTANT });
    event.uint(11, slice.track);
    event.text(23, slice.name);
    for (name, value) in &slice.arguments {
        let mut argument = Message::default();
        argument.text(10, name);
        match value {
            Value::Text(text) => argument.text(6, text),
            Value::Int(number) => argument.int(4, *number),
            Value::Float(number) => argument.double(5, *number),
            Value::Bool(yes) => argument.uint(2, u64::from(*yes)),
        }
        event.message(4, &argument);
    }
    if let Some(flow) = slice.flow {
        event.fixed64(47, flow);
    }
    if let Some(flow) = slice.flow_end {
        event.fixed64(48, flow);
    }
    at(trace, slice.ts, &event);
    if let Some(dur) = slice.dur {
        let mut end = Message::default();
        end.uint(9, END);
        end.uint(11, slice.track);
        at(trace, slice.ts.saturating_add(dur), &end);
    }
}

fn at(trace: &mut Vec<u8>, ts: i64, event: &Message) {
    let mut whole = Message::default();
    whole.int(8, ts);
    whole.uint(10, TRACK_SEQUENCE);
    whole.message(11, event);
    packet(trace, &whole);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slice_is_a_begin_and_an_end() {
        let mut trace = Vec::new();
        let arguments = vec![("n", Value::Int(5))];
        let name = "x";
        let slice =
            Slice { track: 9, ts: 1, dur: Some(2), name, flow: None, flow_end: None, arguments };
        write(&mut trace, &slice);
        let begin = [
            &[0x0a, 21, 0x40, 1, 0x50, 2, 0x5a, 15, 0x48, 1, 0x58, 9, 0xba, 1, 1, b'x'][..],
            &[0x22, 5, 0x52, 1, b'n', 0x20, 5],
        ];
        assert!(trace.starts_with(&begin.concat()));
        assert!(trace.ends_with(&[0x40, 3, 0x50, 2, 0x5a, 4, 0x48, 2, 0x58, 9]));
    }
}
