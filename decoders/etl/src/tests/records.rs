//! Records of every header kind, as bytes.

use crate::guid::Guid;
use crate::records::head::{Fault, Head};
use crate::records::record::{EXT_COUNTERS, EXT_TRAITS};
use crate::records::{Id, Kind, Place, Pointer, Record};

const PLACE: Place = Place { file: 0, buffer: 3, at: 72 };

fn read(bytes: &[u8]) -> Record<'_> {
    let head = Head::at(bytes, 0, 7).expect("a record");
    assert_eq!(head.size as usize, bytes.len());
    if let Some(usual) = Head::usual(bytes, 0) {
        assert_eq!(usual, head);
    }
    head.record(bytes, 0, (Some(3), PLACE))
}

fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16))
        .collect::<Result<_, _>>()
        .expect("hex")
}

#[test]
fn perfinfo_counters_and_pebs_precede_the_payload() {
    // Version 4, two counters, 64 bit, size 36, hook 0524.
    let two =
        bytes("0402 11c0 2400 2405 0100000000000000 380f000000000000 b824000000000000 e9000000");
    let record = read(&two);
    assert_eq!((record.kind, record.pointer, record.version), (Kind::PerfInfo, Pointer::Eight, 4));
    assert_eq!((record.id, record.ts, record.cpu), (Id::Hook(0x524), 1, Some(3)));
    assert_eq!((record.tid, record.pid), (None, None));
    assert_eq!(
        (record.counter(0), record.counter(1), record.counter(2)),
        (Some(0xf38), Some(0x24b8), None)
    );
    assert_eq!(record.payload, [0xe9, 0, 0, 0]);
    let pebs =
        bytes("0481 10c0 2400 2405 0100000000000000 ffffffffffffffff 0500000000000000 e9000000");
    let record = read(&pebs);
    assert_eq!(
        (record.pointer, record.counter(0), record.counter(1)),
        (Pointer::Four, Some(5), None)
    );
    assert_eq!(record.payload, [0xe9, 0, 0, 0]);
}

#[test]
fn system_and_compact_headers_differ_in_two_times() {
    let system = bytes("0200 02c0 2100 3205 0500000004000000 0900000000000000 0300000004000000 aa");
    let compact = bytes("0200 03c0 1900 3205 0500000004000000 0900000000000000 aa");
    for (bytes, kind, pointer) in
        [(&system, Kind::System, Pointer::Eight), (&compact, Kind::Compact, Pointer::Four)]
    {
        let record = read(bytes);
        assert_eq!((record.kind, record.pointer, record.id), (kind, pointer, Id::Hook(0x532)));
        assert_eq!((record.tid, record.pid, record.ts, record.version), (Some(5), Some(4), 9, 2));
        assert_eq!(record.payload, [0xaa]);
    }
}

#[test]
fn classic_headers_carry_class_and_opcode() {
    let class = "d0a86f3d05fed0119dda00c04fd7ba7c";
    let full = bytes(&format!(
        "3200 14c0 03000400 05000000 04000000 0900000000000000 {class} 0000000000000000 aabb"
    ));
    let record = read(&full);
    let class = Guid::from_text_order(0x3d6fa8d0_fe05_11d0_9dda_00c04fd7ba7c);
    assert_eq!((record.kind, record.id), (Kind::Full, Id::Classic { class, opcode: 3 }));
    assert_eq!((record.version, record.tid, record.pid, record.ts), (4, Some(5), Some(4), 9));
    assert_eq!(record.payload, [0xaa, 0xbb]);
    let mut instance = full.clone();
    instance[0] = 0x4a;
    instance[2] = 11;
    instance.splice(48..48, [0; 24]);
    let record = read(&instance);
    assert_eq!(
        (record.kind, record.pointer, record.payload),
        (Kind::Instance, Pointer::Four, &[0xaa, 0xbb][..])
    );
}

fn event(items: &str) -> Vec<u8> {
    let provider = "9efe670f51ff6e4eb4906f2948cc6027".to_owned();
    let head = format!(
        "0000 13c0 01000000 05000000 04000000 0900000000000000 {provider} 0a00 02 00 04 01 0700 0800000000000000"
    );
    let mut event = bytes(&(head + &"00".repeat(24) + items));
    event[0] = event.len() as u8;
    event
}

#[test]
fn extended_items_are_between_header_and_payload() {
    let event = event(
        "1800 0800 0100 1000 01000000000000000200000000000000 1000 0c00 0000 0300 616200 0000000000 ff",
    );
    let record = read(&event);
    let provider = Guid::from_text_order(0x0f67fe9e_ff51_4e6e_b490_6f2948cc6027);
    assert_eq!(record.id, Id::Event { provider, id: 10, opcode: 1, task: 7, keyword: 8 });
    assert_eq!((record.version, record.payload), (2, &[0xff][..]));
    assert_eq!((record.counter(0), record.counter(1)), (Some(1), Some(2)));
    let kinds: Vec<_> = record.extended.map(|item| (item.kind, item.data.len())).collect();
    assert_eq!(kinds, [(EXT_COUNTERS, 16), (EXT_TRAITS, 3)]);
}

#[test]
fn items_that_do_not_fit_are_refused() {
    for items in ["1000 0c00 0000 1000 00000000", "0800 0c00 0100 0000", "ff00 0c00 0000 0000"] {
        let event = event(items);
        let stride = event.len().next_multiple_of(8);
        assert_eq!(Head::at(&event, 0, 7).err(), Some(Fault::Items { stride }), "{items}");
    }
}

#[test]
fn messages_contain_the_parts_in_their_flags() {
    let message =
        bytes("2200 0090 0c00 2900 01000000 0900000000000000 05000000 04000000 aabbccddeeff");
    let record = read(&message);
    assert_eq!((record.kind, record.id), (Kind::Message, Id::Message { class: None, number: 12 }));
    assert_eq!((record.ts, record.tid, record.pid), (9, Some(5), Some(4)));
    assert_eq!(record.payload.len(), 6);
    let bare = bytes("0800 0090 0c00 0000");
    assert_eq!(read(&bare).ts, 7);
}

#[test]
fn invalid_sizes_and_markers_are_refused() {
    let fault = |text: &str| {
        assert_eq!(Head::usual(&bytes(text), 0), None);
        Head::at(&bytes(text), 0, 7).err()
    };
    assert_eq!(fault("0402 11c0 1000 2405 0100000000000000"), Some(Fault::Size));
    assert_eq!(fault("0400 11c0 4000 2405 0100000000000000"), Some(Fault::Size));
    assert_eq!(fault("0400 11c0 1000"), Some(Fault::Size));
    assert_eq!(fault("ffffffff ffffffff"), Some(Fault::Marker));
    assert_eq!(fault("0000000000000000"), Some(Fault::Marker));
    assert_eq!(fault("1000 63c0 00000000"), Some(Fault::Marker));
    assert_eq!(fault("0400 0090 0c00 0000"), Some(Fault::Size));
    assert_eq!(fault("0800 0090 0c00 0800"), Some(Fault::Size));
}
