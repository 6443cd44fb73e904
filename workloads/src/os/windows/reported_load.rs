//! The load that Windows reports: `% Processor Time` and `% Processor Utility`.

use std::mem;
use std::ptr;

use windows_sys::Win32::System::Performance::{
    PDH_FMT_COUNTERVALUE_ITEM_W, PDH_FMT_DOUBLE, PDH_HCOUNTER, PDH_HQUERY, PDH_MORE_DATA,
    PdhAddEnglishCounterW, PdhCloseQuery, PdhCollectQueryData, PdhGetFormattedCounterArrayW,
    PdhOpenQueryW,
};

/// Counter paths by the key of their values; English names work in every language.
const COUNTERS: [(&str, &str); 2] = [
    ("processor_time_pct", r"\Processor Information(*)\% Processor Time"),
    ("processor_utility_pct", r"\Processor Information(*)\% Processor Utility"),
];

/// `PDH_FMT_NOCAP100` of pdh.h: utility exceeds 100 % above the nominal frequency.
const NO_CAP_100: u32 = 0x8000;

/// A value of one logical CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    pub key: &'static str,
    pub group: u16,
    pub number: u8,
    pub value: f64,
}

/// Both counters of all CPUs between two times.
pub struct ReportedLoad {
    query: PDH_HQUERY,
    counters: Vec<(&'static str, PDH_HCOUNTER)>,
    /// What is missing, with the system's status.
    pub missing: Vec<String>,
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// The text at a pointer from PDH.
///
/// # Safety
/// The text ends in 0.
unsafe fn text_at(start: *const u16) -> String {
    let mut length = 0;
    // SAFETY: guaranteed by the caller.
    while !start.is_null() && unsafe { *start.add(length) } != 0 {
        length += 1;
    }
    if length == 0 {
        return String::new();
    }
    // SAFETY: `length` letters were just read there.
    String::from_utf16_lossy(unsafe { std::slice::from_raw_parts(start, length) })
}

impl ReportedLoad {
    /// Opens both counters; `missing` lists those that the system lacks.
    pub fn new() -> ReportedLoad {
        let mut found =
            ReportedLoad { query: ptr::null_mut(), counters: Vec::new(), missing: Vec::new() };
        // SAFETY: a null data source means the running system; the pointer is to a local.
        let status = unsafe { PdhOpenQueryW(ptr::null(), 0, &raw mut found.query) };
        if status != 0 {
            found.missing.push(format!("performance counters: status {status:#010x}"));
            return found;
        }
        for (key, path) in COUNTERS {
            let mut counter: PDH_HCOUNTER = ptr::null_mut();
            let path_text = wide(path);
            // SAFETY: the query is open, the text ends in 0, the pointer is to a local.
            let status = unsafe {
                PdhAddEnglishCounterW(found.query, path_text.as_ptr(), 0, &raw mut counter)
            };
            if status == 0 {
                found.counters.push((key, counter));
            } else {
                found.missing.push(format!("{path}: status {status:#010x}"));
            }
        }
        found
    }

    /// Reads the counters; values are between the last two readings.
    pub fn collect(&mut self) {
        if self.counters.is_empty() {
            return;
        }
        // SAFETY: the query is open.
        let status = unsafe { PdhCollectQueryData(self.query) };
        if status != 0 {
            self.missing.push(format!("reading the counters: status {status:#010x}"));
        }
    }

    /// The values between the last two readings.
    pub fn values(&mut self) -> Vec<Reported> {
        let mut found = Vec::new();
        for (key, counter) in &self.counters {
            match values(*counter) {
                Ok(rows) => found.extend(rows.into_iter().filter_map(|(instance, value)| {
                    let (group, number) = instance.split_once(',')?;
                    let (group, number) = (group.parse().ok()?, number.parse().ok()?);
                    Some(Reported { key, group, number, value })
                })),
                Err(status) => self.missing.push(format!("{key}: status {status:#010x}")),
            }
        }
        found
    }
}

/// The value of each instance; those with `_Total` are sums.
fn values(counter: PDH_HCOUNTER) -> Result<Vec<(String, f64)>, u32> {
    let format = PDH_FMT_DOUBLE | NO_CAP_100;
    let (mut bytes, mut count) = (0, 0);
    // SAFETY: a call without a buffer returns only the size.
    let status = unsafe {
        PdhGetFormattedCounterArrayW(
            counter,
            format,
            &raw mut bytes,
            &raw mut count,
            ptr::null_mut(),
        )
    };
    if status != PDH_MORE_DATA {
        return Err(status);
    }
    let size = mem::size_of::<PDH_FMT_COUNTERVALUE_ITEM_W>();
    // SAFETY: all zeros is a valid item.
    let empty: PDH_FMT_COUNTERVALUE_ITEM_W = unsafe { mem::zeroed() };
    let mut items = vec![empty; (bytes as usize).div_ceil(size)];
    // SAFETY: the items have room for `bytes`.
    let status = unsafe {
        PdhGetFormattedCounterArrayW(
            counter,
            format,
            &raw mut bytes,
            &raw mut count,
            items.as_mut_ptr(),
        )
    };
    if status != 0 {
        return Err(status);
    }
    let items = items.iter().take(count as usize);
    // SAFETY: PDH filled `count` items; the names follow them and end in 0; a valid value of this
    // format is a double.
    Ok(items
        .filter(|item| item.FmtValue.CStatus <= 1)
        .map(|item| unsafe { (text_at(item.szName), item.FmtValue.Anonymous.doubleValue) })
        .collect())
}

impl Drop for ReportedLoad {
    fn drop(&mut self) {
        if !self.query.is_null() {
            // SAFETY: this object owns the query.
            unsafe { PdhCloseQuery(self.query) };
        }
    }
}
