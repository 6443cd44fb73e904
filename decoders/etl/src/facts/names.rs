//! Names of the kernel's events and of the providers that schedlens reads, and whether a reading
//! was checked on real files.

use crate::facts::survey::Survey;
use crate::guid::Guid;
use crate::passes::counts::{Event, Key};
use crate::passes::scan::Scan;
use crate::payload::known::hook_of_class;

/// Names of hooks.
const HOOKS: [(u16, &str); 114] = [
    (0x0000, "EventTrace/Header"),
    (0x0005, "EventTrace/Extension"),
    (0x0008, "EventTrace/RundownComplete"),
    (0x0020, "EventTrace/EndExtension"),
    (0x0050, "EventTrace/PartitionInfo"),
    (0x0052, "EventTrace/LastDroppedTimes"),
    (0x010a, "DiskIo/Read"),
    (0x010b, "DiskIo/Write"),
    (0x010c, "DiskIo/ReadInit"),
    (0x010d, "DiskIo/WriteInit"),
    (0x010e, "DiskIo/FlushBuffers"),
    (0x010f, "DiskIo/FlushInit"),
    (0x0220, "PageFault/HardFault"),
    (0x0301, "Process/Start"),
    (0x0302, "Process/End"),
    (0x0303, "Process/DCStart"),
    (0x0304, "Process/DCEnd"),
    (0x030a, "Image/Load"),
    (0x030b, "Process/Terminate"),
    (0x0320, "Process/PerfCtr"),
    (0x0321, "Process/PerfCtrRundown"),
    (0x0323, "Process/InSwap"),
    (0x0327, "Process/Defunct"),
    (0x0501, "Thread/Start"),
    (0x0502, "Thread/End"),
    (0x0503, "Thread/DCStart"),
    (0x0504, "Thread/DCEnd"),
    (0x0524, "Thread/CSwitch"),
    (0x0525, "Thread/CompactCSwitch"),
    (0x0529, "Thread/SpinLock"),
    (0x0530, "Thread/SetPriority"),
    (0x0531, "Thread/SetBasePriority"),
    (0x0532, "Thread/ReadyThread"),
    (0x0533, "Thread/SetPagePriority"),
    (0x0534, "Thread/SetIoPriority"),
    (0x0535, "Thread/SetAffinity"),
    (0x0539, "Thread/WorkerThread"),
    (0x053c, "Thread/AntiStarvationBoost"),
    (0x053d, "Thread/Migration"),
    (0x053e, "Thread/KernelQueueEnqueue"),
    (0x053f, "Thread/KernelQueueDequeue"),
    (0x0542, "Thread/AutoBoostSetFloor"),
    (0x0543, "Thread/AutoBoostClearFloor"),
    (0x0545, "Thread/SubProcessTag"),
    (0x0548, "Thread/SetName"),
    (0x060a, "TcpIp/Send"),
    (0x060b, "TcpIp/Recv"),
    (0x060c, "TcpIp/Connect"),
    (0x060d, "TcpIp/Disconnect"),
    (0x060e, "TcpIp/Retransmit"),
    (0x060f, "TcpIp/Accept"),
    (0x0610, "TcpIp/Reconnect"),
    (0x0611, "TcpIp/Fail"),
    (0x0612, "TcpIp/Copy"),
    (0x061a, "TcpIp/SendIPv6"),
    (0x061b, "TcpIp/RecvIPv6"),
    (0x061c, "TcpIp/ConnectIPv6"),
    (0x061d, "TcpIp/DisconnectIPv6"),
    (0x061e, "TcpIp/RetransmitIPv6"),
    (0x061f, "TcpIp/AcceptIPv6"),
    (0x0620, "TcpIp/ReconnectIPv6"),
    (0x0622, "TcpIp/CopyIPv6"),
    (0x080a, "UdpIp/Send"),
    (0x080b, "UdpIp/Recv"),
    (0x0811, "UdpIp/Fail"),
    (0x081a, "UdpIp/SendIPv6"),
    (0x081b, "UdpIp/RecvIPv6"),
    (0x0b0a, "SystemConfig/CPU"),
    (0x0b0b, "SystemConfig/PhysicalDisk"),
    (0x0b0c, "SystemConfig/LogicalDisk"),
    (0x0b0d, "SystemConfig/NIC"),
    (0x0b0e, "SystemConfig/Video"),
    (0x0b0f, "SystemConfig/Services"),
    (0x0b10, "SystemConfig/Power"),
    (0x0b11, "SystemConfig/Network"),
    (0x0b12, "SystemConfig/OpticalDisk"),
    (0x0b15, "SystemConfig/IRQ"),
    (0x0b16, "SystemConfig/PnP"),
    (0x0b17, "SystemConfig/IDE"),
    (0x0b18, "SystemConfig/NUMANode"),
    (0x0b19, "SystemConfig/Platform"),
    (0x0b1a, "SystemConfig/ProcessorGroup"),
    (0x0b1b, "SystemConfig/ProcessorNumber"),
    (0x0b23, "SystemConfig/Processors"),
    (0x0b24, "SystemConfig/Virtualization"),
    (0x0b25, "SystemConfig/Boot"),
    (0x0c20, "PerfInfo/LastBranchRecords"),
    (0x0f22, "PerfInfo/Mark"),
    (0x0f2e, "PerfInfo/SampledProfile"),
    (0x0f2f, "PerfInfo/PmcOverflow"),
    (0x0f30, "PerfInfo/PmcCounterConfig"),
    (0x0f31, "PerfInfo/PmcCounterCorruption"),
    (0x0f32, "PerfInfo/ISR-MSI"),
    (0x0f33, "PerfInfo/SysCallEnter"),
    (0x0f34, "PerfInfo/SysCallExit"),
    (0x0f42, "PerfInfo/ThreadedDPC"),
    (0x0f43, "PerfInfo/ISR"),
    (0x0f44, "PerfInfo/DPC"),
    (0x0f45, "PerfInfo/TimerDPC"),
    (0x0f48, "PerfInfo/SetInterval"),
    (0x0f49, "PerfInfo/CollectionStart"),
    (0x0f4a, "PerfInfo/CollectionEnd"),
    (0x0f4f, "PerfInfo/ClockInterrupt"),
    (0x0f5f, "PerfInfo/PassiveISR"),
    (0x0f64, "PerfInfo/DpcEnqueue"),
    (0x1233, "Power/PerfStateChange"),
    (0x1235, "Power/IdleStateChange"),
    (0x1239, "Power/IdleEnter"),
    (0x123a, "Power/IdleExit"),
    (0x1402, "Image/Unload"),
    (0x1403, "Image/DCStart"),
    (0x1404, "Image/DCEnd"),
    (0x1820, "StackWalk/Stack"),
    (0x1824, "StackWalk/KeyRundown"),
];

