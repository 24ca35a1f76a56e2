//! The two traits of a policy, and how the interface calls them.

use alloc::string::String;
#[cfg(target_arch = "wasm32")]
use alloc::vec::Vec;
use core::cell::RefCell;
use core::marker::PhantomData;

use crate::bindings::exports::tokenrouter::policy::policy::{Guest, GuestSession};
use crate::bindings::tokenrouter::policy::types;
use crate::{Accept, Decision, Descriptor, Handoff, Offer, Parcel, Role, Start, Step};

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
    /// The model at which the journey begins, before anything is decoded; asked only if the descriptor says that the
    /// policy enters. Unless said otherwise the entry model.
    fn enter(&mut self) -> Role {
        0
    }

    /// Where the journey goes after this step. The step's token is held, not yet part of the answer.
    fn route(&mut self, step: &Step) -> Decision;

    /// What becomes of the held token at the handoff that [`Self::route`] just asked for; asked only if the descriptor
    /// says that the policy sends. Unless said otherwise it is dropped, and the target decides its position.
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
    fn new(start: types::Start) -> Self {
        Self(RefCell::new(P::start(Start::seen(start, keys::<P>()))))
    }

    fn enter(&self) -> Role {
        self.0.borrow_mut().enter()
    }

    fn route(&self, step: types::Step) -> Decision {
        self.0.borrow_mut().route(&Step::seen(step))
    }

    fn send(&self, handoff: Handoff) -> Parcel {
        self.0.borrow_mut().send(handoff)
    }

    fn receive(&self, offer: types::Offer) -> Accept {
        self.0.borrow_mut().receive(&Offer::seen(offer))
    }
}

/// The keys of the policy's parameters, which a session is given the values of. Asked once in an instance.
#[cfg(target_arch = "wasm32")]
fn keys<P: Policy>() -> &'static [String] {
    static KEYS: crate::wasm::Single<Vec<String>> = crate::wasm::Single::new();
    KEYS.get_or_init(|| P::describe().parameters.into_iter().map(|parameter| parameter.key).collect())
}

/// Tests have many policies in one program.
#[cfg(not(target_arch = "wasm32"))]
fn keys<P: Policy>() -> &'static [String] {
    crate::testing::keys::<P>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Journey, step};
    use crate::{Parameter, host};

    /// Hands off every n-th step; everything else is left to the defaults.
    struct Every(u32);

    impl Policy for Every {
        type Session = Self;

        fn describe() -> Descriptor {
            Descriptor::new("every", "")
                .parameter(Parameter::count("n", 2, 1..=9, ""))
                .models(2..=3)
                .receives()
        }

        fn start(start: Start) -> Self {
            Self(start.count("n"))
        }
    }

    impl Session for Every {
        fn route(&mut self, step: &Step) -> Decision {
            if !step.index.is_multiple_of(self.0) {
                return Decision::Stay;
            }
            host::log("leaving");
            Decision::hand_off(1, 3)
        }
    }

    #[test]
    fn what_a_policy_leaves_out_drops_the_held_token_and_accepts_the_visit() {
        let mut journey = Journey::<Every>::begin(&[]);
        assert_eq!(journey.decisions(&[step(1), step(2)]), [Decision::Stay, Decision::hand_off(1, 3)]);
        assert_eq!(testing::take_logs(), ["leaving"]);
        assert_eq!(journey.send(Handoff::new(1, 3)), Parcel::DROP_HELD);
        let offer = testing::offer(1, &[7, 8, 9]);
        assert_eq!(journey.receive(&offer), Accept::Take(3));
    }

    #[test]
    fn the_border_passes_everything_on() {
        assert_eq!(<Component<Every> as Guest>::describe(), Every::describe());
        let session = <Shared<Every> as GuestSession>::new(types::Start {
            models: 2,
            context: 4096,
            settings: vec![3.0],
            prompt_tokens: 16,
            max_tokens: 256,
            shows: types::Sights::empty(),
        });
        let step = |index| types::Step {
            index,
            run: index,
            role: 0,
            token: 100,
            at_eos: false,
            fired: None,
            logprob: -0.1,
            entropy: 0.1,
            top1: 0.9,
            margin: 0.8,
            shows: types::Sights::empty(),
        };
        assert_eq!(session.enter(), 0);
        let decisions = [step(1), step(3)].map(|step| session.route(step));
        assert_eq!(decisions, [Decision::Stay, Decision::hand_off(1, 3)]);
        assert_eq!(GuestSession::send(&session, Handoff::new(1, 3)), Parcel::DROP_HELD);
        testing::view::offer(&testing::offer(1, &[7]));
        let why = crate::Ended::Length;
        let offer = types::Offer { source: 1, length: 1, why, shows: types::Sights::empty() };
        assert_eq!(GuestSession::receive(&session, offer), Accept::Take(1));
    }

    #[test]
    #[should_panic(expected = "n = 10 is out of range")]
    fn a_test_cannot_use_a_setting_that_the_host_would_refuse() {
        drop(Journey::<Every>::begin(&[("n", 10.0)]));
    }
}
