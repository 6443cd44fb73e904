"""Output of Windows commands, written after Microsoft's documentation of each."""

from __future__ import annotations

PLAN = "381b4222-f694-41f0-9685-ff5bb260df2e"

ACTIVE_SCHEME = "Power Scheme GUID: 381b4222-f694-41f0-9685-ff5bb260df2e  (Balanced)\n"

PROCESSOR_POWER = """\
Power Scheme GUID: 381b4222-f694-41f0-9685-ff5bb260df2e  (Balanced)
  GUID Alias: SCHEME_BALANCED
  Subgroup GUID: 54533251-82be-4824-96c1-47b60b740d00  (Processor power management)
    GUID Alias: SUB_PROCESSOR
    Power Setting GUID: 0cc5b647-c1df-4637-891a-dec35c318583  (Processor performance core parking min cores)
      GUID Alias: CPMINCORES
      Minimum Possible Setting: 0x00000000
      Maximum Possible Setting: 0x00000064
      Possible Settings increment: 0x00000001
      Possible Settings units: %
    Current AC Power Setting Index: 0x00000064
    Current DC Power Setting Index: 0x0000000a

    Power Setting GUID: 7f2f5cfa-f10c-4823-b5e1-e93ae85f46b5  (Heterogeneous policy in effect)
      Possible Setting Index: 000
      Possible Setting Friendly Name: Use heterogeneous policy 0
      Possible Setting Index: 004
      Possible Setting Friendly Name: Use heterogeneous policy 4
    Current AC Power Setting Index: 0x00000000
    Current DC Power Setting Index: 0x00000004

    Power Setting GUID: be337238-0d82-4146-a960-4f3749d470c7  (Processor performance boost mode)
      GUID Alias: PERFBOOSTMODE
      Possible Setting Index: 000
      Possible Setting Friendly Name: Disabled
      Possible Setting Index: 002
      Possible Setting Friendly Name: Aggressive
    Current AC Power Setting Index: 0x00000002
    Current DC Power Setting Index: 0x00000002

"""  # noqa: E501

GERMAN_PROCESSOR_POWER = """\
GUID des Energieschemas: 8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c  (Höchstleistung)
  GUID-Alias: SCHEME_MIN
  GUID der Untergruppe: 54533251-82be-4824-96c1-47b60b740d00  (Prozessorenergieverwaltung)
    GUID-Alias: SUB_PROCESSOR
    GUID der Energieeinstellung: 0cc5b647-c1df-4637-891a-dec35c318583  (Minimale Anzahl der Kerne)
      GUID-Alias: CPMINCORES
      Minimal mögliche Einstellung: 0x00000000
      Maximal mögliche Einstellung: 0x00000064
      Inkrement möglicher Einstellungen: 0x00000001
      Einheiten möglicher Einstellungen: %
    Index der aktuellen Wechselstromeinstellung: 0x00000064
    Index der aktuellen Gleichstromeinstellung: 0x00000032
"""

BEST_PERFORMANCE = "ded574b5-45a0-4f42-8737-46345c09c238"
OVERLAY = f"""
HKEY_LOCAL_MACHINE\\SYSTEM\\CurrentControlSet\\Control\\Power\\User\\PowerSchemes
    ActivePowerScheme    REG_SZ    {PLAN}
    ActiveOverlayAcPowerScheme    REG_SZ    {BEST_PERFORMANCE.upper()}
    ActiveOverlayDcPowerScheme    REG_SZ    00000000-0000-0000-0000-000000000000

HKEY_LOCAL_MACHINE\\SYSTEM\\CurrentControlSet\\Control\\Power\\User\\PowerSchemes\\{PLAN}
"""

VERSION = """
HKEY_LOCAL_MACHINE\\SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion
    SystemRoot    REG_SZ    C:\\Windows
    CurrentBuild    REG_SZ    22631
    CurrentMajorVersionNumber    REG_DWORD    0xa
    CurrentMinorVersionNumber    REG_DWORD    0x0
    DisplayVersion    REG_SZ    23H2
    ProductName    REG_SZ    Windows 10 Pro
    UBR    REG_DWORD    0xd97

"""

PROCESSOR = """
HKEY_LOCAL_MACHINE\\HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0
    ProcessorNameString    REG_SZ    12th Gen Intel(R) Core(TM) i9-12900K
    VendorIdentifier    REG_SZ    GenuineIntel
    ~MHz    REG_DWORD    0xc78

"""

DEVICE_GUARD = '{"VirtualizationBasedSecurityStatus":2,"SecurityServicesRunning":[1,2]}\n'
COMPUTER = (
    '{"HypervisorPresent":true,"Manufacturer":"Example","Model":"Tower 1",'
    '"TotalPhysicalMemory":34359738368}\n'
)

COUNTERS = """
Id  Name                        Interval  Min      Max
---------------------------------------------------------------
  0 Timer                          10000  1221    1000000
  2 TotalIssues                    65536  4096 2147483647
 10 CacheMisses                    65536  4096 2147483647
 19 TotalCycles                    65536  4096 2147483647
 25 UnhaltedCoreCycles             65536  4096 2147483647
 26 InstructionRetired             65536  4096 2147483647
"""

ONLY_TIMER = """
Id  Name                        Interval  Min      Max
---------------------------------------------------------------
  0 Timer                          10000  1221    1000000
"""

# No process of Linux has this number.
TASKS = '"game.exe","8388608","Console","1","123,456 K"\n'
NO_TASKS = "INFO: No tasks are running which match the specified criteria.\n"
