//! Mixtures of two models that differ, from the first token to the last.

mod toy;

use std::sync::Arc;

use journey::{Consult, Effect, Journey, JourneyId, Mixture, Role, Routing, Rules, Space};

use toy::{Kv, ids, request};

/// Every token of the answer is drawn from a mixture.
#[test]
fn every_token_can_be_mixed() {
    let rules = Rules { distributions: true, ..Rules::default() };
    let request = request(Routing::Policy(Arc::new(rules)), 1.0, &[]);
    let mut journey = Journey::new(JourneyId(1), request);
    let mut kv = [Kv(Vec::new(), 0), Kv(Vec::new(), 1)];
    let mut made = Vec::new();
    for _ in 0..10_000 {
        let mut consult = Consult::More;
        for sampled in kv[journey.here().index()].step(&mut journey, usize::MAX) {
            consult = journey.hold(sampled);
        }
        loop {
            consult = match consult {
                Consult::Route(_) => {
                    let parts = vec![(Role(0), 1.5), (Role(1), -0.5)];
                    let plausible = Some((Role(0), 0.2));
                    let mixture = Mixture { space: Space::Logprobs, parts, plausible };
                    journey.mix(mixture).expect("the journey makes progress")
                }
                Consult::Settled(Effect::Leave { .. }) => journey.arrive(),
                Consult::Settled(Effect::Finish(_)) => {
                    made.extend(journey.take_output());
                    assert!(made.len() > 5, "{made:?}");
                    assert!(made.iter().all(|made| made.by == Role(0)));
                    assert_eq!(ids(&made).len(), made.len());
                    return;
                }
                other => {
                    assert!(!matches!(other, Consult::Receive(_)));
                    break;
                }
            };
        }
        made.extend(journey.take_output());
    }
    panic!("it never ends");
}

/// Where the models exclude each other's tokens, the token that is held stands, and the answer goes on.
#[test]
fn a_mixture_in_which_nothing_is_possible_leaves_the_held_token() {
    let rules = Rules { distributions: true, ..Rules::default() };
    let mut journey = Journey::new(JourneyId(1), request(Routing::Policy(Arc::new(rules)), 1.0, &[]));
    let mut kv = [Kv(Vec::new(), 0), Kv(Vec::new(), 1)];
    let sampled = kv[0].step(&mut journey, usize::MAX).remove(0);
    let token = sampled.token;
    assert!(matches!(journey.hold(sampled), Consult::Route(_)));
    // No probability is above that of the other model, so every sum is below 0.
    let mixture = Mixture { space: Space::Probs, parts: vec![(Role(1), -1.0)], plausible: None };
    assert_eq!(journey.mix(mixture), Ok(Consult::Settled(Effect::Leave { to: Role(1) })));
    let other = kv[1].step(&mut journey, usize::MAX).remove(0);
    assert_eq!(journey.hold(other), Consult::Settled(Effect::Leave { to: Role(0) }));
    assert_eq!(journey.arrive(), Consult::Settled(Effect::Decode));
    assert_eq!(ids(&journey.take_output()), [token]);
}
