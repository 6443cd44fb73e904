//! `PERF_RECORD_MMAP`, `MMAP2` and `KSYMBOL`: which code is at which addresses.

use schedlens_input::bytes::{text, u32_at, u64_at};

use crate::record;

/// `PERF_RECORD_MISC_CPUMODE_MASK`
const CPU_MODE: u16 = 7;
/// `PERF_RECORD_MISC_KERNEL`
const KERNEL: u16 = 1;
/// `PERF_RECORD_MISC_GUEST_KERNEL`
const GUEST_KERNEL: u16 = 4;
/// `PERF_RECORD_MISC_MMAP_DATA`
const DATA: u16 = 1 << 13;
/// `PERF_RECORD_MISC_MMAP_BUILD_ID`
const HAS_BUILD_ID: u16 = 1 << 14;
/// `PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER`
const UNREGISTERED: u16 = 1;
/// `PROT_EXEC`
const EXECUTABLE: u32 = 4;
const LONGEST_BUILD_ID: usize = 20;

/// A file mapped into the memory of a process, or a part of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The process; of the kernel -1.
    pub pid: i32,
    /// First address.
    pub start: u64,
    /// Number of bytes.
    pub length: u64,
    /// Offset in the file of the first byte.
    pub offset: u64,
    /// The file, or a name such as `[vdso]`.
    pub name: String,
    /// Build id of the file, if recorded.
    pub build_id: Option<Vec<u8>>,
    /// It belongs to the kernel.
    pub is_kernel: bool,
}

/// The mapping of code that a record describes; `None` for other records and for data.
pub fn mapping(kind: u32, misc: u16, bytes: &[u8]) -> Option<Mapping> {
    let has_more = kind == record::MMAP2;
    if !has_more && kind != record::MMAP || misc & DATA != 0 {
        return None;
    }
    let is_kernel = matches!(misc & CPU_MODE, KERNEL | GUEST_KERNEL);
    if has_more && !is_kernel && u32_at(bytes, 64)? & EXECUTABLE == 0 {
        return None;
    }
    let build_id = (has_more && misc & HAS_BUILD_ID != 0)
        .then(|| {
            let size = usize::from(*bytes.get(40)?).min(LONGEST_BUILD_ID);
            Some(bytes.get(44..44 + size)?.to_vec())
        })
        .flatten()
        .filter(|id| id.iter().any(|byte| *byte != 0));
    Some(Mapping {
        pid: u32_at(bytes, 8)?.cast_signed(),
        start: u64_at(bytes, 16)?,
        length: u64_at(bytes, 24)?,
        offset: u64_at(bytes, 32)?,
        name: text(bytes.get(if has_more { 72 } else { 40 }..)?),
        build_id,
        is_kernel,
    })
}

/// Code that the kernel loaded or generated: BPF programs, trampolines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelCode {
    /// First address.
    pub start: u64,
    /// Number of bytes.
    pub length: u64,
    /// Its name.
    pub name: String,
    /// The code is removed rather than added.
    pub is_removed: bool,
}

/// The code that `PERF_RECORD_KSYMBOL` describes.
pub fn kernel_code(bytes: &[u8]) -> Option<KernelCode> {
    Some(KernelCode {
        start: u64_at(bytes, 8)?,
        length: u32_at(bytes, 16)?.into(),
        is_removed: u32_at(bytes, 20)? >> 16 & u32::from(UNREGISTERED) != 0,
        name: text(bytes.get(24..)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(build_id: Option<&[u8]>, protection: u32) -> Vec<u8> {
        let mut bytes = vec![0; 72];
        bytes[8..12].copy_from_slice(&7_u32.to_le_bytes());
        for (at, value) in [(16, 0x1000_u64), (24, 0x200), (32, 0x40)] {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        if let Some(id) = build_id {
            bytes[40] = id.len() as u8;
            bytes[44..44 + id.len()].copy_from_slice(id);
        }
        bytes[64..68].copy_from_slice(&protection.to_le_bytes());
        bytes.extend(b"/bin/x\0\0");
        bytes
    }

    #[test]
    fn executable_mappings_have_their_place_and_build_id() {
        let expected = Mapping {
            pid: 7,
            start: 0x1000,
            length: 0x200,
            offset: 0x40,
            name: "/bin/x".to_owned(),
            build_id: Some(vec![9; 20]),
            is_kernel: false,
        };
        let bytes = record(Some(&[9; 20]), 5);
        assert_eq!(mapping(record::MMAP2, 2 | HAS_BUILD_ID, &bytes), Some(expected.clone()));
        // Without the flag, these bytes are the device and inode.
        let without = Mapping { build_id: None, ..expected };
        assert_eq!(mapping(record::MMAP2, 2, &bytes), Some(without));
        assert_eq!(mapping(record::MMAP2, 2 | DATA, &bytes), None);
        assert_eq!(mapping(record::MMAP2, 2, &record(None, 1)), None);
        assert_eq!(mapping(record::MMAP2, 2, &bytes[..60]), None);
    }

    #[test]
    fn a_build_id_longer_than_its_field_is_cut() {
        let mut bytes = record(None, 5);
        bytes[40] = 255;
        bytes[44] = 1;
        let found = mapping(record::MMAP2, 2 | HAS_BUILD_ID, &bytes).expect("readable");
        assert_eq!(found.build_id.expect("present").len(), 20);
    }
}
