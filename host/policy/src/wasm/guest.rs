//! One journey's session inside an instance.

use journey::{Accept, Decision, Handoff, Offer, Parcel, Role, Step};
use wasmtime::component::ResourceAny;

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
}

impl Guest {
    /// Calls the constructor.
    pub(crate) fn start(mut instance: Seat, start: Start) -> Result<Self, PolicyError> {
        let models = start.models.len();
        let position = u64::from(start.prompt_tokens);
        let start = convert::start(start, instance.shown());
        let session = instance.enter(Call::Start, position, |router, store| {
            router.tokenrouter_policy_policy().session().call_constructor(store, &start)
        })?;
        instance.shown().forget();
        Ok(Self { instance, session, models })
    }

    /// Calls the destructor; the fuel that it took.
    pub(crate) fn end(mut self) -> Result<u64, PolicyError> {
        let session = self.session;
        self.instance.enter(Call::End, 0, |_, store| session.resource_drop(store))?;
        Ok(self.instance.fuel())
    }

    pub(crate) fn enter(&mut self, position: u64) -> Result<Role, PolicyError> {
        let session = self.session;
        let role = self.instance.enter(Call::Enter, position, |router, store| {
            router.tokenrouter_policy_policy().session().call_enter(store, session)
        })?;
        convert::entrance(role, self.context(Call::Enter))
    }

    pub(crate) fn route(&mut self, position: u64, step: &Step) -> Result<Decision, PolicyError> {
        let session = self.session;
        let shown = convert::step(step, self.instance.shown());
        let decision = self.instance.enter(Call::Route, position, |router, store| {
            router.tokenrouter_policy_policy().session().call_route(store, session, shown)
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
        let shown = convert::offer(offer, self.instance.shown());
        let accept = self.instance.enter(Call::Receive, position, |router, store| {
            router.tokenrouter_policy_policy().session().call_receive(store, session, shown)
        })?;
        convert::accept(accept, offer.tokens.len(), self.context(Call::Receive))
    }

    fn context(&self, call: Call) -> convert::Context {
        convert::Context { call, models: self.models }
    }
}
