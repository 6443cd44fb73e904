//! Finds the layout of a kernel event.

use std::collections::HashMap;
use std::sync::OnceLock;

use schedlens_input::bytes::u32_at;

use super::layout::Layout;
use super::reader::Reader;
use super::switching::{CSwitch, ReadyThread};
use super::value::Fields;
use super::{kernel_layouts, system_layouts};

/// Layouts of one hook: first version, name, fields.
type Versions = Vec<(u8, &'static str, Layout)>;

struct Known {
    hooks: HashMap<u16, Versions>,
    classes: HashMap<(u32, u8), (&'static str, Layout)>,
}

fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let mut hooks: HashMap<u16, Versions> = HashMap::new();
        for rows in [kernel_layouts::LAYOUTS, system_layouts::LAYOUTS] {
            for (numbers, version, name, fields) in rows {
                let Some(layout) = Layout::parse(fields) else { continue };
                for number in *numbers {
                    hooks.entry(*number).or_default().push((*version, name, layout.clone()));
                }
            }
        }
        let classes = system_layouts::CLASSES.iter().filter_map(|(class, opcode, name, fields)| {
            Some(((*class, *opcode), (*name, Layout::parse(fields)?)))
        });
        Known { hooks, classes: classes.collect() }
    })
}

/// Name and fields of a hook's payload; unknown versions are read like the one before.
pub fn hook(
    hook: u16,
    version: u8,
    payload: &[u8],
    pointer: usize,
) -> Option<(&'static str, Fields)> {
    let fields = match hook {
        0x0524 => CSwitch::fields(version, payload),
        0x0532 => ReadyThread::fields(payload),
        _ => None,
    };
    if let Some(fields) = fields {
        return Some((if hook == 0x0524 { "CSwitch" } else { "ReadyThread" }, fields));
    }
    // The header's marker need not match the traced system; its own field does.
    let own = (hook == 0).then(|| u32_at(payload, 44)).flatten();
    let pointer = own.filter(|own| matches!(own, 4 | 8)).map_or(pointer, |own| own as usize);
    let (name, layout) = layout_of(hook, version)?;
    Some((name, layout.read(Reader::new(payload, pointer))))
}

/// The same for a record with a classic header, which a program may have written itself.
pub fn foreign_hook(
    number: u16,
    version: u8,
    payload: &[u8],
    pointer: usize,
) -> Option<(&'static str, Fields)> {
    if matches!(number, 0x0000 | 0x0524 | 0x0532) {
        return hook(number, version, payload, pointer);
    }
    let (name, layout) = layout_of(number, version)?;
    Some((name, layout.read_foreign(Reader::new(payload, pointer))))
}

pub(crate) fn layout_of(hook: u16, version: u8) -> Option<(&'static str, &'static Layout)> {
    let versions = known().hooks.get(&hook)?;
    let newest = versions.iter().filter(|(from, ..)| *from <= version);
    let newest = newest.max_by_key(|(from, ..)| *from).or_else(|| versions.first());
    newest.map(|(_, name, layout)| (*name, layout))
}

/// Name and fields of an event whose class is not a kernel group.
pub fn class(
    class: u32,
    opcode: u8,
    payload: &[u8],
    pointer: usize,
) -> Option<(&'static str, Fields)> {
    let (name, layout) = known().classes.get(&(class, opcode))?;
    Some((name, layout.read(Reader::new(payload, pointer))))
}

/// All hooks, and all classes with their opcode, that have a layout; in order.
#[cfg(feature = "fuzzing")]
pub fn numbers() -> (Vec<u16>, Vec<(u32, u8)>) {
    let mut hooks: Vec<u16> = known().hooks.keys().copied().collect();
    let mut classes: Vec<(u32, u8)> = known().classes.keys().copied().collect();
    hooks.sort_unstable();
    classes.sort_unstable();
    (hooks, classes)
}

/// The hook of a classic event, by the first number of its class GUID: group and opcode.
pub fn hook_of_class(class: u32, opcode: u8) -> Option<u16> {
    const GROUPS: [(u32, u16); 14] = [
        (0x68fd_d900, 0x00),
        (0x3d6f_a8d4, 0x01),
        (0x3d6f_a8d3, 0x02),
        (0x3d6f_a8d0, 0x03),
        (0x90cb_dc39, 0x04),
        (0x3d6f_a8d1, 0x05),
        (0x9a28_0ac0, 0x06),
        (0xbf3a_50c5, 0x08),
        (0x0185_3a65, 0x0b),
        (0x9913_4383, 0x0c),
        (0xce1d_bfb4, 0x0f),
        (0xe434_45e0, 0x12),
        (0x2cb1_5d1d, 0x14),
        (0xdef2_fe46, 0x18),
    ];
    let group = GROUPS.iter().find(|(known, _)| *known == class)?.1;
    // An image load is an event of the process group.
    let group = if group == 0x14 && opcode == 10 { 0x03 } else { group };
    Some(group << 8 | u16::from(opcode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_can_be_read() {
        for rows in [kernel_layouts::LAYOUTS, system_layouts::LAYOUTS] {
            for (_, _, name, fields) in rows {
                assert!(Layout::parse(fields).is_some(), "{name}: {fields}");
            }
        }
        assert_eq!(known().classes.len(), system_layouts::CLASSES.len());
    }

    #[test]
    fn unknown_version_is_read_like_the_one_before() {
        let payload: Vec<u8> = (1..=32).collect();
        for (version, fields) in [(1, 3), (2, 5), (9, 5)] {
            let (name, found) = hook(0x0f2e, version, &payload, 8).expect("known");
            assert_eq!((name, found.0.len()), ("SampledProfile", fields));
        }
    }

    #[test]
    fn image_loads_are_in_the_process_group() {
        assert_eq!(hook_of_class(0x2cb1_5d1d, 10), Some(0x030a));
        assert_eq!(hook_of_class(0x2cb1_5d1d, 2), Some(0x1402));
        assert_eq!(hook_of_class(0x3d6f_a8d0, 39), Some(0x0327));
        assert_eq!(hook_of_class(1, 2), None);
    }
}