/// Names of providers and classes.
const PROVIDERS: [(&str, u128); 14] = [
    ("Microsoft-Windows-Kernel-Processor-Power", 0x0f67e49f_fe51_4e9f_b490_6f2948cc6027),
    ("Microsoft-Windows-DXGI", 0xca11c036_0102_4a2d_a6ad_f03cfed5d3c9),
    ("Microsoft-Windows-D3D9", 0x783aca0a_790e_4d7f_8451_aa850511c6b9),
    ("Microsoft-Windows-DxgKrnl", 0x802ec45a_1e99_4b83_9920_87c98277ba9d),
    ("Microsoft-Windows-Dwm-Core", 0x9e9bba3c_2e38_40cb_99f4_9e8281425164),
    ("Microsoft-Windows-Win32k", 0x8c416c79_d49b_4f01_a467_e56d3aa8234c),
    ("Microsoft-Windows-Kernel-Process", 0x22fb2cd6_0e7b_422b_a0c7_2fad1fd0e716),
    ("Microsoft-Windows-Kernel-Network", 0x7dd42a49_5329_4832_8dfd_43d979153a88),
    ("Microsoft-Windows-DotNETRuntime", 0xe13c0d23_ccbc_4e12_931b_d9cc2eee27e4),
    ("EventMetadata", 0xbbccf6c1_6cd1_48c4_80ff_839482e37671),
    ("KernelTraceControl", 0xb3e675d7_2554_4f18_830b_2762732560de),
    ("SystemConfigEx", 0x9b79ee91_b5fd_41c0_a243_4248e266e9d0),
    ("WinSAT", 0xed54dff8_c409_4cf6_bf83_05e1e61a09c4),
    ("RTLostEvent", 0x6a399ae0_4bc6_4de9_870b_3657f8947e7e),
];

