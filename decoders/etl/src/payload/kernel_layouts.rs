//! Layouts of the kernel's own events by hook and version, with Microsoft's names.
//!
//! A hook is group and opcode; the same payloads also occur under the group's class GUID. Sources
//! of the layouts: docs/windows-traces.md.

/// Hooks, first version with this layout, name, fields.
pub(crate) type Row = (&'static [u16], u8, &'static str, &'static str);

const DISK_IO: &str = "DiskNumber:u32 IrpFlags:u32 TransferSize:u32 Reserved:u32 ByteOffset:u64 \
                       FileObject:ptr Irp:ptr HighResResponseTime:u64";
const IMAGE: &str = "ImageBase:ptr ImageSize:ptr ProcessId:u32 ImageChecksum:u32 \
                     TimeDateStamp:u32 Reserved0:u32 DefaultBase:ptr -:u32 -:u32 -:u32 -:u32 \
                     FileName:text";
const ISR: &str = "InitialTime:u64 Routine:ptr ReturnValue:u8 Vector:u16 -:u8";

/// All layouts; the versions of one hook ascend.
pub(crate) const LAYOUTS: &[Row] = &[
    (&[0x0000], 0, "EventTraceHeader", LOG_HEADER),
    (&[0x0005, 0x0020], 0, "HeaderExtension", GROUP_MASKS),
    (&[0x0008], 0, "RundownComplete", ""),
    (&[0x0030], 0, "RundownBegin", ""),
    (&[0x0031], 0, "RundownEnd", ""),
    (&[0x0040], 2, "DbgIdRSDS", "Guid:guid Age:u32 PdbName:ansi"),
    (&[0x0042], 2, "BuildInfo", "BuildString:text"),
    (
        &[0x0050],
        0,
        "PartitionInfo",
        "EventVersion:u16 Reserved:u16 PartitionType:u32 QpcOffsetFromRoot:i64 \
         PartitionId:guid ParentId:guid",
    ),
    (&[0x0052], 2, "LastDroppedTimes", "TimeStampCount:u32 -:u32 TimeStamp:u64#TimeStampCount"),
    (&[0x010a, 0x010b], 0, "DiskIo", DISK_IO_V0),
    (&[0x010a, 0x010b], 1, "DiskIo", DISK_IO_V1),
    (&[0x010a, 0x010b], 2, "DiskIo", DISK_IO),
    (&[0x010a, 0x010b], 3, "DiskIo", DISK_IO_V3),
    (&[0x010c, 0x010d, 0x010f], 2, "DiskIoInit", "Irp:ptr IssuingThreadId:u32"),
    (
        &[0x010e],
        2,
        "DiskIoFlush",
        "DiskNumber:u32 IrpFlags:u32 HighResResponseTime:u64 Irp:ptr IssuingThreadId:u32",
    ),
    (
        &[0x0220],
        2,
        "HardFault",
        "InitialTime:u64 ReadOffset:u64 VirtualAddress:ptr FileObject:ptr TThreadId:u32 \
         ByteCount:u32",
    ),
    (PROCESS, 0, "Process", "ProcessId:ptr ParentId:ptr UserSID:sid ImageFileName:ansi"),
    (
        PROCESS,
        1,
        "Process",
        "PageDirectoryBase:ptr ProcessId:u32 ParentId:u32 SessionId:u32 ExitStatus:i32 \
         UserSID:sid ImageFileName:ansi",
    ),
    (
        PROCESS,
        2,
        "Process",
        "UniqueProcessKey:ptr ProcessId:u32 ParentId:u32 SessionId:u32 ExitStatus:i32 \
         UserSID:sid ImageFileName:ansi CommandLine:text",
    ),
    (
        PROCESS,
        3,
        "Process",
        "UniqueProcessKey:ptr ProcessId:u32 ParentId:u32 SessionId:u32 ExitStatus:i32 \
         DirectoryTableBase:ptr UserSID:sid ImageFileName:ansi CommandLine:text",
    ),
    (
        PROCESS,
        4,
        "Process",
        "UniqueProcessKey:ptr ProcessId:u32 ParentId:u32 SessionId:u32 ExitStatus:i32 \
         DirectoryTableBase:ptr Flags:u32 UserSID:sid ImageFileName:ansi CommandLine:text \
         PackageFullName:text ApplicationId:text",
    ),
    (
        &[0x0327],
        5,
        "Process",
        "UniqueProcessKey:ptr ProcessId:u32 ParentId:u32 SessionId:u32 ExitStatus:i32 \
         DirectoryTableBase:ptr Flags:u32 UserSID:sid ImageFileName:ansi CommandLine:text \
         PackageFullName:text ApplicationId:text ExitTime:u64",
    ),
    (IMAGES, 0, "Image", "ImageBase:ptr ImageSize:u32 FileName:text"),
    (IMAGES, 1, "Image", "ImageBase:ptr ImageSize:ptr ProcessId:u32 FileName:text"),
    (IMAGES, 2, "Image", IMAGE),
    (
        IMAGES,
        3,
        "Image",
        "ImageBase:ptr ImageSize:ptr ProcessId:u32 ImageChecksum:u32 TimeDateStamp:u32 \
         SignatureLevel:u8 SignatureType:u8 Reserved0:u16 DefaultBase:ptr -:u32 -:u32 -:u32 \
         -:u32 FileName:text",
    ),
    (&[0x030b], 2, "ProcessTerminate", "ProcessId:u32"),
    (
        &[0x0320, 0x0321],
        2,
        "ProcessPerfCtr",
        "ProcessId:u32 PageFaultCount:u32 HandleCount:u32 Reserved:u32 PeakVirtualSize:ptr \
         PeakWorkingSetSize:ptr PeakPagefileUsage:ptr QuotaPeakPagedPoolUsage:ptr \
         QuotaPeakNonPagedPoolUsage:ptr VirtualSize:ptr WorkingSetSize:ptr PagefileUsage:ptr \
         QuotaPagedPoolUsage:ptr QuotaNonPagedPoolUsage:ptr PrivatePageCount:ptr",
    ),
    (&[0x0420, 0x0423, 0x0424], 2, "FileIoName", "FileObject:ptr FileName:text"),
    (THREAD, 0, "Thread", "TThreadId:u32 ProcessId:u32"),
    (
        THREAD,
        1,
        "Thread",
        "ProcessId:u32 TThreadId:u32 StackBase:ptr StackLimit:ptr UserStackBase:ptr \
         UserStackLimit:ptr StartAddr:ptr Win32StartAddr:ptr WaitMode:i8",
    ),
    (
        THREAD,
        2,
        "Thread",
        "ProcessId:u32 TThreadId:u32 StackBase:ptr StackLimit:ptr UserStackBase:ptr \
         UserStackLimit:ptr StartAddr:ptr Win32StartAddr:ptr TebBase:ptr SubProcessTag:u32",
    ),
    (
        THREAD,
        3,
        "Thread",
        "ProcessId:u32 TThreadId:u32 StackBase:ptr StackLimit:ptr UserStackBase:ptr \
         UserStackLimit:ptr Affinity:ptr Win32StartAddr:ptr TebBase:ptr SubProcessTag:u32 \
         BasePriority:u8 PagePriority:u8 IoPriority:u8 ThreadFlags:u8 ThreadName:text",
    ),
    (&[0x0548], 2, "ThreadSetName", "ProcessId:u32 ThreadId:u32 ThreadName:text"),
    (&[0x0530], 2, "ThreadSetPriority", "ThreadId:u32 OldPriority:u8 NewPriority:u8 -:u16"),
    (&[0x0531], 2, "ThreadSetBasePriority", "ThreadId:u32 OldPriority:u8 NewPriority:u8 -:u16"),
    (&[0x0533], 2, "ThreadSetPagePriority", "ThreadId:u32 OldPriority:u8 NewPriority:u8 -:u16"),
    (&[0x0534], 2, "ThreadSetIoPriority", "ThreadId:u32 OldPriority:u8 NewPriority:u8 -:u16"),
    (&[0x0535], 2, "ThreadAffinity", "Affinity:ptr ThreadId:u32 Group:u16 Reserved:u16"),
    (
        &[0x053c],
        2,
        "AntiStarvationBoost",
        "ThreadId:u32 ProcessorIndex:u16 Priority:u8 Reserved:u8",
    ),
    (
        &[0x053d],
        2,
        "ThreadMigration",
        "ThreadId:u32 SourceProcessorIndex:u16 TargetProcessorIndex:u16 Priority:u8 \
         IdealProcessorAdjust:u8 OldIdealProcessorIndex:u16",
    ),
    (&[0x053e], 2, "KernelQueueEnqueue", "Entry:ptr ThreadId:u32"),
    (&[0x053f], 2, "KernelQueueDequeue", "ThreadId:u32 EntryCount:u32 Entries:ptr#EntryCount"),
    (
        &[0x0542],
        2,
        "AutoBoostSetFloor",
        "Lock:ptr ThreadId:u32 NewCpuPriorityFloor:u8 OldCpuPriority:u8 IoPriorities:u8 \
         BoostFlags:u8",
    ),
    (&[0x0543], 2, "AutoBoostClearFloor", "LockAddress:ptr ThreadId:u32 BoostBitmap:u16 -:u16"),
    (&[0x0545], 2, "SubProcessTagChanged", "OldTag:u32 NewTag:u32"),
    (&[0x060a], 2, "TcpIpSend", TCP_SEND_4),
    (&[0x060b], 2, "TcpIpRecv", IP_4),
    (&[0x060c], 2, "TcpIpConnect", TCP_CONNECT_4),
    (&[0x060d], 2, "TcpIpDisconnect", IP_4),
    (&[0x060e], 2, "TcpIpRetransmit", IP_4),
    (&[0x060f], 2, "TcpIpAccept", TCP_CONNECT_4),
    (&[0x0610], 2, "TcpIpReconnect", IP_4),
    (&[0x0611, 0x0811], 2, "IpFail", "Proto:u16 FailureCode:u16"),
    (&[0x0612], 2, "TcpIpCopy", IP_4),
    (&[0x061a], 2, "TcpIpSend", TCP_SEND_6),
    (&[0x061b], 2, "TcpIpRecv", IP_6),
    (&[0x061c], 2, "TcpIpConnect", TCP_CONNECT_6),
    (&[0x061d], 2, "TcpIpDisconnect", IP_6),
    (&[0x061e], 2, "TcpIpRetransmit", IP_6),
    (&[0x061f], 2, "TcpIpAccept", TCP_CONNECT_6),
    (&[0x0620], 2, "TcpIpReconnect", IP_6),
    (&[0x0622], 2, "TcpIpCopy", IP_6),
    (&[0x080a, 0x080b], 2, "UdpIp", IP_4),
    (&[0x081a, 0x081b], 2, "UdpIp", IP_6),
    (
        &[0x0c20],
        2,
        "LastBranchRecord",
        "TimeStamp:u64 ProcessId:u32 ThreadId:u32 Options:u32 -:fill Entries:branch*",
    ),
    (&[0x0f22], 0, "Mark", "Message:ansi"),
    (&[0x0f2e], 1, "SampledProfile", "InstructionPointer:ptr ThreadId:u32 Count:u16"),
    (
        &[0x0f2e],
        2,
        "SampledProfile",
        "InstructionPointer:ptr ThreadId:u32 Count:u16 Flags:u8 Rank:u8",
    ),
    (
        &[0x0f2f],
        2,
        "PmcCounterProfile",
        "InstructionPointer:ptr ThreadId:u32 ProfileSource:u16 -:u16",
    ),
    (&[0x0f30], 2, "PmcCounterConfig", "CounterCount:u32 CounterName:text#CounterCount"),
    (
        &[0x0f31],
        2,
        "PmcCounterCorruption",
        "ProcessorNumber:u32 CounterCount:u32 CounterStatus:corruption#CounterCount",
    ),
    (&[0x0f33], 2, "SysCallEnter", "SysCallAddress:ptr"),
    (&[0x0f34], 2, "SysCallExit", "SysCallNtStatus:u32"),
    (&[0x0f42, 0x0f44, 0x0f45], 1, "DPC", "InitialTime:u64 Routine:ptr"),
    (&[0x0f46], 2, "IOTimer", "InitialTime:u64 Routine:ptr"),
    (&[0x0f43, 0x0f5f], 1, "ISR", "InitialTime:u64 Routine:ptr ReturnValue:u32"),
    (&[0x0f43, 0x0f5f], 2, "ISR", ISR),
    (
        &[0x0f32],
        2,
        "ISR",
        "InitialTime:u64 Routine:ptr ReturnValue:u8 Vector:u16 -:u8 MessageNumber:u32",
    ),
    (
        &[0x0f48, 0x0f49, 0x0f4a],
        2,
        "SampledProfileInterval",
        "Source:u32 NewInterval:u32 OldInterval:u32",
    ),
    (
        &[0x0f49, 0x0f4a],
        3,
        "SampledProfileInterval",
        "Source:u32 NewInterval:u32 OldInterval:u32 SourceName:text",
    ),
    (&[0x0f4f], 2, "ClockInterrupt", "InterruptTime:u64 Flags:u16"),
    (&[0x0f5c], 2, "UnexpectedInterrupt", "Vector:u16"),
    (
        &[0x0f64],
        2,
        "DpcEnqueue",
        "Key:ptr QueueDepth:i32 QueueCount:u32 TargetProcessorIndex:u32 Importance:u8",
    ),
    (&[0x0f65], 2, "DpcExecute", "Routine:ptr Key:ptr"),
    (&[0x1421], 2, "KernelBase", "ImageBase:ptr"),
    (&[0x1422], 2, "HypercallPage", "HypercallPageVa:ptr"),
    (&[0x1820], 2, "StackWalk", "EventTimeStamp:u64 StackProcess:u32 StackThread:u32 Stack:ptr*"),
    (&[0x1822, 0x1823, 0x1824], 2, "StackDefinition", "StackKey:ptr Stack:ptr*"),
    (
        &[0x1825, 0x1826],
        2,
        "StackKey",
        "EventTimeStamp:u64 StackProcess:u32 StackThread:u32 StackKey:ptr",
    ),
];

/// Only the bias of the time zone is read.
const LOG_HEADER: &str = "BufferSize:u32 Version:u32 ProviderVersion:u32 NumberOfProcessors:u32 \
                          EndTime:u64 TimerResolution:u32 MaximumFileSize:u32 LogFileMode:u32 \
                          BuffersWritten:u32 StartBuffers:u32 PointerSize:u32 EventsLost:u32 \
                          CPUSpeed:u32 LoggerName:ptr LogFileName:ptr Bias:i32 -:bytes[172] \
                          BootTime:u64 PerfFreq:u64 StartTime:u64 ReservedFlags:u32 \
                          BuffersLost:u32 SessionName:text FileName:text";
const GROUP_MASKS: &str = "GroupMask1:u32 GroupMask2:u32 GroupMask3:u32 GroupMask4:u32 \
                           GroupMask5:u32 GroupMask6:u32 GroupMask7:u32 GroupMask8:u32 \
                           KernelEventVersion:u32";
const DISK_IO_V0: &str = "DiskNumber:u32 IrpFlags:u32 TransferSize:u32 Reserved:u32 \
                          ByteOffset:u64 FileObject:ptr";
const DISK_IO_V1: &str = "DiskNumber:u32 IrpFlags:u32 TransferSize:u32 ResponseTime:u32 \
                          ByteOffset:u64 FileObject:ptr HighResResponseTime:u64";
const DISK_IO_V3: &str = "DiskNumber:u32 IrpFlags:u32 TransferSize:u32 Reserved:u32 \
                          ByteOffset:u64 FileObject:ptr Irp:ptr HighResResponseTime:u64 \
                          IssuingThreadId:u32";
const TCP_SEND_4: &str = "PID:u32 size:u32 daddr:ipv4 saddr:ipv4 dport:port sport:port \
                          startime:u32 endtime:u32 seqnum:u32 connid:ptr";
const TCP_SEND_6: &str = "PID:u32 size:u32 daddr:ipv6 saddr:ipv6 dport:port sport:port \
                          startime:u32 endtime:u32 seqnum:u32 connid:ptr";
const IP_4: &str = "PID:u32 size:u32 daddr:ipv4 saddr:ipv4 dport:port sport:port seqnum:u32 \
                    connid:ptr";
const IP_6: &str = "PID:u32 size:u32 daddr:ipv6 saddr:ipv6 dport:port sport:port seqnum:u32 \
                    connid:ptr";
const TCP_CONNECT_4: &str = "PID:u32 size:u32 daddr:ipv4 saddr:ipv4 dport:port sport:port \
                             mss:u16 sackopt:u16 tsopt:u16 wsopt:u16 rcvwin:u32 \
                             rcvwinscale:i16 sndwinscale:i16 seqnum:u32 connid:ptr";
const TCP_CONNECT_6: &str = "PID:u32 size:u32 daddr:ipv6 saddr:ipv6 dport:port sport:port \
                             mss:u16 sackopt:u16 tsopt:u16 wsopt:u16 rcvwin:u32 \
                             rcvwinscale:i16 sndwinscale:i16 seqnum:u32 connid:ptr";
/// Start, end, rundown at the start and at the end, defunct.
const PROCESS: &[u16] = &[0x0301, 0x0302, 0x0303, 0x0304, 0x0327];
/// Start, end, rundown at the start and at the end.
const THREAD: &[u16] = &[0x0501, 0x0502, 0x0503, 0x0504];
/// Load (in the process group), unload, rundown at the start and at the end.
const IMAGES: &[u16] = &[0x030a, 0x1402, 0x1403, 0x1404];
