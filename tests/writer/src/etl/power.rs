//! Events of Microsoft-Windows-Kernel-Processor-Power: parking, frequency, classes.

use super::metadata::{Field, Kind, Schema};
use super::record::Descriptor;
use crate::bytes::Bytes;
use crate::event::FrequencyEvent;

/// The provider's GUID.
pub(super) const PROVIDER: &str = "0f67e49f-fe51-4e9f-b490-6f2948cc6027";

/// Keywords.
const PERF: u64 = 1;
const DIAG: u64 = 2;
const ALGORITHM: u64 = 0x20;
const PERF_DIAG: u64 = 0x80;

const GROUP: Field = ("Group", Kind::U16);
const NUMBER: Field = ("Number", Kind::U8);
const CHECK_TIME: Field = ("PpmCheckTime", Kind::U64);

const fn schema(
    id: u16,
    version: u8,
    keyword: u64,
    name: &'static str,
    fields: &'static [Field],
) -> Schema {
    let descriptor = Descriptor { id, version, channel: 0, level: 4, opcode: 0, task: id, keyword };
    Schema {
        provider: PROVIDER,
        provider_name: "Microsoft-Windows-Kernel-Processor-Power",
        descriptor,
        name,
        fields,
    }
}

const PARK: Schema = schema(14, 0, PERF | DIAG, "ParkCore", &[CHECK_TIME, GROUP, NUMBER]);
const PARK_SOFTLY: Schema = schema(
    14,
    1,
    PERF | DIAG,
    "ParkCore",
    &[CHECK_TIME, GROUP, NUMBER, ("SoftParked", Kind::Bool)],
);
const UNPARK: Schema = schema(15, 0, PERF | DIAG, "UnparkCore", &[CHECK_TIME, GROUP, NUMBER]);
const SOFT_PARK: Schema = schema(
    138,
    0,
    PERF | DIAG,
    "SoftParkStateChange",
    &[CHECK_TIME, GROUP, NUMBER, ("SoftParked", Kind::Bool)],
);
const SELECTION: Schema = schema(
    112,
    0,
    ALGORITHM,
    "ParkSelection",
    &[
        GROUP,
        ("Processors", Kind::Pointer),
        ("OldPark", Kind::Pointer),
        ("NewPark", Kind::Pointer),
        ("OverUtilizedSet", Kind::Pointer),
        ("IsolatedCores", Kind::Pointer),
        ("IdealUnparked", Kind::U8),
        ("UnparkCount", Kind::U8),
        ("ParkReason", Kind::U32),
    ],
);
const RUNDOWN_FIELDS: [Field; 20] = [
    GROUP,
    NUMBER,
    ("Parked", Kind::Bool),
    ("BiosCap", Kind::U32),
    ("ThermalCap", Kind::U32),
    ("DesiredPerformance", Kind::U32),
    ("NominalFrequency", Kind::U32),
    ("MinPercent", Kind::U32),
    ("MaxPercent", Kind::U32),
    ("TolerancePercent", Kind::U32),
    ("DeliveredPerformance", Kind::U32),
    ("EfficiencyClass", Kind::U8),
    ("SchedulingClass", Kind::U8),
    ("Autonomous", Kind::Bool),
    ("EppPercent", Kind::U32),
    ("ActivityWindow", Kind::U32),
    ("QosClass", Kind::U32),
    ("RelativePerformance", Kind::U32),
    ("EfficiencySchedulingClass", Kind::U8),
    ("TargetFrequency", Kind::U32),
];
const RUNDOWN_WITH_SOFT: [Field; 21] = {
    let mut fields = [("SoftParked", Kind::Bool); 21];
    let mut at = 0;
    while at < 20 {
        fields[at] = RUNDOWN_FIELDS[at];
        at += 1;
    }
    fields
};
const RUNDOWN_NAME: &str = "ProcessorPerformanceRundown";
/// Version 1 ends before the classes, 6 before soft parking.
const RUNDOWN_1: Schema =
    schema(64, 1, DIAG | PERF_DIAG, RUNDOWN_NAME, RUNDOWN_FIELDS.split_at(11).0);
