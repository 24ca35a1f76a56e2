//! What a guest may use. The sandbox is called *limits*, never policy.

use std::time::Duration;

use crate::breaker::BreakerRule;
use crate::lane::LaneRule;

/// Bounds on a guest, the same for every policy of a [`PolicyHost`](crate::PolicyHost).
///
/// Fuel is the bound that matters: it is counted in executed instructions and copied bytes, so the same journey gets
/// the same verdict under any load. The deadlines only catch what fuel cannot see: they are of the processor's time, so a
/// guest is not charged for the time that its thread waits, and are found to have passed at the latest after twice as long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of one instance, in bytes. Default 64 MiB, which fits the Python and JavaScript runtimes.
    pub memory_bytes: usize,
    /// Elements of each table of an instance. Default 20,000.
    pub table_elements: usize,
    /// Fuel of one `route`, `send` or `receive`. Default 2,000,000: a tight loop ends after 1.5 ms.
    pub fuel_per_call: u64,
    /// Fuel of instantiation, and of `describe`. Default 50,000,000, about 40 ms of a tight loop: interpreters start
    /// slowly.
    pub fuel_at_start: u64,
    /// Fuel of the constructor of a session. Default 5,000,000, about 4 ms of a tight loop: the calls of the sessions
    /// that share the instance wait meanwhile, and with them the steps of everyone in their batch.
    pub fuel_per_session: u64,
    /// Processor time of one `route`, `send` or `receive`, and of the constructor. Default 1 s.
    pub deadline: Duration,
    /// Processor time of instantiation, and of `describe`. Default 10 s.
    pub deadline_at_start: Duration,
    /// Bytes that the guest may hand to the host in one call: its answer, and all its log lines. Default 1 MiB.
    pub answer_bytes: usize,
    /// Stack of the guest, in bytes. Default 512 KiB.
    pub stack_bytes: usize,
    /// Size of a component, in bytes. Default 32 MiB.
    pub component_bytes: usize,
    /// Sessions that may live at the same time, all policies together. Default 4,096. Address space is reserved for
    /// an instance each; above about 15,000 the kernel's default `vm.max_map_count` (four maps an instance) is the
    /// bound.
    pub sessions: u32,
    /// Who shares an instance. Default [`Isolation::Tenant`].
    pub isolation: Isolation,
    /// Instances that a tenant's sessions of one revision are spread over before two share one; as many as there are
    /// decode loops keep them from waiting for each other. Default 4.
    pub shards: u32,
    /// Sessions in one instance at the same time; the next one opens another instance. Default 4,096.
    pub sessions_per_instance: u32,
    /// Sessions that one instance serves in its life; it ends with the last of them. Default 10,000.
    pub sessions_served_most: u32,
    /// What a session may remember of its calls, in bytes, so that it can be restored exactly when another session
    /// takes their instance with it. Default 256 KiB, about 2,000 steps without candidates.
    pub record_bytes: usize,
    /// When new sessions of a failing revision are refused.
    pub breaker: BreakerRule,
    /// When calls are made outside of steps.
    pub lane: LaneRule,
}

/// Who shares an instance, and so its memory. Never two tenants, and never two revisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Sessions of one tenant and revision.
    #[default]
    Tenant,
    /// Nobody: each journey has an instance of its own, for 13 microseconds and 24 KiB each.
    Journey,
}

impl Limits {
    /// Memory above which an instance takes no new sessions: linear memory never shrinks, so what leaks is let go.
    pub(crate) fn memory_bytes_full(&self) -> usize {
        self.memory_bytes / 4 * 3
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            table_elements: 20_000,
            fuel_per_call: 2_000_000,
            fuel_at_start: 50_000_000,
            fuel_per_session: 5_000_000,
            deadline: Duration::from_secs(1),
            deadline_at_start: Duration::from_secs(10),
            answer_bytes: 1 << 20,
            stack_bytes: 512 << 10,
            component_bytes: 32 << 20,
            sessions: 4096,
            isolation: Isolation::default(),
            shards: 4,
            sessions_per_instance: 4096,
            sessions_served_most: 10_000,
            record_bytes: 256 << 10,
            breaker: BreakerRule::default(),
            lane: LaneRule::default(),
        }
    }
}
