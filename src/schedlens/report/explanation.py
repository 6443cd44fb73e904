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
    (
        "ready_obstacle",
        "",
        "Threads that could work wait in line although a CPU is idle or parked.",
    ),
    (
        "avoidable_sharing",
        "",
        "Threads share a core while a whole core they may use is free.",
    ),
    ("core_type_residency", "", "A thread with much to do runs on slow (E) cores."),
    (
        "core_choice",
        "",
        "A thread that much waits for runs on a slow core while a fast one is idle.",
    ),
    ("priority_order", "Lower", "Work of low priority gets a CPU, or the better one, first."),
    ("parking", "Frames", "Frames take longer while the system keeps many CPUs parked."),
    (
        "quantum_end_chain",
        "",
        "Threads take turns on one CPU, one time slice after the other.",
    ),
    (
        "real_time",
        "Real-time",
        "A real-time thread keeps a CPU for itself while others wait for it.",
    ),
    ("real_time", "Deadline", "A thread with a deadline needs more time than it reserved."),
    ("thread_summary", "", "A thread waits for a CPU longer than its fair share explains."),
    ("pinned_cpu_visitor", "", "Other work runs on a CPU kept for one thread, and holds it up."),
    (
        "oversubscription",
        "",
        "A pool has about as many workers as there are logical CPUs, or more.",
    ),
    ("short_run", "", "A thread that looks like one worker among many carries the frames."),
    ("pinned_sibling", "", "Two threads are bound to one core while another core is idle."),
    ("steal", "", "The host of this virtual machine takes CPU time away."),
    ("throttled_cgroup", "", "A CPU quota stops these threads although they have work to do."),
    (
        "reported_vs_real",
        "",
        "The busy figure that the system reports is not the work its cores do.",
    ),
    (
        "sibling_overlap",
        "",
        "Much of the time two threads share one core, and each gets a part of it.",
    ),
    ("recorder_cost", "", "Recording itself slows the program down."),
    ("trace_quality", "", "The recording lacks some of the events that the analyzers need."),
)


def sentence(analyzer: str, title: str) -> str | None:
    """The sentence for a finding; None where its title has to do."""
    for name, begin, text in _SENTENCES:
        if name == analyzer and title.startswith(begin):
            return text
    return None
