//! Layouts of the manifest providers that schedlens understands, for files without metadata.
//!
//! They come from documentation alone: no recording with them was available.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::layout::Layout;
use super::reader::Reader;
use super::value::Fields;
use crate::guid::Guid;

/// Microsoft-Windows-Kernel-Processor-Power
pub const PROCESSOR_POWER: Guid = Guid::from_text_order(0x0f67e49f_fe51_4e9f_b490_6f2948cc6027);
/// Microsoft-Windows-DXGI
pub const DXGI: Guid = Guid::from_text_order(0xca11c036_0102_4a2d_a6ad_f03cfed5d3c9);
/// Microsoft-Windows-D3D9
pub const D3D9: Guid = Guid::from_text_order(0x783aca0a_790e_4d7f_8451_aa850511c6b9);
/// Microsoft-Windows-DxgKrnl
pub const DXGKRNL: Guid = Guid::from_text_order(0x802ec45a_1e99_4b83_9920_87c98277ba9d);

/// Microsoft-Windows-Kernel-Process
pub const KERNEL_PROCESS: Guid = Guid::from_text_order(0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716);

/// Microsoft-Windows-Kernel-Power
pub const KERNEL_POWER: Guid = Guid::from_text_order(0x331c3b3a_2005_44c2_ac5e_77220c37d6b4);

