//! The strongest oracle: with the same weights in every role, whatever a policy decides, the answer is the answer
//! of one model alone, token for token and byte for byte.

use std::num::NonZeroU32;
use std::sync::Arc;

use journey::{
    Accept, Adjustments, Consult, Draw, Effect, Ends, FinishReason, Handoff, Journey, JourneyId, Made,
    Parcel, Request, Role, Routing, Sampled, Sampling, Tally, Vocabulary,
};
use proptest::prelude::*;

const EOS: u32 = 0;
const PROMPT: [u32; 3] = [5, 6, 7];
const TOKENS_MIN: usize = 4;
const ROLES: usize = 3;

/// A model without weights: the next token is a function of everything before it and of the draw.
fn next_token(tokens: &[u32], draw: &Draw<'_>) -> u32 {
    let adjust = draw.adjust.expect("a penalty was asked for");
    let mut walked = Tally::of_prompt(&tokens[..PROMPT.len()]);
    tokens[PROMPT.len()..].iter().for_each(|&token| walked.add(token));
    assert_eq!(adjust.tally, Some(&walked), "the counts are those of the tokens before the position");
    assert_eq!(adjust.barred.is_empty(), tokens.len() >= PROMPT.len() + TOKENS_MIN);
    let hash = tokens
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, &t| (h ^ u64::from(t)).wrapping_mul(0x0000_0100_0000_01b3));
    let mixed = (hash >> 20) as f64 / (1u64 << 44) as f64 + draw.uniform;
    let token = (mixed.fract() * 40.0) as u32;
    if adjust.barred.contains(&token) { token + 1 } else { token }
}

/// One model's KV: it must always be a prefix of what the journey says was fed.
#[derive(Default)]
struct Kv(Vec<u32>);

impl Kv {
    fn step(&mut self, journey: &mut Journey, chunk: usize) -> Option<Sampled> {
        journey.holds(self.0.len());
        let (from, tokens) = journey.pending();
        assert!(!tokens.is_empty() && from <= self.0.len(), "a hole in the KV");
        let count = chunk.clamp(1, tokens.len());
        self.0.truncate(from);
        self.0.extend_from_slice(&tokens[..count]);
        let whole = count == tokens.len();
        journey.fed(count);
        whole.then(|| Sampled {
            token: next_token(&self.0, &journey.draw()),
            logprob: -1.0,
            ..Sampled::default()
        })
    }
}

fn request(routing: Routing, stop: &[&str]) -> Request {
    let bytes = (0..40u8).map(|t| if t == 0 { Box::from([]) } else { Box::from([b'@' + t]) }).collect();
    Request {
        prompt: PROMPT.to_vec(),
        sampling: Sampling::GREEDY,
        adjustments: Adjustments { frequency: 0.5, ..Adjustments::default() },
        seed: 11,
        ends: Ends {
            tokens: Arc::from([EOS]),
            strings: stop.iter().map(|&s| s.to_owned()).collect(),
            tokens_min: TOKENS_MIN,
        },
        max_tokens: 60,
        context: 50,
        vocabulary: Arc::new(Vocabulary::new(bytes)),
        candidates: 0,
        roles: ROLES,
        routing,
    }
}

fn alone(request: Request) -> (Vec<Made>, FinishReason) {
    let mut journey = Journey::new(JourneyId(1), Request { routing: Routing::Single, ..request });
    let mut kv = Kv::default();
    loop {
        let Some(sampled) = kv.step(&mut journey, usize::MAX) else { continue };
        match journey.hold(sampled) {
            Consult::Settled(Effect::Decode) => {}
            Consult::Settled(Effect::Finish(reason)) => return (journey.take_output(), reason),
            other => panic!("a single model never does {other:?}"),
        }
    }
}

/// What a scripted policy does at one consultation.
#[derive(Clone, Debug)]
enum Act {
    Stay,
    Visit { to: u16, run: u32, keep_held: bool, take: usize },
    Move { to: u16, keep_held: bool },
    Fault { to: u16 },
    Evict { role: u16, keep: usize },
}

fn act() -> impl Strategy<Value = Act> {
    let role = 0..ROLES as u16;
    prop_oneof![
        3 => Just(Act::Stay),
        3 => (role.clone(), 0u32..5, any::<bool>(), 0usize..6)
            .prop_map(|(to, run, keep_held, take)| Act::Visit { to, run, keep_held, take }),
        2 => (role.clone(), any::<bool>()).prop_map(|(to, keep_held)| Act::Move { to, keep_held }),
        1 => (role.clone(), 0usize..30).prop_map(|(role, keep)| Act::Evict { role, keep }),
        1 => role.prop_map(|to| Act::Fault { to }),
    ]
}

