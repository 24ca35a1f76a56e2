//! Hands off at random: the control that any signal must beat.
//!
//! Algorithm: at every position where the small model has proposed a token, a uniform number below `share` drops it and
//! lets the large model decide that one position.
//!
//! Arithmetic: a visit is one token long, so every position of the answer is proposed by the small model first and is
//! decided by exactly one draw. Each token is the large model's with probability `share`, independently of all others;
//! of n tokens it makes `share` x n in expectation, with standard deviation sqrt(n x share x (1 - share)). For 1,000
//! tokens at the default that is 50 +- 6.9. (The rate of handoffs and the share are the same only for one-token visits:
//! with visits of k tokens the share would be k s / (1 + (k - 1) s) for a draw below s.)
//!
//! Source: the random baseline of routing papers, here per token.
//!
//! | parameter | unit | default | meaning |
//! |---|---|---|---|
//! | `share` | fraction of tokens | 0.05 | expected share of the answer that the large model makes |
#![cfg_attr(target_arch = "wasm32", no_std)]

use policy_sdk::{Decision, Descriptor, Parameter, Policy, Session, Start, Step, export_policy, host};

/// The policy; for a journey it holds the parameter and remembers nothing between steps.
pub struct RandomShare {
    share: f64,
}

impl Policy for RandomShare {
    type Session = Self;

    fn describe() -> Descriptor {
        Descriptor::new("random-share", "Hands off a share of the tokens, chosen at random.").parameter(
            Parameter::number(
                "share",
                0.05,
                0.0..=1.0,
                "Expected share of the answer's tokens that the large model makes.",
            ),
        )
    }

    fn start(start: Start) -> Self {
        Self { share: start.number("share") }
    }
}

impl Session for RandomShare {
    fn route(&mut self, step: &Step) -> Decision {
        if step.role == SMALL && host::uniform() < self.share {
            Decision::hand_off(LARGE, 1)
        } else {
            Decision::Stay
        }
    }
}

export_policy!(RandomShare);

const SMALL: u32 = 0;
const LARGE: u32 = 1;

#[cfg(test)]
mod tests {
    use policy_sdk::testing::{Journey, set_uniform, step};
    use policy_sdk::{Handoff, Parcel};

    use super::*;

    #[test]
    fn a_draw_below_the_share_hands_off_one_token() {
        let mut draws = [0.049, 0.05, 0.99].into_iter();
        set_uniform(move || draws.next().expect("one draw per step"));
        let mut journey = Journey::<RandomShare>::begin(&[]);
        let expected = [Decision::hand_off(LARGE, 1), Decision::Stay, Decision::Stay];
        assert_eq!(journey.decisions(&[step(0), step(1), step(2)]), expected);
        assert_eq!(journey.send(Handoff::new(LARGE, 1)), Parcel::DROP_HELD);
    }

    #[test]
    fn the_ends_are_never_and_always() {
        set_uniform(|| 0.0);
        let mut never = Journey::<RandomShare>::begin(&[("share", 0.0)]);
        assert_eq!(never.route(&step(0)), Decision::Stay);
        set_uniform(|| 1.0 - f64::EPSILON);
        let mut always = Journey::<RandomShare>::begin(&[("share", 1.0)]);
        assert_eq!(always.route(&step(0)), Decision::hand_off(LARGE, 1));
    }
}
