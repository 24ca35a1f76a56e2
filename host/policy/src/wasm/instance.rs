//! A component brought to life under limits, and the one way into it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use wasmtime::Store;

use super::bindings::Router;
use super::overdue::{Overdue, processor_time};
use super::runtime::{Runtime, Template};
use super::state::{Asker, Memory, Owner, State};
use super::ticker::ticks;
use super::verdict::Allowed;
use crate::error::{Call, PolicyError};
use crate::limits::Limits;

/// One instance in a store of its own, so that dropping it gives back everything that it used.
///
/// An instance that failed once must not be entered again; [`Shared`](super::Shared) sees to that.
pub(crate) struct Instance {
    store: Store<State>,
    router: Router,
    limits: Limits,
}

impl Instance {
    /// Instantiates the template.
    pub(super) fn new(runtime: &Runtime, template: &Template, owner: Owner) -> Result<Self, PolicyError> {
        let limits = runtime.limits.clone();
        let memory = Memory::new(limits.memory_bytes, limits.table_elements);
        let state = State::new(owner, Arc::clone(&template.logs), memory);
        let mut store = Store::new(&runtime.engine, state);
        store.limiter(|state| &mut state.memory);
        store.set_hostcall_fuel(limits.answer_bytes);
        store.epoch_deadline_callback(|mut context| Ok(context.data_mut().overdue.judge(processor_time())));
        let allowed = allowed(Call::Instantiate, &limits);
        let router = guarded(&mut store, &allowed, |store| template.pre.instantiate(store))?;
        Ok(Self { store, router, limits })
    }

    /// Calls into the guest with a fresh budget. `position` is the one being decided.
    pub(super) fn enter<T>(
        &mut self,
        call: Call,
        position: u64,
        body: impl FnOnce(&Router, &mut Store<State>) -> wasmtime::Result<T>,
    ) -> Result<T, PolicyError> {
        self.store.data_mut().begin(position, self.limits.answer_bytes);
        let allowed = allowed(call, &self.limits);
        let answer = guarded(&mut self.store, &allowed, |store| body(&self.router, store));
        let used = allowed.fuel.saturating_sub(self.store.get_fuel().unwrap_or(0));
        let asker = &mut self.store.data_mut().asker;
        asker.fuel = used;
        asker.replayed_fuel = asker.replayed_fuel.map(|before| before.saturating_add(used));
        answer
    }

    /// Puts the one whose call it is into the store, and takes it out again.
    pub(super) fn exchange(&mut self, asker: &mut Asker) {
        std::mem::swap(&mut self.store.data_mut().asker, asker);
    }

    /// Bytes of its linear memories.
    pub(super) fn memory_bytes(&self) -> usize {
        self.store.data().memory.bytes
    }
}

/// Sets the budget right before the body, so that nothing but the guest is charged for it.
fn guarded<T>(
    store: &mut Store<State>,
    allowed: &Allowed<'_>,
    body: impl FnOnce(&mut Store<State>) -> wasmtime::Result<T>,
) -> Result<T, PolicyError> {
    store.set_fuel(allowed.fuel).expect("the engine counts fuel");
    store.set_epoch_deadline(ticks(allowed.deadline));
    store.data_mut().overdue = Overdue::after(allowed.deadline);
    // The store is dropped after a failed call, whatever a panic left in it.
    let outcome = catch_unwind(AssertUnwindSafe(|| body(store)));
    let refused = store.data().memory.refused;
    match outcome {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Allowed { refused, ..*allowed }.judge(error)),
        Err(panic) => Err(allowed.panicked(panic.as_ref())),
    }
}

fn allowed(call: Call, limits: &Limits) -> Allowed<'_> {
    let (fuel, deadline) = match call {
        Call::Instantiate | Call::Describe => (limits.fuel_at_start, limits.deadline_at_start),
        Call::Start => (limits.fuel_per_session, limits.deadline),
        Call::Enter | Call::Route | Call::Send | Call::Receive | Call::End => {
            (limits.fuel_per_call, limits.deadline)
        }
    };
    Allowed { call, fuel, deadline, limits, refused: None }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::digest::Digest;
    use crate::wasm::logs::LogQuota;

    #[test]
    fn a_panic_of_the_host_is_the_error_of_one_call() {
        let limits = Limits { sessions: 1, ..Limits::default() };
        let runtime = Runtime::new(limits.clone()).expect("the runtime can be set up");
        let owner = Owner { revision: Digest::of(b""), journey: None, seed: 0 };
        let logs = Arc::new(LogQuota::new(Instant::now()));
        let mut store = Store::new(&runtime.engine, State::new(owner, logs, Memory::new(0, 0)));
        let outcome: Result<(), _> =
            guarded(&mut store, &allowed(Call::Send, &limits), |_| panic!("a defect of {}", "ours"));
        let error = outcome.expect_err("the panic is caught");
        assert_eq!(error.to_string(), "calling `send` of a policy: the host panicked: a defect of ours");
    }
}
