//! The two traits of a policy, and how the interface calls them.

use core::cell::RefCell;
use core::marker::PhantomData;

use crate::bindings::exports::tokenrouter::policy::policy::{Guest, GuestSession};
use crate::{Accept, Decision, Descriptor, Handoff, Offer, Parcel, Start, Step};

/// What a policy is, and how it begins a journey.
pub trait Policy: 'static {
    /// The state of one journey.
    type Session: Session;

    /// What the policy is and needs. The same answer every time.
    fn describe() -> Descriptor;

    /// A journey begins at the entry model. `start` holds a value for every parameter.
    fn start(start: Start) -> Self::Session;
}

/// One journey's decisions.
pub trait Session: 'static {
    /// Where the journey goes after this step. The step's token is held, not yet part of the answer.
    fn route(&mut self, step: &Step) -> Decision;

    /// What becomes of the held token at the handoff that [`Self::route`] just asked for. Unless said otherwise it is
    /// dropped, and the target decides its position.
    fn send(&mut self, _handoff: Handoff) -> Parcel {
        Parcel::DROP_HELD
    }

    /// How much of a bounded visit is kept; asked only if the descriptor says that the policy receives. Unless said
    /// otherwise, everything.
    fn receive(&mut self, offer: &Offer) -> Accept {
        Accept::all(offer)
    }
}

/// Stands for `P` at the component's border, where methods get `&self` and values are owned.
pub struct Component<P>(PhantomData<P>);

/// A session behind the border. Calls of one session never overlap, so the borrow never fails.
pub struct Shared<P: Policy>(RefCell<P::Session>);

impl<P: Policy> Guest for Component<P> {
    type Session = Shared<P>;

    fn describe() -> Descriptor {
        P::describe()
    }
}

impl<P: Policy> GuestSession for Shared<P> {
    fn new(start: Start) -> Self {
        Self(RefCell::new(P::start(start)))
    }

    fn route(&self, step: Step) -> Decision {
        self.0.borrow_mut().route(&step)
    }

    fn send(&self, handoff: Handoff) -> Parcel {
        self.0.borrow_mut().send(handoff)
    }

    fn receive(&self, offer: Offer) -> Accept {
        self.0.borrow_mut().receive(&offer)
    }
}
