//! Protocol buffers: fields appended to a message.

/// A message in the making.
#[derive(Clone, Debug, Default)]
pub struct Message {
    bytes: Vec<u8>,
}

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

impl Message {
    /// The encoded fields.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether no field was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes all fields and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// An unsigned number, a boolean or an enum.
    pub fn uint(&mut self, field: u64, value: u64) {
        varint(&mut self.bytes, field << 3 | VARINT);
        varint(&mut self.bytes, value);
    }

    /// `int32` or `int64`: negative numbers take ten bytes.
    pub fn int(&mut self, field: u64, value: i64) {
        self.uint(field, value as u64);
    }

    /// `fixed64`.
    pub fn fixed64(&mut self, field: u64, value: u64) {
        varint(&mut self.bytes, field << 3 | FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// `double`.
    pub fn double(&mut self, field: u64, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    /// A text, or bytes such as packed numbers.
    pub fn bytes_field(&mut self, field: u64, value: &[u8]) {
        varint(&mut self.bytes, field << 3 | LENGTH_DELIMITED);
        varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    /// A text.
    pub fn text(&mut self, field: u64, value: &str) {
        self.bytes_field(field, value.as_bytes());
    }

    /// A message inside this one.
    pub fn message(&mut self, field: u64, value: &Self) {
        self.bytes_field(field, &value.bytes);
    }
}

/// Appends a number in base 128, lowest digits first.
pub fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// Appends `TracePacket`s to a trace (`Trace.packet`).
pub fn packet(trace: &mut Vec<u8>, packet: &Message) {
    trace.push(1 << 3 | LENGTH_DELIMITED as u8);
    varint(trace, packet.bytes.len() as u64);
    trace.extend_from_slice(&packet.bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_encoded_as_the_format_documents() {
        let mut inner = Message::default();
        inner.uint(1, 150);
        let mut outer = Message::default();
        outer.message(3, &inner);
        outer.text(2, "hi");
        outer.int(1, -1);
        outer.fixed64(47, 1);
        let expected = [
            &[0x1a, 3, 8, 0x96, 1][..],
            &[0x12, 2, b'h', b'i'],
            &[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],
            &[0xf9, 2, 1, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(outer.bytes(), expected.concat());
        let mut trace = Vec::new();
        packet(&mut trace, &inner);
        assert_eq!(trace, [0x0a, 3, 8, 0x96, 1]);
    }
}
