"""What a finding means to someone who has never seen a trace, in one sentence."""

from __future__ import annotations

# By analyzer and the begin of the title, where an analyzer judges more than one thing.
_SENTENCES = (
    (
        "frame_time",
        "",
        "The picture stutters: some frames last much longer than those around them.",
    ),
    (
        "concurrency",
        "All",
        "More threads want to run than the machine has CPUs, so some must wait.",
    ),
    ("concurrency", "Exactly", "Much of the time one CPU works and the others have nothing to do."),
    ("ready_obstacle", "", "Threads that could work wait in line although a CPU is free."),
    (
        "avoidable_sharing",
        "",
        "Threads share a core and slow each other down while others are free.",
    ),
    ("core_type_residency", "", "A thread with much to do runs on slow (E) cores."),
    ("core_choice", "", "A thread with much to do runs on a slow core while a fast one is free."),
    ("priority_order", "", "Less important work runs while more important work has to wait."),
    ("parking", "", "Frames take longer while the system keeps CPUs parked (switched off)."),
    (
        "quantum_end_chain",
        "",
        "Threads that need each other take turns on one CPU, slice by slice.",
    ),
    ("thread_summary", "", "A thread that could work waits long for a CPU, again and again."),
    ("pinned_cpu_visitor", "", "Other work runs on a CPU kept for one thread, and holds it up."),
    ("steal", "", "The host of this virtual machine takes CPU time away."),
    ("throttled_cgroup", "", "A CPU quota stops these threads although they have work to do."),
    ("reported_vs_real", "", "The system looks less or more busy than it is."),
    ("sibling_overlap", "", "Two threads share one core much of the time, each slower than alone."),
    ("recorder_cost", "", "Recording itself slows the program down."),
    ("trace_quality", "", "The recording does not hold everything that the questions need."),
)


def sentence(analyzer: str, title: str) -> str | None:
    """The sentence for a finding; None where its title has to do."""
    for name, begin, text in _SENTENCES:
        if name == analyzer and title.startswith(begin):
            return text
    return None