/// Provider, event ids, first version, name, fields.
type Row = (Guid, &'static [u16], u8, &'static str, &'static str);

const LAYOUTS: &[Row] = &[
    (PROCESSOR_POWER, &[10, 18], 0, "ProcessorPerfStateChange", PERF_STATE),
    (PROCESSOR_POWER, &[14], 0, "ParkCore", "PpmCheckTime:u64 Group:u16 Number:u8 SoftParked:bool"),
    (PROCESSOR_POWER, &[15], 0, "UnparkCore", "PpmCheckTime:u64 Group:u16 Number:u8"),
    (
        PROCESSOR_POWER,
        &[55, 56],
        0,
        "Summary2",
        "Group:u16 Number:u8 IdleStateCount:u32 IdleImplementation:u32 NominalFrequency:u32 \
         MaximumPerformancePercent:u32 MinimumPerformancePercent:u32 MinimumThrottlePercent:u32 \
         PerformanceImplementation:u32",
    ),
    (PROCESSOR_POWER, &[64], 0, "ProcessorPerformanceRundown", RUNDOWN),
    (
        PROCESSOR_POWER,
        &[65],
        0,
        "ParkNodeRundown",
        "Group:u16 Affinity:ptr Parked:ptr LpiCap:u8 ThermalCap:u8 ParkHint:ptr SoftParked:ptr",
    ),
    // Structs without a public description.
    (PROCESSOR_POWER, &[65], 4, "ParkNodeRundown", "NodeIndex:u16 GroupCount:u16"),
    (
        PROCESSOR_POWER,
        &[66],
        0,
        "ParkNodeCapChange",
        "Group:u16 Affinity:ptr LpiCap:u8 ThermalCap:u8",
    ),
    (PROCESSOR_POWER, &[66], 2, "ParkNodeCapChange", "NodeIndex:u16 GroupCount:u16"),
    (
        PROCESSOR_POWER,
        &[68],
        0,
        "ProcessorIdRundown",
        "Group:u16 Number:u8 AcpiId:u32 InterruptControllerId:u32 ProcessorIndex:u32 \
         HvLpIndex:u32",
    ),
    (
        PROCESSOR_POWER,
        &[111, 148],
        0,
        "DeliveredPerfChange",
        "Group:u16 Number:u8 DeliveredPerformance:u32 DurationInUs:u64 DeliveredFrequency:u32",
    ),
    (
        PROCESSOR_POWER,
        &[112],
        0,
        "ParkSelection",
        "Group:u16 Processors:ptr OldPark:ptr NewPark:ptr OverUtilizedSet:ptr \
         IsolatedCores:ptr IdealUnparked:u8 UnparkCount:u8 ParkReason:u32",
    ),
    (
        PROCESSOR_POWER,
        &[118],
        0,
        "ProcessorClassUpdate",
        "Group:u16 Number:u8 EfficiencyClass:u8 SchedulingClass:u8 EfficiencySchedulingClass:u8",
    ),
    (
        PROCESSOR_POWER,
        &[137],
        0,
        "SoftParkSelection",
        "Group:u16 Processors:ptr OldPark:ptr NewPark:ptr NewSoftPark:ptr UnparkCap:u8 \
         UnparkFloor:u8 ForceParkSet:ptr ForceUnparkSet:ptr OverUtilizedSet:ptr \
         IsolatedCores:ptr IdealUnparkCount:u8 UnparkCount:u8 ParkReason:u32 \
         PerformanceCoresUnparkedCount:u32 Class:u8 TargetUnparkCount:u8",
    ),
    (PROCESSOR_POWER, &[137], 3, "SoftParkSelection", "GroupCount:u16"),
    (
        PROCESSOR_POWER,
        &[138],
        0,
        "SoftParkStateChange",
        "PpmCheckTime:u64 Group:u16 Number:u8 SoftParked:bool",
    ),
    (
        DXGI,
        &[42],
        0,
        "Present",
        "pIDXGISwapChain:ptr Flags:u32 SyncInterval:u32 DirtyRects:u32 ScrollRects:u32",
    ),
    (DXGI, &[43, 56], 0, "PresentStop", "Result:u32"),
    (
        DXGI,
        &[55],
        0,
        "PresentMultiplaneOverlay",
        "pIDXGISwapChain:ptr Flags:u32 SyncInterval:u32 NumPlanes:u32 LayerMask:u32",
    ),
    (
        KERNEL_PROCESS,
        &[1],
        0,
        "ProcessStart",
        "ProcessID:u32 CreateTime:u64 ParentProcessID:u32 SessionID:u32 ImageName:text",
    ),
    (
        KERNEL_PROCESS,
        &[1, 15],
        1,
        "ProcessStart",
        "ProcessID:u32 CreateTime:u64 ParentProcessID:u32 SessionID:u32 Flags:u32 ImageName:text",
    ),
    // A security identifier precedes the name, so reading ends here.
    (
        KERNEL_PROCESS,
        &[1, 15],
        3,
        "ProcessStart",
        "ProcessID:u32 ProcessSequenceNumber:u64 CreateTime:u64 ParentProcessID:u32 \
         ParentProcessSequenceNumber:u64 SessionID:u32 Flags:u32",
    ),
    (KERNEL_PROCESS, &[2], 0, "ProcessStop", PROCESS_STOP),
    (
        KERNEL_PROCESS,
        &[2],
        2,
        "ProcessStop",
        "ProcessID:u32 ProcessSequenceNumber:u64 CreateTime:u64 ExitTime:u64 ExitCode:u32 \
         TokenElevationType:u32 HandleCount:u32 CommitCharge:u64 CommitPeak:u64",
    ),
    (D3D9, &[1], 0, "Present", "pSwapchain:ptr Flags:u32"),
    (D3D9, &[2], 0, "PresentStop", "Result:u32"),
    (
        DXGKRNL,
        &[184],
        0,
        "Present",
        "hContext:u32 hWindow:ptr VidPnSourceId:u32 Flags:u32 ReturnStatus:u32 \
         hSrcAllocHandle:ptr hDstAllocHandle:ptr",
    ),
    (
        DXGKRNL,
        &[184],
        1,
        "Present",
        "hContext:u32 hWindow:ptr VidPnSourceId:u32 FlipInterval:u32 Flags:u32 \
         ReturnStatus:u32 hSrcAllocHandle:ptr hDstAllocHandle:ptr",
    ),
    (
        DXGKRNL,
        &[168],
        0,
        "Flip",
        "pDmaBuffer:ptr VidPnSourceId:u32 FlipToAllocation:ptr FlipInterval:u32 \
         FlipWithNoWait:bool MMIOFlip:bool",
    ),
];

const PROCESS_STOP: &str = "ProcessID:u32 CreateTime:u64 ExitTime:u64 ExitCode:u32 \
                            TokenElevationType:u32 HandleCount:u32 CommitCharge:u64 \
                            CommitPeak:u64";
const PERF_STATE: &str = "State:u32 Speed:u32 Group:u16 Number:u8 Performance:u32 \
                          TolerancePercent:u32 MinPercent:u32 MaxPercent:u32 EppPercent:u32 \
                          ActivityWindow:u32 Autonomous:bool Initiated:bool QosClass:u32 \
                          ResourcePriority:u64 ResourcePriorityPercent:u32";
const RUNDOWN: &str = "Group:u16 Number:u8 Parked:bool BiosCap:u32 ThermalCap:u32 \
                       DesiredPerformance:u32 NominalFrequency:u32 MinPercent:u32 \
                       MaxPercent:u32 TolerancePercent:u32 DeliveredPerformance:u32 \
                       EfficiencyClass:u8 SchedulingClass:u8 Autonomous:bool EppPercent:u32 \
                       ActivityWindow:u32 QosClass:u32 RelativePerformance:u32 \
                       EfficiencySchedulingClass:u8 TargetFrequency:u32 SoftParked:bool \
                       DeliveredFrequencyMhz:u32 EppSupported:bool";

type Versions = Vec<(u8, &'static str, Layout)>;

/// Name and fields of an event by provider, id and version.
///
/// Versions add fields at the end; fields missing from the payload are omitted.
pub fn event(
    event: (Guid, u16, u8),
    payload: &[u8],
    pointer: usize,
) -> Option<(&'static str, Fields)> {
    let (name, layout) = layout_of(event)?;
    Some((name, layout.read(Reader::new(payload, pointer))))
}

/// Name and layout of an event by provider, id and version.
pub(crate) fn layout_of(
    (provider, id, version): (Guid, u16, u8),
) -> Option<(&'static str, &'static Layout)> {
    static KNOWN: OnceLock<HashMap<(Guid, u16), Versions>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let mut known: HashMap<(Guid, u16), Versions> = HashMap::new();
        for (provider, ids, from, name, fields) in LAYOUTS {
            let Some(layout) = Layout::parse(fields) else { continue };
            for id in *ids {
                known.entry((*provider, *id)).or_default().push((*from, name, layout.clone()));
            }
        }
        known
    });
    let newest = known.get(&(provider, id))?.iter().filter(|(from, ..)| *from <= version);
    newest.max_by_key(|(from, ..)| *from).map(|(_, name, layout)| (*name, layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_can_be_read() {
        for (_, _, _, name, fields) in LAYOUTS {
            assert!(Layout::parse(fields).is_some(), "{name}: {fields}");
        }
    }

    #[test]
    fn versions_add_fields_at_the_end() {
        let rundown = |length: usize| {
            let payload: Vec<u8> = (1..=100).collect();
            let found = event((PROCESSOR_POWER, 64, 9), &payload[..length], 8);
            found.expect("known").1
        };
        // Group, Number, Parked, two caps, DesiredPerformance, NominalFrequency
        assert_eq!(rundown(23).0.len(), 7);
        assert_eq!(rundown(23).number("NominalFrequency"), Some(0x1716_1514));
        assert_eq!(rundown(40).number("EfficiencyClass"), Some(40));
        assert_eq!(rundown(39).number("EfficiencyClass"), None);
        assert_eq!(event((DXGI, 9999, 0), &[], 8).map(|(name, _)| name), None);
    }
}
