//! One journey's session inside an instance.

use journey::{Accept, Decision, Handoff, Offer, Parcel, Step};
use wasmtime::component::ResourceAny;

use super::bindings::tokenrouter::policy::types;
use super::convert;
use super::instance::Instance;
use super::seat::Seat;
use crate::descriptor::Descriptor;
use crate::error::{Call, PolicyError};
use crate::session::Start;

impl Instance {
    /// Asks `describe`.
    pub(crate) fn describe(&mut self) -> Result<Descriptor, PolicyError> {
        let described = self.enter(Call::Describe, 0, |router, store| {
            router.tokenrouter_policy_policy().call_describe(store)
        })?;
        convert::descriptor(described)
    }
}

/// A guest's session and its place in an instance.
pub(crate) struct Guest {
    pub(crate) instance: Seat,
    session: ResourceAny,
    /// Models of the route.
    models: usize,
    /// Reused from step to step, so that candidates cost no allocation here.
    step: types::Step,
}

impl Guest {
    /// Calls the constructor.
    pub(crate) fn start(mut instance: Seat, start: Start) -> Result<Self, PolicyError> {
        let models = start.models.len();
        let position = u64::from(start.prompt_tokens);
        let start = convert::start(start);
        let session = instance.enter(Call::Start, position, |router, store| {
            router.tokenrouter_policy_policy().session().call_constructor(store, &start)
        })?;
        Ok(Self { instance, session, models, step: convert::blank_step() })
    }

    /// Calls the destructor; the fuel that it took.
    pub(crate) fn end(mut self) -> Result<u64, PolicyError> {
        let session = self.session;
        self.instance.enter(Call::End, 0, |_, store| session.resource_drop(store))?;
        Ok(self.instance.fuel())
    }

    pub(crate) fn route(&mut self, position: u64, step: &Step) -> Result<Decision, PolicyError> {
        convert::step(step, &mut self.step);
        let Self { instance, session, step: shown, .. } = self;
        let decision = instance.enter(Call::Route, position, |router, store| {
            router.tokenrouter_policy_policy().session().call_route(store, *session, shown)
        })?;
        convert::decision(decision, step.role, self.context(Call::Route))
    }

    pub(crate) fn send(&mut self, position: u64, handoff: &Handoff) -> Result<Parcel, PolicyError> {
        let session = self.session;
        let handoff = convert::handoff(handoff);
        let parcel = self.instance.enter(Call::Send, position, |router, store| {
            router.tokenrouter_policy_policy().session().call_send(store, session, &handoff)
        })?;
        Ok(convert::parcel(parcel))
    }

    pub(crate) fn receive(&mut self, position: u64, offer: &Offer) -> Result<Accept, PolicyError> {
        let session = self.session;
        let shown = convert::offer(offer);
        let accept = self.instance.enter(Call::Receive, position, |router, store| {
            router.tokenrouter_policy_policy().session().call_receive(store, session, &shown)
        })?;
        convert::accept(accept, offer.tokens.len(), self.context(Call::Receive))
    }

    fn context(&self, call: Call) -> convert::Context {
        convert::Context { call, models: self.models }
    }
}
