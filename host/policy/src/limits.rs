//! What a guest may use. The sandbox is called *limits*, never policy.

use std::time::Duration;

/// Bounds on a guest, the same for every policy of a [`PolicyHost`](crate::PolicyHost).
///
/// Fuel is the bound that matters: it is counted in executed instructions and copied bytes, so the same journey gets
/// the same verdict under any load. The deadlines only catch what fuel cannot see. They must be generous, as a guest is
/// charged for the time that the system leaves its thread waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of one session, in bytes. Default 64 MiB, which fits the Python and JavaScript runtimes.
    pub memory_bytes: usize,
    /// Elements of each table of a session. Default 20,000.
    pub table_elements: usize,
    /// Fuel of one `route`, `send` or `receive`. Default 2,000,000: a tight loop ends after 1.5 ms.
    pub fuel_per_call: u64,
    /// Fuel of instantiation, of `describe`, and of the constructor, each. Default 50,000,000, about 40 ms of a tight
    /// loop: interpreters start slowly.
    pub fuel_at_start: u64,
    /// Wall clock of one `route`, `send` or `receive`. Default 1 s.
    pub deadline: Duration,
    /// Wall clock of instantiation, of `describe`, and of the constructor, each. Default 10 s.
    pub deadline_at_start: Duration,
    /// Bytes that the guest may hand to the host in one call: its answer, and all its log lines. Default 1 MiB.
    pub answer_bytes: usize,
    /// Stack of the guest, in bytes. Default 512 KiB.
    pub stack_bytes: usize,
    /// Size of a component, in bytes. Default 32 MiB.
    pub component_bytes: usize,
    /// Sessions that may live at the same time, all policies together. Default 4,096. Address space is reserved for
    /// each; above about 15,000 the kernel's default `vm.max_map_count` (four maps a session) is the bound.
    pub sessions: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            table_elements: 20_000,
            fuel_per_call: 2_000_000,
            fuel_at_start: 50_000_000,
            deadline: Duration::from_secs(1),
            deadline_at_start: Duration::from_secs(10),
            answer_bytes: 1 << 20,
            stack_bytes: 512 << 10,
            component_bytes: 32 << 20,
            sessions: 4096,
        }
    }
}