const RUNDOWN_6: Schema = schema(64, 6, DIAG | PERF_DIAG, RUNDOWN_NAME, &RUNDOWN_FIELDS);
const RUNDOWN_7: Schema = schema(64, 7, DIAG | PERF_DIAG, RUNDOWN_NAME, &RUNDOWN_WITH_SOFT);
const PROCESSOR_ID: Schema = schema(
    68,
    1,
    PERF | DIAG | PERF_DIAG,
    "ProcessorIdRundown",
    &[
        GROUP,
        NUMBER,
        ("AcpiId", Kind::U32),
        ("InterruptControllerId", Kind::U32),
        ("ProcessorIndex", Kind::U32),
    ],
);
const CLASS: Schema = schema(
    118,
    1,
    DIAG,
    "ProcessorClassUpdate",
    &[
        GROUP,
        NUMBER,
        ("EfficiencyClass", Kind::U8),
        ("SchedulingClass", Kind::U8),
        ("EfficiencySchedulingClass", Kind::U8),
    ],
);
const PERF_STATE: Schema = schema(
    10,
    2,
    PERF,
    "ProcessorPerfStateChange",
    &[
        ("State", Kind::U32),
        ("Speed", Kind::U32),
        GROUP,
        NUMBER,
        ("Performance", Kind::U32),
        ("TolerancePercent", Kind::U32),
    ],
);
const DELIVERED_FIELDS: [Field; 5] = [
    GROUP,
    NUMBER,
    ("DeliveredPerformance", Kind::U32),
    ("DurationInUs", Kind::U64),
    ("DeliveredFrequency", Kind::U32),
];
const DELIVERED: Schema = schema(111, 2, PERF_DIAG, "DeliveredPerfChange", &DELIVERED_FIELDS);
const DELIVERED_LATER: Schema = schema(148, 0, PERF_DIAG, "DeliveredPerfChange", &DELIVERED_FIELDS);

/// A CPU as these events name it, and the time at which the system decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct About {
    pub(super) group: u16,
    pub(super) number: u8,
    pub(super) ticks: i64,
}

impl About {
    fn place(self, out: &mut Bytes) {
        out.u16(self.group).u8(self.number);
    }

    fn checked(self, out: &mut Bytes) {
        out.i64(self.ticks);
        self.place(out);
    }
}

/// ParkCore.
pub(super) fn park(out: &mut Bytes, about: About, soft: Option<bool>) -> &'static Schema {
    about.checked(out);
    match soft {
        Some(soft) => {
            out.boolean(soft);
            &PARK_SOFTLY
        }
        None => &PARK,
    }
}

/// UnparkCore.
pub(super) fn unpark(out: &mut Bytes, about: About) -> &'static Schema {
    about.checked(out);
    &UNPARK
}

/// SoftParkStateChange.
pub(super) fn soft_park(out: &mut Bytes, about: About, soft: bool) -> &'static Schema {
    about.checked(out);
    out.boolean(soft);
    &SOFT_PARK
}

/// ParkSelection; the masks are `(all, old, new)`.
pub(super) fn selection(
    out: &mut Bytes,
    pointer: usize,
    group: u16,
    (all, old, new): (u64, u64, u64),
    reason: u32,
) -> &'static Schema {
    out.u16(group);
    for mask in [all, old, new, 0, 0] {
        out.pointer(pointer, mask);
    }
    let unparked = (all & !new).count_ones() as u8;
    out.u8(unparked).u8(unparked).u32(reason);
    &SELECTION
}

/// Content of ProcessorPerformanceRundown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rundown {
    pub(super) parked: bool,
    pub(super) soft: Option<bool>,
    pub(super) class: Option<u8>,
    pub(super) caps: (u32, u32),
    pub(super) mhz: u32,
}

/// ProcessorPerformanceRundown: version 7 with soft parking, 6 with a class, 1 with neither.
pub(super) fn rundown(out: &mut Bytes, about: About, rundown: Rundown) -> &'static Schema {
    about.place(out);
    out.boolean(rundown.parked).u32(rundown.caps.0).u32(rundown.caps.1).u32(100).u32(rundown.mhz);
    out.u32(5).u32(100).u32(3).u32(90);
    if rundown.class.is_none() && rundown.soft.is_none() {
        return &RUNDOWN_1;
    }
    let class = rundown.class.unwrap_or_default();
    out.u8(class).u8(class).boolean(true).u32(33).u32(10_000).u32(0).u32(100).u8(class);
    out.u32(rundown.mhz);
    match rundown.soft {
        Some(soft) => {
            out.boolean(soft);
            &RUNDOWN_7
        }
        None => &RUNDOWN_6,
    }
}

/// ProcessorIdRundown.
pub(super) fn processor_id(
    out: &mut Bytes,
    about: About,
    apic: u32,
    index: u32,
) -> &'static Schema {
    about.place(out);
    out.u32(index + 1).u32(apic).u32(index);
    &PROCESSOR_ID
}

/// ProcessorClassUpdate.
pub(super) fn class_update(out: &mut Bytes, about: About, class: u8) -> &'static Schema {
    about.place(out);
    out.u8(class).u8(class).u8(class);
    &CLASS
}

/// One of the events that report a frequency.
pub(super) fn frequency(
    out: &mut Bytes,
    about: About,
    mhz: u32,
    reported_by: FrequencyEvent,
) -> &'static Schema {
    match reported_by {
        FrequencyEvent::PerfState => {
            out.u32(0).u32(mhz);
            about.place(out);
            out.u32(80).u32(3);
            &PERF_STATE
        }
        FrequencyEvent::Delivered | FrequencyEvent::DeliveredLater => {
            about.place(out);
            out.u32(80).u64(15_000).u32(mhz);
            if reported_by == FrequencyEvent::Delivered { &DELIVERED } else { &DELIVERED_LATER }
        }
    }
}
