"""Changes to try: what `--do` accepts, and how each changes the programs of a recording."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedlens.errors import ChangeError
from schedlens.machine import cpu_list
from schedlens.replay import frequencies, windows_rules, worker_pools
from schedlens.replay.ops import CannotTellError, Op, Program
from schedlens.replay.recorded_programs import Recorded

FORMS = (
    "affinity THREAD=any", "affinity THREAD=CPUS", "ideal THREAD=CPU", "priority THREAD=NUMBER",
    "qos THREAD=eco", "qos THREAD=high", "work THREAD=-PERCENT%", "workers THREADS=NUMBER",
    "alone THREAD", "nice THREAD=NUMBER", "quota CGROUP=CPUS", "quota CGROUP=none",
    "sleep THREAD", "frequency CPUS=MHZ", "remove PROCESS", "parking=off", "unparked=NUMBER",
    "smt=off",
)  # fmt: skip
# The kernel's priority of nice 0, and that of the most urgent fair thread.
NICE_0, FAIR = 120, 100
# Of a cgroup's quota (cpu.max, cpu.cfs_period_us), if none is set.
DEFAULT_PERIOD_NS = 100_000_000
_ASSIGNED = re.compile(
    r"(affinity|ideal|priority|nice|quota|qos|workers|work|frequency)\s+(.+?)\s*=\s*(\S+)"
)


@dataclass(frozen=True)
class Change:
    """A change: `kind` is the first word; `pattern` chooses threads or processes."""

    text: str
    kind: str
    pattern: str = ""
    value: str = ""

    @property
    def has_range(self) -> bool:
        """Whether no recording shows exactly what it does."""
        return self.kind == "frequency"


def parse(text: str) -> Change:
    """A change from its text. Raises `ChangeError`."""
    text = " ".join(text.split())
    if text in {"parking=off", "smt=off"}:
        return Change(text, text.partition("=")[0])
    if text.startswith(("remove ", "alone ", "sleep ")) and "=" not in text:
        kind, _, pattern = text.partition(" ")
        return Change(text, kind, pattern)
    if re.fullmatch(r"unparked\s?=\s?[1-9]\d{0,4}", text):
        return Change(text, "unparked", "", text.partition("=")[2].strip())
    match = _ASSIGNED.fullmatch(text)
    if match is None:
        raise ChangeError(f"'{text}' is not a change: use one of {'; '.join(FORMS)}")
    change = Change(text, match[1], match[2], match[3])
    _check(change)
    return change


def _check(change: Change) -> None:
    value = change.value
    patterns = {
        "affinity": r"any|[\d,:/-]+", "ideal": r"\d{1,5}", "priority": r"[12]?\d|3[01]",
        "nice": r"-?1?\d|-20", "quota": r"none|\d{1,4}(\.\d{1,3})?", "qos": "eco|high",
        "work": r"-\d{1,2}(\.\d+)?%",
        "workers": r"[1-9]\d{0,3}", "frequency": r"[1-9]\d{2,4}",
    }  # fmt: skip
    if change.kind == "affinity" and value != "any" and re.fullmatch(patterns["affinity"], value):
        cpu_list.parse(value)
    if change.kind == "frequency" and change.pattern not in {"*", "any"}:
        cpu_list.parse(change.pattern)
    if not re.fullmatch(patterns[change.kind], value):
        forms = "; ".join(form for form in FORMS if form.startswith(change.kind))
        raise ChangeError(f"'{value}' is not a value of {change.kind}: use {forms}")


def changed(recorded: Recorded, changes: Sequence[Change], end: str = "middle") -> Recorded:
    """The recording's programs with the changes, in order. `end`: low, middle or high of the range
    of what they do. Raises `ChangeError` if one fits nothing, and `CannotTellError`."""
    made = replace(
        recorded,
        programs={utid: replace(found) for utid, found in recorded.programs.items()},
        sections=dict(recorded.sections),
    )
    for change in changes:
        match change.kind:
            case "parking":
                made.parking = []
            case "unparked":
                made.parking = windows_rules.with_floor(
                    made.parking, len(made.machine.numbers), int(change.value)
                )
            case "smt":
                _without_siblings(made)
            case "remove":
                _remove(made, change)
            case "nice":
                _set_nice(made, change)
            case "quota":
                _set_quota(made, change)
            case "workers":
                worker_pools.resize(made, fitting(made, change), int(change.value))
            case "sleep":
                _sleep(fitting(made, change), change)
            case "frequency":
                chosen = _cpus(made, change.pattern)
                frequencies.lock(made, chosen, float(change.value) * 1000, end)
            case "alone":
                _set_apart(made, fitting(made, change))
            case _:
                _set(made, change)
    return made


def fitting(recorded: Recorded, change: Change) -> list[Program]:
    """The threads whose name, or `process/thread`, matches. Raises `ChangeError` for none."""
    found = [
        program
        for program in recorded.programs.values()
        if fnmatch.fnmatchcase(program.name, change.pattern)
        or fnmatch.fnmatchcase(f"{program.process}/{program.name}", change.pattern)
    ]
    if not found:
        raise _nothing("thread", change, [known.name for known in recorded.programs.values()])
    return found


def _nothing(what: str, change: Change, names: list[str]) -> ChangeError:
    near = difflib.get_close_matches(change.pattern, sorted(set(names)), n=3)
    hint = f": did you mean {', '.join(near)}?" if near else ""
    return ChangeError(f"no {what} that ran is named '{change.pattern}'{hint or '; * fits any'}")


def _set(made: Recorded, change: Change) -> None:
    chosen = fitting(made, change)
    if made.linux is not None and change.kind in {"priority", "qos", "ideal"}:
        raise ChangeError(f"{change.kind} is a setting of Windows: use nice or affinity")
    numbers = made.machine.numbers
    for program in chosen:
        if change.kind == "affinity":
            if change.value == "any":
                if not program.affinity_known:
                    raise CannotTellError(f"the affinity of {program.name} is not recorded")
                program.affinity = list(range(len(numbers)))
            else:
                program.affinity = _cpus(made, change.value)
        elif change.kind == "ideal":
            (program.ideal,) = _places(made, [int(change.value)])
        elif change.kind == "priority":
            program.priority = int(change.value)
        elif change.kind == "qos":
            program.eco = change.value == "eco"
    if change.kind == "work":
        _shorten(made, chosen, float(change.value[1:-1]) / 100)


def _set_nice(made: Recorded, change: Change) -> None:
    if made.linux is None:
        raise ChangeError("nice fits nothing: the recording is not of Linux")
    for program in fitting(made, change):
        if program.priority >= FAIR:
            program.priority = NICE_0 + int(change.value)


def _set_quota(made: Recorded, change: Change) -> None:
    """A quota in CPUs for cgroups, in the period that each has."""
    cpus = None if change.value == "none" else float(change.value)
    if cpus == 0:
        raise ChangeError("quota must be more than 0 CPUs")
    limited = [one for one in made.limits if fnmatch.fnmatchcase(one.name, change.pattern)]
    if limited:
        made.limits = [one for one in made.limits if one not in limited]
        if cpus is not None:
            made.limits += [one.resized(cpus) for one in limited]
        return
    groups = made.linux.groups if made.linux else []
    fit = [
        place for place, one in enumerate(groups) if fnmatch.fnmatchcase(one.name, change.pattern)
    ]
    if made.linux is None or not fit:
        raise ChangeError(f"no cgroup is named '{change.pattern}'; * fits any")
    changed_groups = list(groups)
    for place in fit:
        period = groups[place].period_ns or DEFAULT_PERIOD_NS
        quota = None if cpus is None else round(cpus * period)
        changed_groups[place] = replace(groups[place], quota_ns=quota, period_ns=period)
    made.linux = replace(made.linux, groups=changed_groups)


def _sleep(chosen: list[Program], change: Change) -> None:
    """The threads wait where they were seen to spin."""
    if not any(op.kind == "spin" for program in chosen for op in program.ops):
        raise CannotTellError(
            f"{change.pattern} is not seen to spin: what ends its work is not what another thread "
            "of its process does"
        )
    for program in chosen:
        program.ops = [
            Op("wait", op.value, op.gates) if op.kind == "spin" else op for op in program.ops
        ]


def _cpus(made: Recorded, listed: str) -> list[int]:
    """Indices of the CPUs of a list; `*` and `any` are all."""
    if listed in {"*", "any"}:
        return list(range(len(made.machine.numbers)))
    return _places(made, cpu_list.parse(listed))


def _places(made: Recorded, cpus: list[int]) -> list[int]:
    unknown = [cpu for cpu in cpus if cpu not in made.machine.numbers]
    if unknown:
        raise ChangeError(f"the recording has no CPU {cpu_list.text(unknown)}")
    return [made.machine.index(cpu) for cpu in cpus]


def _shorten(made: Recorded, chosen: list[Program], share: float) -> None:
    takers: dict[int, int] = defaultdict(int)
    shorter: dict[int, int] = defaultdict(int)
    utids = {program.utid for program in chosen}
    for program in made.programs.values():
        for op in program.ops:
            if op.kind == "take":
                takers[op.gates[0]] += 1
                shorter[op.gates[0]] += program.utid in utids
    if made.goal is not None:
        made.goal = made.goal.shortened(utids, share)
    for program in chosen:
        program.ops = [
            Op("run", op.value * (1 - share)) if op.kind == "run" else op for op in program.ops
        ]
    for gate, jobs in made.sections.items():
        if shorter[gate]:
            factor = 1 - share * shorter[gate] / takers[gate]
            made.sections[gate] = [job * factor for job in jobs]


def _without_siblings(made: Recorded) -> None:
    cpus = made.machine.machine.cpus
    if not any(cpu.smt_index for cpu in cpus):
        raise ChangeError("smt=off fits nothing: the recorded machine has no SMT siblings")
    for program in made.programs.values():
        whole = {cpus[index].core for index in program.affinity}
        program.affinity = sorted(whole)
        if program.ideal is not None:
            program.ideal = cpus[program.ideal].core


def _set_apart(made: Recorded, chosen: list[Program]) -> None:
    """Each chosen thread gets a whole core: the other threads may not use their siblings."""
    cpus = made.machine.machine.cpus
    if not any(cpu.smt_index for cpu in cpus):
        raise ChangeError("alone fits nothing: the recorded machine has no SMT siblings")
    fastest = sorted(
        (cpu for cpu in cpus if not cpu.smt_index), key=lambda cpu: (-cpu.speed, cpu.cpu)
    )
    wide = [cpu for cpu in fastest if any(o.core == cpu.core and o.smt_index for o in cpus)]
    if len(chosen) > len(wide):
        raise ChangeError(
            f"alone fits {len(chosen)} threads, and the machine has {len(wide)} cores with siblings"
        )
    cores = {cpu.core for cpu in wide[: len(chosen)]}
    own = [cpu.cpu for cpu in wide[: len(chosen)]]
    utids = {program.utid for program in chosen}
    for program in made.programs.values():
        if program.utid in utids:
            program.affinity, program.ideal = own, own[0] if len(own) == 1 else None
            continue
        rest = [index for index in program.affinity if cpus[index].core not in cores]
        if not rest:
            raise CannotTellError(f"{program.name} may use no other core")
        program.affinity = rest
        if program.ideal is not None and program.ideal not in rest:
            program.ideal = None


def _waits_for(op: Op, gates: set[int]) -> bool:
    return op.kind in {"wait", "spin"} and op.gates[0] in gates


def _remove(made: Recorded, change: Change) -> None:
    gone = {
        utid
        for utid, program in made.programs.items()
        if fnmatch.fnmatchcase(program.process, change.pattern)
    }
    if not gone:
        names = [known.process for known in made.programs.values()]
        raise _nothing("process", change, names)
    opened = {
        gate
        for utid in gone
        for op in made.programs[utid].ops
        if op.kind in {"open", "take"}
        for gate in op.gates
    }
    for utid, program in made.programs.items():
        waits = any(_waits_for(op, opened) for op in program.ops)
        if utid not in gone and waits:
            if made.watched is not None and utid not in made.watched.utids:
                # Such as the parent that waits for their end.
                program.ops = [op for op in program.ops if not _waits_for(op, opened)]
                continue
            raise CannotTellError(f"{program.name} waits for threads of {change.pattern}")
    if any(utid in gone for utid in made.frames):
        raise CannotTellError(f"{change.pattern} makes the frames")
    if made.watched is not None and gone & made.watched.utids:
        raise CannotTellError(f"{change.pattern} is the process whose work counts")
    made.programs = {utid: program for utid, program in made.programs.items() if utid not in gone}
