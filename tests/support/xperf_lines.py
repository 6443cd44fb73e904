"""A drawn schedule as the lines that xperf's dumper prints."""

from __future__ import annotations

HEAD = """BeginHeader
                CSwitch,  TimeStamp, New Process Name ( PID),    New TID, NPri, NQnt, TmSinceLast, WaitTime, Old Process Name ( PID),    Old TID, OPri, OQnt,        OldState,      Wait Reason, Swapable, InSwitchTime, CPU, IdealProc,  OldRemQnt, NewPriDecr, PrevCState
            ReadyThread,  TimeStamp, Process Name ( PID),   ThreadID, Rdy Process Name ( PID),    Rdy TID, AdjustReason, AdjustIncrement, InDPC
                T-Start,  TimeStamp, Process Name ( PID),   ThreadID, StackBase
                  T-End,  TimeStamp, Process Name ( PID),   ThreadID, StackBase
EndHeader
OS Version: 10.0.26100, Trace Size: 64KB, Events Lost: 0, Buffers lost: 0, Trace Start: 133000000000000000, Trace Length: 1 sec, PointerSize: 8, Trace Name: a.etl
FirstReliableEventTimeStamp, 0
FirstReliableCSwitchEventTimeStamp, 0
"""  # noqa: E501
GAME, OTHER, IDLE = "game.exe ( 100)", "a, b.exe (  77)", "Idle (   0)"


def switch(
    us: int, cpu: int, new: tuple[str, int], old: tuple[str, int], state: str = "Waiting",
    reason: str = "UserRequest", quantum: int = 0,
) -> str:  # fmt: skip
    """A switch as xperf prints it; a name with a comma is in quotes."""
    names = [f'"{name}"' if "," in name else name for name in (new[0], old[0])]
    return (
        f"                CSwitch, {us:10}, {names[0]}, {new[1]:10},    9,   -1,      6,   0, "
        f"{names[1]}, {old[1]:10},    8,   -1, {state:>15}, {reason:>16}, Swapable,   6, {cpu:3}, "
        f"  3, {quantum:10},    0,    1\n"
    )


def ready(us: int, waker: tuple[str, int], woken: tuple[str, int], in_dpc: int = 0) -> str:
    return (
        f"            ReadyThread, {us:10}, {waker[0]}, {waker[1]:10}, {woken[0]}, {woken[1]:10}, "
        f"1, 0, {in_dpc}\n"
    )


# us      1000       1050    1080   1100       1150   1160
# cpu 0   8 ........ idle .........  8 ........ idle
# cpu 1   9 ................ wakes 8 ................. idle
A, B = (GAME, 8), (GAME, 9)
NOBODY = (IDLE, 0)
ROWS = "".join(
    [
        switch(1000, 0, A, NOBODY, "Running", "Executive"),
        switch(1000, 1, B, NOBODY, "Running", "Executive"),
        switch(1050, 0, NOBODY, A, quantum=84_017_152),
        ready(1080, B, A),
        switch(1100, 0, A, NOBODY, "Running", "Executive"),
        switch(1150, 0, NOBODY, A, "Ready", "WrPreempted"),
        switch(1160, 1, NOBODY, B),
    ]
)