/// Name of a hook, or its number if unnamed.
pub(crate) fn hook_name(hook: u16) -> String {
    let known = HOOKS.iter().find(|(number, _)| *number == hook);
    known.map_or_else(|| format!("hook {hook:04x}"), |(_, name)| (*name).to_owned())
}

/// Name of a provider or class, or its GUID if unnamed.
pub(super) fn provider_name(guid: Guid) -> String {
    let known = PROVIDERS.iter().find(|(_, text)| Guid::from_text_order(*text) == guid);
    known.map_or_else(|| guid.to_string(), |(name, _)| (*name).to_owned())
}

/// Name of an event, for people.
pub fn event_name(event: Event) -> String {
    match event {
        Event::Hook(hook) => hook_name(hook),
        Event::Classic(class, opcode) => match hook_of_class(class.first(), opcode) {
            Some(hook) => hook_name(hook),
            None => format!("{}/{opcode}", provider_name(class)),
        },
        Event::Manifest(provider, id) => format!("{}/{id}", provider_name(provider)),
        Event::SelfDescribing(provider, _) => provider_name(provider),
        Event::Message(number) => format!("WPP message {number}"),
        Event::None => "record without a name".to_owned(),
    }
}

/// Names of events, including those from the recording itself: schemas embedded by merging,
/// manifests of EventSources, and TraceLogging.
pub(crate) struct Names<'a> {
    scan: &'a Scan,
    survey: &'a Survey,
}

impl<'a> Names<'a> {
    pub(crate) fn new(scan: &'a Scan, survey: &'a Survey) -> Self {
        Self { scan, survey }
    }

    /// Name of the event with a counting key.
    pub(crate) fn of(&self, key: &Key) -> String {
        let provider = |guid| {
            let named = self.survey.provider(guid).map(str::to_owned);
            named.unwrap_or_else(|| provider_name(guid))
        };
        match key.event {
            Event::Manifest(guid, id) => {
                let title = self.survey.title(guid, id, key.version);
                format!("{}/{}", provider(guid), title.unwrap_or_else(|| id.to_string()))
            }
            Event::SelfDescribing(guid, number) => match self.scan.self_described(number) {
                Some((Some(name), event)) => format!("{name}/{event}"),
                Some((None, event)) => format!("{}/{event}", provider(guid)),
                None => provider(guid),
            },
            event => event_name(event),
        }
    }
}

/// Hooks decoded from documentation alone: no real record of them was available.
const DOCUMENTED_HOOKS: [u16; 28] = [
    0x0052, 0x0525, 0x0529, 0x0530, 0x0531, 0x0532, 0x0533, 0x0534, 0x0535, 0x0539, 0x053c, 0x053d,
    0x053e, 0x053f, 0x0542, 0x0543, 0x0545, 0x0f32, 0x0f42, 0x0f43, 0x0f44, 0x0f45, 0x0f4f, 0x0f5f,
    0x0f64, 0x1233, 0x1239, 0x123a,
];

/// The number of providers without any available real record.
const DOCUMENTED_PROVIDERS: usize = 6;

/// Whether an event is decoded from documentation alone.
pub(crate) fn is_documented_only(event: Event) -> bool {
    match event {
        Event::Hook(hook) => DOCUMENTED_HOOKS.contains(&hook),
        Event::Classic(class, opcode) => hook_of_class(class.first(), opcode)
            .is_some_and(|hook| DOCUMENTED_HOOKS.contains(&hook)),
        Event::Manifest(provider, _) => {
            let mut known = PROVIDERS.iter().take(DOCUMENTED_PROVIDERS);
            known.any(|(_, text)| Guid::from_text_order(*text) == provider)
        }
        Event::SelfDescribing(..) | Event::Message(_) | Event::None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classic_events_of_the_kernel_have_the_names_of_their_hooks() {
        let image = Guid::from_text_order(0x2cb15d1d_5fc1_11d2_abe1_00a0c911f518);
        let disk = Guid::from_text_order(0x3d6fa8d4_fe05_11d0_9dda_00c04fd7ba7c);
        assert_eq!(event_name(Event::Classic(image, 10)), "Image/Load");
        assert_eq!(event_name(Event::Classic(image, 3)), "Image/DCStart");
        assert_eq!(event_name(Event::Classic(disk, 10)), "DiskIo/Read");
        assert_eq!(event_name(Event::Classic(Guid::from_text_order(1), 7)), {
            "00000000-0000-0000-0000-000000000001/7"
        });
    }
}
