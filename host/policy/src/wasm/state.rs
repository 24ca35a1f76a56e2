//! What the host knows while a guest runs: the guest's imports and its memory bound.

use std::sync::Arc;
use std::time::Instant;

use journey::JourneyId;
use journey::random::{Purpose, uniform};
use wasmtime::ResourceLimiter;

use super::bindings::tokenrouter::policy::{host, manifest, types};
use super::logs::{LogQuota, shorten};
use super::overdue::Overdue;
use super::view::Shown;
use crate::digest::Digest;

/// Who a guest works for: names its log lines and keys its random numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) revision: Digest,
    /// `None` while the component is being loaded.
    pub(crate) journey: Option<JourneyId>,
    pub(crate) seed: u64,
}

/// Whose call it is, and how far its random numbers are. It goes into the store for the time of a call.
#[derive(Debug)]
pub(crate) struct Asker {
    owner: Owner,
    /// The position being decided, and the numbers drawn there.
    position: u64,
    draws: u32,
    /// While recorded calls are made again: the fuel they took so far. Their log lines were written before.
    pub(crate) replayed_fuel: Option<u64>,
    /// What the last call took.
    pub(crate) fuel: u64,
    pub(super) shown: Shown,
}

impl Asker {
    pub(crate) fn new(owner: Owner) -> Self {
        Self { owner, position: 0, draws: 0, replayed_fuel: None, fuel: 0, shown: Shown::default() }
    }
}

/// The data of one store.
pub(super) struct State {
    pub(super) asker: Asker,
    logs: Arc<LogQuota>,
    pub(super) memory: Memory,
    /// Of the call under way.
    pub(super) overdue: Overdue,
    /// Bytes that this call may still log. Copying them costs the guest no fuel.
    log_bytes_left: usize,
}

impl State {
    pub(super) fn new(owner: Owner, logs: Arc<LogQuota>, memory: Memory) -> Self {
        Self { asker: Asker::new(owner), logs, memory, overdue: Overdue::default(), log_bytes_left: 0 }
    }

    /// A call about this position begins. Numbers go on where an earlier call about the same position stopped.
    pub(super) fn begin(&mut self, position: u64, log_bytes: usize) {
        self.log_bytes_left = log_bytes;
        if position != self.asker.position {
            self.asker.position = position;
            self.asker.draws = 0;
        }
        self.memory.refused = None;
    }
}

impl types::Host for State {}

impl manifest::Host for State {}

impl host::Host for State {
    fn uniform(&mut self) -> wasmtime::Result<f64> {
        let asker = &mut self.asker;
        let number = uniform(asker.owner.seed, asker.position, Purpose::Policy, asker.draws);
        asker.draws += 1;
        Ok(number)
    }

    fn log(&mut self, message: String) -> wasmtime::Result<()> {
        let left = self.log_bytes_left.checked_sub(message.len());
        self.log_bytes_left = left.ok_or_else(|| wasmtime::Error::msg("it logs too much in one call"))?;
        if self.asker.replayed_fuel.is_some() {
            return Ok(());
        }
        if let Some(dropped) = self.logs.take(Instant::now()) {
            let Owner { revision, journey, .. } = self.asker.owner;
            let journey = journey.map(|journey| journey.0);
            let line = shorten(&message);
            tracing::debug!(target: "policy::guest", %revision, journey, dropped, "{line}");
        }
        Ok(())
    }
}

/// Bounds what an instance's memories and tables may grow to, and remembers what it refused.
pub(super) struct Memory {
    bytes_most: usize,
    elements_most: usize,
    /// Bytes of all memories of the instance.
    pub(super) bytes: usize,
    /// The total that was asked for and refused during this call.
    pub(super) refused: Option<usize>,
}

impl Memory {
    pub(super) fn new(bytes_most: usize, elements_most: usize) -> Self {
        Self { bytes_most, elements_most, bytes: 0, refused: None }
    }
}

impl ResourceLimiter for Memory {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let total = self.bytes.saturating_add(desired.saturating_sub(current));
        let fits = total <= self.bytes_most && maximum.is_none_or(|maximum| desired <= maximum);
        if fits {
            self.bytes = total;
        } else {
            self.refused = Some(total);
        }
        Ok(fits)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= self.elements_most && maximum.is_none_or(|maximum| desired <= maximum))
    }

    fn instances(&self) -> usize {
        super::runtime::CORE_INSTANCES_MOST
    }

    fn tables(&self) -> usize {
        super::runtime::CORE_INSTANCES_MOST
    }

    fn memories(&self) -> usize {
        super::runtime::MEMORIES_MOST
    }
}
