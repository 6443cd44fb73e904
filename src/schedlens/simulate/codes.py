"""KTHREAD_STATE and KWAIT_REASON, as Windows numbers them."""

from __future__ import annotations

from schedlens._decoders import KWAIT_REASON

# KTHREAD_STATE.
READY = 1
TERMINATED = 4
WAITING = 5

# KWAIT_REASON of a thread that waits, or that has ended.
EXECUTIVE = KWAIT_REASON.index("Executive")
DELAY_EXECUTION = KWAIT_REASON.index("DelayExecution")
USER_REQUEST = KWAIT_REASON.index("UserRequest")
WR_QUEUE = KWAIT_REASON.index("WrQueue")

# KWAIT_REASON of a thread that leaves although it could continue.
WR_QUANTUM_END = KWAIT_REASON.index("WrQuantumEnd")
WR_PREEMPTED = KWAIT_REASON.index("WrPreempted")
WR_YIELD_EXECUTION = KWAIT_REASON.index("WrYieldExecution")
