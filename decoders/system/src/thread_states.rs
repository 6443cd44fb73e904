//! What systems call the states of threads.

/// Letters of the Linux task states, by bit number.
pub const LINUX_LETTERS: [&str; 8] = ["S", "D", "T", "t", "X", "Z", "P", "I"];

/// Numbers of `KTHREAD_STATE`.
pub mod kthread_state {
    #![allow(missing_docs, reason = "the names are the kernel's")]

    pub const READY: i32 = 1;
    pub const RUNNING: i32 = 2;
    pub const STANDBY: i32 = 3;
    pub const TERMINATED: i32 = 4;
    pub const WAITING: i32 = 5;
    pub const DEFERRED_READY: i32 = 7;
}

/// Names of `KWAIT_REASON` by number.
pub const KWAIT_REASON: [&str; 43] = [
    "Executive",
    "FreePage",
    "PageIn",
    "PoolAllocation",
    "DelayExecution",
    "Suspended",
    "UserRequest",
    "WrExecutive",
    "WrFreePage",
    "WrPageIn",
    "WrPoolAllocation",
    "WrDelayExecution",
    "WrSuspended",
    "WrUserRequest",
    "WrEventPair",
    "WrQueue",
    "WrLpcReceive",
    "WrLpcReply",
    "WrVirtualMemory",
    "WrPageOut",
    "WrRendezvous",
    "WrKeyedEvent",
    "WrTerminated",
    "WrProcessInSwap",
    "WrCpuRateControl",
    "WrCalloutStack",
    "WrKernel",
    "WrResource",
    "WrPushLock",
    "WrMutex",
    "WrQuantumEnd",
    "WrDispatchInt",
    "WrPreempted",
    "WrYieldExecution",
    "WrFastMutex",
    "WrGuardedMutex",
    "WrRundown",
    "WrAlertByThreadId",
    "WrDeferredPreempt",
    "WrPhysicalFault",
    "WrIoRing",
    "WrMdlCache",
    "WrRcu",
];

/// Numbers of `KWAIT_REASON` that decide why a runnable thread left its CPU.
pub mod kwait_reason {
    #![allow(missing_docs, reason = "the names are the kernel's")]

    pub const WR_QUANTUM_END: i32 = 30;
    pub const WR_DISPATCH_INT: i32 = 31;
    pub const WR_PREEMPTED: i32 = 32;
    pub const WR_YIELD_EXECUTION: i32 = 33;
    pub const WR_DEFERRED_PREEMPT: i32 = 38;
}

#[cfg(test)]
mod tests {
    use super::{KWAIT_REASON, kwait_reason};

    #[test]
    fn numbers_are_those_of_the_names() {
        for (number, name) in [
            (kwait_reason::WR_QUANTUM_END, "WrQuantumEnd"),
            (kwait_reason::WR_DISPATCH_INT, "WrDispatchInt"),
            (kwait_reason::WR_PREEMPTED, "WrPreempted"),
            (kwait_reason::WR_YIELD_EXECUTION, "WrYieldExecution"),
            (kwait_reason::WR_DEFERRED_PREEMPT, "WrDeferredPreempt"),
        ] {
            assert_eq!(KWAIT_REASON[number as usize], name);
        }
    }
}
