//! Layouts of the records that describe the machine: group 0B, group 12, and the classes that
//! merging adds.

use super::kernel_layouts::Row;

/// Group 0B (system configuration) and group 12 (power).
pub(crate) const LAYOUTS: &[Row] = &[
    (
        &[0x0b0a],
        0,
        "SystemConfigCPU",
        "MHz:u32 NumberOfProcessors:u32 MemSize:u32 PageSize:u32 AllocationGranularity:u32 \
         ComputerName:text[256] DomainName:text[132] HyperThreadingFlag:ptr",
    ),
    (
        &[0x0b0a],
        2,
        "SystemConfigCPU",
        "MHz:u32 NumberOfProcessors:u32 MemSize:u32 PageSize:u32 AllocationGranularity:u32 \
         ComputerName:text[256] DomainName:text[134] HyperThreadingFlag:ptr",
    ),
    (
        &[0x0b0a],
        3,
        "SystemConfigCPU",
        "MHz:u32 NumberOfProcessors:u32 MemSize:u32 PageSize:u32 AllocationGranularity:u32 \
         ComputerName:text[256] DomainName:text[134] HyperThreadingFlag:ptr \
         HighestUserAddress:ptr ProcessorArchitecture:u16 ProcessorLevel:u16 \
         ProcessorRevision:u16 PaeEnabled:u8 NxEnabled:u8 MemorySpeed:u32",
    ),
    (
        &[0x0b0b],
        0,
        "SystemConfigPhyDisk",
        "DiskNumber:u32 BytesPerSector:u32 SectorsPerTrack:u32 TracksPerCylinder:u32 \
         Cylinders:u64 SCSIPort:u32 SCSIPath:u32 SCSITarget:u32 SCSILun:u32 \
         Manufacturer:text[256] PartitionCount:u32 WriteCacheEnabled:u8 -:u8 \
         BootDriveLetter:text[3] Spare:text[2]",
    ),
    (
        &[0x0b0c],
        0,
        "SystemConfigLogDisk",
        "StartOffset:u64 PartitionSize:u64 DiskNumber:u32 Size:u32 DriveType:u32 \
         DriveLetterString:text[4] -:u32 PartitionNumber:u32 SectorsPerCluster:u32 \
         BytesPerSector:u32 -:u32 NumberOfFreeClusters:i64 TotalNumberOfClusters:i64 \
         FileSystem:text[16] VolumeExt:u32",
    ),
    (
        &[0x0b0d],
        2,
        "SystemConfigNIC",
        "PhysicalAddr:u64 PhysicalAddrLen:u32 Ipv4Index:u32 Ipv6Index:u32 NICDescription:text \
         IpAddresses:text DnsServerAddresses:text",
    ),
    (
        &[0x0b0e],
        0,
        "SystemConfigVideo",
        "MemorySize:u32 XResolution:u32 YResolution:u32 BitsPerPixel:u32 VRefresh:u32 \
         ChipType:text[256] DACType:text[256] AdapterString:text[256] BiosString:text[256] \
         DeviceId:text[256] StateFlags:u32",
    ),
    (
        &[0x0b0f],
        2,
        "SystemConfigServices",
        "ProcessId:u32 ServiceState:u32 SubProcessTag:u32 ServiceName:text DisplayName:text \
         ProcessName:text LoadOrderGroup:text SvchostGroup:text",
    ),
    (&[0x0b10], 0, "SystemConfigPower", "S1:u8 S2:u8 S3:u8 S4:u8 S5:u8"),
    (
        &[0x0b11],
        2,
        "SystemConfigNetwork",
        "TcbTablePartitions:u32 MaxHashTableSize:u32 MaxUserPort:u32 TcpTimedWaitDelay:u32",
    ),
    (
        &[0x0b12],
        2,
        "SystemConfigOpticalDisk",
        "DiskNumber:u16 BusType:u16 DeviceType:u16 MediaType:u16 StartingOffset:u64 Size:u64 \
         NumberOfFreeBlocks:u64 TotalNumberOfBlocks:u64 NextWritableAddress:u64 \
         NumberOfSessions:u32 NumberOfTracks:u32 BytesPerSector:u32 DiscStatus:u16 \
         LastSessionStatus:u16 DriveLetter:text FileSystemName:text DeviceName:ansi \
         ManufacturerName:ansi",
    ),
    (
        &[0x0b15],
        0,
        "SystemConfigIRQ",
        "IRQAffinity:u64 IRQNum:u32 DeviceDescriptionLen:u32 DeviceDescription:text",
    ),
    (
        &[0x0b15],
        3,
        "SystemConfigIRQ",
        "IRQAffinity:u64 IRQGroup:u16 Reserved:u16 IRQNum:u32 DeviceDescriptionLen:u32 \
         DeviceDescription:text",
    ),
    (
        &[0x0b16],
        0,
        "SystemConfigPnP",
        "IDLength:u32 DescriptionLength:u32 FriendlyNameLength:u32 DeviceID:text \
         DeviceDescription:text FriendlyName:text",
    ),
    (
        &[0x0b16],
        3,
        "SystemConfigPnP",
        "IDLength:u32 DescriptionLength:u32 FriendlyNameLength:u32 DeviceID:text \
         DeviceDescription:text FriendlyName:text PdoName:text",
    ),
    (
        &[0x0b16],
        4,
        "SystemConfigPnP",
        "ClassGuid:guid UpperFiltersCount:u32 LowerFiltersCount:u32 DeviceID:text \
         DeviceDescription:text FriendlyName:text PdoName:text ServiceName:text \
         UpperFilters:text#UpperFiltersCount LowerFilters:text#LowerFiltersCount",
    ),
    (
        &[0x0b16],
        5,
        "SystemConfigPnP",
        "ClassGuid:guid UpperFiltersCount:u32 LowerFiltersCount:u32 DevStatus:u32 \
         DevProblem:u32 DeviceID:text DeviceDescription:text FriendlyName:text PdoName:text \
         ServiceName:text UpperFilters:text#UpperFiltersCount LowerFilters:text#LowerFiltersCount",
    ),
    (
        &[0x0b17],
        2,
        "SystemConfigIDEChannel",
        "TargetId:u32 DeviceType:u32 DeviceTimingMode:u32 LocationInformationLen:u32 \
         LocationInformation:text",
    ),
    (&[0x0b18], 2, "SystemConfigNumaNode", "NodeCount:u32 Nodes:node#NodeCount"),
    (
        &[0x0b19],
        2,
        "SystemConfigPlatform",
        "SystemManufacturer:text SystemProductName:text BiosDate:text BiosVersion:text",
    ),
    (&[0x0b1a], 2, "SystemConfigProcessorGroup", "GroupCount:u32 Affinity:ptr#GroupCount"),
    (
        &[0x0b1b],
        2,
        "SystemConfigProcessorNumber",
        "ProcessorCount:u32 ProcessorNumber:processor#ProcessorCount",
    ),
    (&[0x0b1c], 2, "SystemConfigDPI", "MachineDPI:u32 UserDPI:u32"),
    (&[0x0b1d], 2, "SystemConfigCodeIntegrity", "CodeIntegrityInfo:u32"),
    (&[0x0b1e], 2, "SystemConfigMachineId", "MachineId:guid"),
    (&[0x0b21], 2, "SystemConfigDeviceFamily", "UAPInfo:u64 DeviceFamily:u32 DeviceForm:u32"),
    (&[0x0b22], 2, "SystemConfigFlightIds", "UpdateId:text FlightIdList:text"),
    (
        &[0x0b23],
        2,
        "SystemConfigProcessors",
        "ProcessorIndex:u32 FeatureSet:u32 ProcessorSpeed:u32 ProcessorName:text[64] \
         VendorIdentifier:text[64] ProcessorIdentifier:text[64]",
    ),
    (
        &[0x0b24],
        2,
        "SystemConfigVirtualization",
        "VbsEnabled:u8 HvciEnabled:u8 HyperVisorEnabled:u8 Reserved:u8",
    ),
    (
        &[0x0b25],
        2,
        "SystemConfigBoot",
        "BootFlags:u64 FirmwareType:u32 SecureBootEnabled:u8 SecureBootCapable:u8",
    ),
    (&[0x1233, 0x1234], 0, "PerfState", PERF_STATE),
    (&[0x1235], 0, "IdleStateChange", "NewState:u32 OldState:u32 Processors:u64"),
    (
        &[0x1239],
        0,
        "IdleEnter",
        "State:u32 Properties:u16 ExpectedWakeReason:u8 -:u8 ExpectedDuration:u64",
    ),
    (&[0x123a], 0, "IdleExit", "State:u32 Status:u32"),
    (
        &[0x123c],
        0,
        "IdleExitLatency",
        "Flags:u32 PlatformState:u32 ProcessorState:u32 ReturnLatency:u32 TotalLatency:u32",
    ),
];