fn decide(journey: &mut Journey, act: &Act, kv: &mut [Kv]) -> Effect {
    match *act {
        Act::Stay => journey.stay(),
        Act::Visit { to, run, keep_held, .. } => {
            let handoff = Handoff { to: Role(to), run: NonZeroU32::new(run) };
            journey.hand_off(handoff, Parcel { keep_held }).unwrap_or_else(|_| journey.stay())
        }
        Act::Move { to, keep_held } => {
            let handoff = Handoff { to: Role(to), run: None };
            journey.hand_off(handoff, Parcel { keep_held }).unwrap_or_else(|_| journey.stay())
        }
        Act::Fault { to } => journey.fall_back(Role(to)),
        Act::Evict { role, keep } => {
            kv[usize::from(role)].0.truncate(keep);
            journey.stay()
        }
    }
}

fn routed(request: Request, acts: &[Act], chunk: usize) -> (Vec<Made>, FinishReason) {
    let mut journey = Journey::new(JourneyId(2), request);
    let mut kv: Vec<Kv> = (0..ROLES).map(|_| Kv::default()).collect();
    let mut acts = acts.iter().cycle();
    let mut made = Vec::new();
    let mut take = 0;
    loop {
        let effect = if let Some(offer) = journey.offer() {
            let accept = Accept { take: take.min(offer.tokens.len()) };
            assert!(journey.accept(Accept { take: offer.tokens.len() + 1 }).is_err());
            journey.accept(accept).expect("within the offer")
        } else {
            let Some(sampled) = kv[journey.here().index()].step(&mut journey, chunk) else { continue };
            match journey.hold(sampled) {
                Consult::Settled(effect) => effect,
                Consult::Route(_) => {
                    let act = acts.next().expect("cycle");
                    if let Act::Visit { take: t, .. } = act {
                        take = *t;
                    }
                    decide(&mut journey, act, &mut kv)
                }
            }
        };
        made.extend(journey.take_output());
        if let Effect::Finish(reason) = effect {
            return (made, reason);
        }
    }
}

fn text(made: &[Made]) -> String {
    made.iter().map(|m| m.text.as_str()).collect()
}

fn ids(made: &[Made]) -> Vec<u32> {
    made.iter().map(|m| m.sampled.token).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    #[test]
    fn any_policy_over_equal_models_gives_the_single_answer(
        acts in proptest::collection::vec(act(), 1..20),
        holds_visits in any::<bool>(),
        chunk in 1usize..6,
        stop in prop_oneof![Just(vec![]), Just(vec!["ABCDE"]), Just(vec!["P", "QR"])],
    ) {
        // A script that never lets a token through would be refused for want of progress, not end by itself.
        let mut acts = acts;
        acts.push(Act::Stay);
        let (one, why_one) = alone(request(Routing::Single, &stop));
        let (many, why_many) = routed(request(Routing::Policy { holds_visits }, &stop), &acts, chunk);
        prop_assert_eq!(ids(&one), ids(&many));
        prop_assert_eq!(text(&one), text(&many));
        prop_assert_eq!(why_one, why_many);
    }
}

#[test]
fn a_policy_that_only_moves_the_journey_about_is_refused() {
    let mut journey = Journey::new(JourneyId(3), request(Routing::Policy { holds_visits: false }, &[]));
    let mut kv: Vec<Kv> = (0..ROLES).map(|_| Kv::default()).collect();
    for hop in 0..100u16 {
        let here = journey.here();
        let sampled = kv[here.index()].step(&mut journey, usize::MAX).expect("everything was fed");
        assert!(matches!(journey.hold(sampled), Consult::Route(_)));
        let handoff = Handoff { to: Role(1 - here.0), run: None };
        if let Err(refused) = journey.hand_off(handoff, Parcel::default()) {
            assert_eq!(refused.to_string(), "16 handoffs in a row without a committed token");
            assert_eq!(hop, 16);
            assert_eq!(journey.fall_back(Role::ENTRY), Effect::Decode);
            assert_eq!(journey.take_output().len(), 1, "the held token is kept");
            return;
        }
    }
    panic!("never refused");
}

#[test]
fn the_dropped_proposal_is_shown_with_the_token_that_replaced_it() {
    let mut journey = Journey::new(JourneyId(4), request(Routing::Policy { holds_visits: false }, &[]));
    let mut kv: Vec<Kv> = (0..ROLES).map(|_| Kv::default()).collect();
    let sampled = kv[0].step(&mut journey, usize::MAX).expect("everything was fed");
    assert!(matches!(journey.hold(sampled.clone()), Consult::Route(_)));
    let visit = Handoff { to: Role(1), run: NonZeroU32::new(1) };
    assert_eq!(journey.hand_off(visit, Parcel::default()), Ok(Effect::Leave { to: Role(1) }));
    let other = kv[1].step(&mut journey, usize::MAX).expect("everything was fed");
    assert_eq!(journey.hold(other), Consult::Settled(Effect::Leave { to: Role(0) }));
    let made = journey.take_output();
    let proposal = made[0].proposal.expect("the visit replaced a proposal");
    assert_eq!((made[0].by, proposal.by, proposal.token), (Role(1), Role(0), sampled.token));
    assert_eq!(journey.pending(), (3, &[made[0].sampled.token][..]), "resume appends one token");
}