const PERF_STATE: &str = "Type:u32 NewState:u32 OldState:u32 Result:i32 Processors:u64";

/// First number of a class GUID, opcode, name, fields.
pub(crate) type ClassRow = (u32, u8, &'static str, &'static str);

/// SystemConfigEx and KernelTraceControl's ImageID, both added by merging; lost events.
pub(crate) const CLASSES: &[ClassRow] = &[
    (0x9b79_ee91, 32, "BuildInfo", "InstallDate:u64 BuildLab:text ProductName:text"),
    (0x9b79_ee91, 33, "SystemPaths", "SystemDirectory:text SystemWindowsDirectory:text"),
    (0x9b79_ee91, 34, "UnknownVolume", "Value:text"),
    (0x9b79_ee91, 35, "VolumeMapping", "NtPath:text DosPath:text"),
    (
        0xb3e6_75d7,
        0,
        "ImageID",
        "ImageBase:ptr ImageSize:ptr ProcessId:u32 TimeDateStamp:u32 OriginalFileName:text",
    ),
    (0xb3e6_75d7, 32, "ImageIDNone", "ImageBase:ptr ProcessId:u32"),
    (
        0xb3e6_75d7,
        34,
        "DbgID_Dbg",
        "ImageBase:ptr ProcessId:u32 ImageChecksum:u32 TimeDateStamp:u32 ImageSize:u32 \
         DbgFileName:text",
    ),
    (0xb3e6_75d7, 36, "DbgID_RSDS", PDB),
    (0xb3e6_75d7, 37, "DbgID_ILRSDS", PDB),
    (
        0xb3e6_75d7,
        38,
        "DbgPPDB",
        "ImageBase:ptr ProcessId:u32 TimeDateStamp:u32 Version:u16 Signature:u16",
    ),
    (0xb3e6_75d7, 39, "DbgID_39", "ImageBase:ptr ProcessId:u32 -:u16 -:u16 Guid:guid -:u32"),
    (0xb3e6_75d7, 40, "ImageIDDeterministic", "ImageBase:ptr ProcessId:u32"),
    (0xb3e6_75d7, 41, "DbgIDError", "Error:text"),
    (
        0xb3e6_75d7,
        64,
        "FileVersion",
        "ImageSize:u32 TimeDateStamp:u32 OrigFileName:text FileDescription:text \
         FileVersion:text BinFileVersion:text VerLanguage:text ProductName:text \
         CompanyName:text ProductVersion:text FileId:text ProgramId:text",
    ),
    (0x6a39_9ae0, 32, "LostEvent", ""),
    (0x6a39_9ae0, 33, "LostBuffer", ""),
    (0x6a39_9ae0, 34, "LostFile", ""),
];

const PDB: &str = "ImageBase:ptr ProcessId:u32 GuidSig:guid Age:u32 PdbFileName:ansi";
