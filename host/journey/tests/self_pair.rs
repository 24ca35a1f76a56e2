//! The strongest oracle: with the same weights in every role, whatever a policy decides, the answer is the answer
//! of one model alone, token for token and byte for byte.
//!
//! Whatever: moves and visits, questions, mixtures, drafts verified by any rule, tokens dropped and decoded again.

mod toy;

use std::num::NonZeroU32;
use std::sync::Arc;

use journey::{
    Accept, Adoption, Ask, Check, Condition, Consult, DraftRequest, Effect, FinishReason, Grammar, Guard,
    Handoff, Journey, JourneyId, Made, Mixture, Next, Parcel, Question, Request, Rewrite, Role, Routing,
    Rule, Rules, Sampling, Signal, Space, Trigger,
};
use proptest::prelude::*;

use toy::{Kv, ROLES, Sums, ids, request};

fn alone(request: Request) -> (Vec<Made>, FinishReason) {
    let mut journey = Journey::new(JourneyId(1), Request { routing: Routing::Single, ..request });
    let mut kv = Kv::default();
    loop {
        for sampled in kv.step(&mut journey, usize::MAX) {
            match journey.hold(sampled) {
                Consult::Settled(Effect::Decode) => {}
                Consult::Settled(Effect::Finish(reason)) => return (journey.take_output(), reason),
                other => panic!("a single model never does {other:?}"),
            }
        }
    }
}

/// What a scripted policy does at one consultation.
#[derive(Clone, Debug)]
enum Act {
    Stay,
    Visit { to: u16, run: u32, until: bool, keep_held: bool, take: Take },
    Move { to: u16, keep_held: bool },
    Ask { models: Vec<u16>, with_held: bool, side: &'static str, ask: Ask },
    Mix { parts: Vec<(u16, f32)>, space: Space, plausible: bool },
    Rewrite { keep_held: bool, drop: usize },
    Adopt { from: u16, tokens: u32 },
    Fault { to: u16 },
    Evict { role: u16, keep: usize },
}

/// What it does with what a visit brought.
#[derive(Clone, Copy, Debug)]
enum Take {
    Some(usize),
    Verify(Check),
}

fn act() -> impl Strategy<Value = Act> {
    let role = || 0..ROLES as u16;
    let rule = prop_oneof![
        Just(Rule::Exact),
        Just(Rule::Rejection),
        Just(Rule::Typical { epsilon: 0.1, delta: 0.3 }),
        (0.0f32..5.0).prop_map(Rule::MaxLoss),
        (1u32..9).prop_map(Rule::InTop),
    ];
    let check = (rule, prop_oneof![Just(usize::MAX), 0usize..5])
        .prop_map(|(rule, tokens)| Take::Verify(Check { rule, tokens }));
    let take = prop_oneof![(0usize..6).prop_map(Take::Some), check];
    let ask = prop_oneof![
        (1usize..5).prop_map(Ask::Candidates),
        (1usize..9).prop_map(Ask::Last),
        Just(Ask::Tokens(vec![3, 9])),
        Just(Ask::Texts(vec!["A".to_owned(), "CB".to_owned()])),
        Just(Ask::Scores),
        (1u32..5, 1u32..4).prop_map(|(tokens, samples)| {
            let until = vec![Condition::Above(Signal::Entropy, 3.4)];
            Ask::Drafts(DraftRequest { tokens, until, samples, temperature: Some(0.7) })
        }),
    ];
    let space = prop_oneof![Just(Space::Logits), Just(Space::Probs), Just(Space::Logprobs)];
    prop_oneof![
        3 => Just(Act::Stay),
        4 => (role(), 0u32..5, any::<bool>(), any::<bool>(), take)
            .prop_map(|(to, run, until, keep_held, take)| Act::Visit { to, run, until, keep_held, take }),
        2 => (role(), any::<bool>()).prop_map(|(to, keep_held)| Act::Move { to, keep_held }),
        2 => (proptest::collection::vec(role(), 1..4), any::<bool>(), any::<bool>(), ask)
            .prop_map(|(models, with_held, side, ask)| {
                let side = if side && !matches!(ask, Ask::Last(_)) { "OK?" } else { "" };
                Act::Ask { models, with_held, side, ask }
            }),
        2 => (proptest::collection::vec(role(), 1..3), space, any::<bool>()).prop_map(|(roles, space, plausible)| {
            // Weights of copies that sum to 1: the mixture is the model.
            let weight = 1.0 / roles.len() as f32;
            Act::Mix { parts: roles.into_iter().map(|role| (role, weight)).collect(), space, plausible }
        }),
        2 => (any::<bool>(), 0usize..4).prop_map(|(keep_held, drop)| Act::Rewrite { keep_held, drop }),
        1 => (role(), 1u32..4).prop_map(|(from, tokens)| Act::Adopt { from, tokens }),
        1 => (role(), 0usize..30).prop_map(|(role, keep)| Act::Evict { role, keep }),
        1 => role().prop_map(|to| Act::Fault { to }),
    ]
}

/// A policy over copies of one model.
struct Script<'a> {
    acts: std::iter::Cycle<std::slice::Iter<'a, Act>>,
    take: Take,
    /// Drafts are the answer's own tokens only where nothing is drawn by lot.
    greedy: bool,
    adopts: bool,
    offers: u32,
}

impl Script<'_> {
    fn route(&mut self, journey: &mut Journey, kv: &mut [Kv], asked: bool) -> Consult {
        if asked {
            let adopt = Adoption { answer: 0, draft: 0, tokens: 9, then: Next::Stay };
            if std::mem::take(&mut self.adopts) {
                return Consult::Settled(journey.adopt(adopt).expect("there is a draft"));
            }
            return Consult::Settled(journey.stay());
        }
        match self.acts.next().expect("cycle").clone() {
            Act::Stay => Consult::Settled(journey.stay()),
            Act::Visit { to, run, until, keep_held, take } => {
                self.take = take;
                let until = if until { vec![Condition::Text("BA".to_owned())] } else { Vec::new() };
                let handoff = Handoff { to: Role(to), run: NonZeroU32::new(run), until };
                hand_off(journey, handoff, keep_held)
            }
            Act::Move { to, keep_held } => hand_off(journey, Handoff::new(Role(to), None), keep_held),
            Act::Ask { models, with_held, side, ask } => {
                let models = models.into_iter().map(Role).collect();
                let question = Question { models, side: side.to_owned(), with_held, ask };
                journey.consult(question).unwrap_or_else(|_| Consult::Settled(journey.stay()))
            }
            Act::Mix { mut parts, space, plausible } => {
                parts.dedup_by_key(|(role, _)| *role);
                let weight = 1.0 / parts.len() as f32;
                let parts: Vec<_> = parts.into_iter().map(|(role, _)| (Role(role), weight)).collect();
                let plausible = plausible.then(|| (parts[0].0, 0.0));
                let mixture = Mixture { space, parts, plausible };
                journey.mix(mixture).unwrap_or_else(|_| Consult::Settled(journey.stay()))
            }
            Act::Rewrite { keep_held, drop } => {
                let rewrite =
                    Rewrite { keep_held, drop, tokens: Vec::new(), text: String::new(), then: Next::Stay };
                Consult::Settled(journey.rewrite(rewrite).unwrap_or_else(|_| journey.stay()))
            }
            Act::Adopt { from, tokens } if self.greedy => {
                let ask =
                    Ask::Drafts(DraftRequest { tokens, until: Vec::new(), samples: 1, temperature: None });
                let question =
                    Question { models: vec![Role(from)], side: String::new(), with_held: true, ask };
                self.adopts = true;
                journey.consult(question).unwrap_or_else(|_| {
                    self.adopts = false;
                    Consult::Settled(journey.stay())
                })
            }
            Act::Adopt { .. } => Consult::Settled(journey.stay()),
            Act::Fault { to } => Consult::Settled(journey.fall_back(Role(to))),
            Act::Evict { role, keep } => {
                kv[usize::from(role)].0.truncate(keep);
                Consult::Settled(journey.stay())
            }
        }
    }

    fn receive(&mut self, journey: &mut Journey, offered: usize, asked: bool) -> Consult {
        assert!(journey.accept(Accept::Take(offered + 1)).is_err());
        self.offers += 1;
        if self.offers.is_multiple_of(3) && !asked {
            let ask = Ask::Last(3);
            let question =
                Question { models: vec![Role(2), Role(0)], side: String::new(), with_held: true, ask };
            if let Ok(consult) = journey.accept(Accept::Consult(question)) {
                return consult;
            }
        }
        let accept = match self.take {
            Take::Some(take) => Accept::Take(take.min(offered)),
            Take::Verify(check) => Accept::Verify(check),
        };
        journey.accept(accept).expect("within the offer")
    }
}

fn hand_off(journey: &mut Journey, handoff: Handoff, keep_held: bool) -> Consult {
    let followed = journey.hand_off(handoff, Parcel { keep_held });
    Consult::Settled(followed.unwrap_or_else(|_| journey.stay()))
}

fn routed(request: Request, acts: &[Act], (enters, chunk): (Role, usize)) -> (Vec<Made>, FinishReason) {
    let greedy = request.sampling == Sampling::GREEDY;
    let mut journey = Journey::new(JourneyId(2), request);
    journey.enter(enters).expect("the route has that model");
    let mut kv: Vec<Kv> = (0..ROLES).map(|_| Kv::default()).collect();
    let acts = acts.iter().cycle();
    let mut script = Script { acts, take: Take::Some(0), greedy, adopts: false, offers: 0 };
    let mut made = Vec::new();
    let mut consults = Vec::new();
    for _ in 0..100_000 {
        if consults.is_empty() {
            for sampled in kv[journey.here().index()].step(&mut journey, chunk) {
                consults.push(journey.hold(sampled));
            }
        }
        let Some(consult) = consults.pop() else { continue };
        assert!(consults.iter().all(|earlier| *earlier == Consult::More), "{consults:?}");
        consults.clear();
        match consult {
            Consult::More => {}
            Consult::Route(step) => {
                consults.push(script.route(&mut journey, &mut kv, !step.answers.is_empty()));
            }
            Consult::Receive(offer) => {
                let asked = !offer.answers.is_empty();
                consults.push(script.receive(&mut journey, offer.tokens.len(), asked));
            }
            Consult::Settled(effect) => {
                made.extend(journey.take_output());
                match effect {
                    Effect::Finish(reason) => return (made, reason),
                    Effect::Leave { .. } => match journey.arrive() {
                        Consult::Settled(Effect::Decode) => {}
                        other => consults.push(other),
                    },
                    Effect::Decode => {}
                }
            }
        }
    }
    panic!("it never ends");
}

fn text(made: &[Made]) -> String {
    made.iter().map(|m| m.text.as_str()).collect()
}

fn rules() -> impl Strategy<Value = Rules> {
    let guards = prop_oneof![
        3 => Just(Vec::new()),
        1 => Just(vec![
            Guard { role: Role(0), fires: Trigger::Above(Signal::EntropyNorm, 0.9) },
            Guard { role: Role(0), fires: Trigger::Text("AB".to_owned()) },
            Guard { role: Role(1), fires: Trigger::AfterText("C".to_owned()) },
            Guard { role: Role(2), fires: Trigger::Start },
            Guard { role: Role(2), fires: Trigger::End },
        ]),
    ];
    (guards, any::<bool>(), prop_oneof![Just(0), Just(3), Just(usize::MAX)]).prop_map(
        |(guards, holds_visits, holdback)| Rules {
            guards,
            holds_visits,
            holdback,
            distributions: true,
            scores: vec![vec![0], Vec::new(), vec![1, 0]],
            tail: 8,
            observe: Some((Role(1), Signal::Top1)),
            considered: true,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]
    #[test]
    fn any_policy_over_equal_models_gives_the_single_answer(
        acts in proptest::collection::vec(act(), 1..20),
        rules in rules(),
        temperature in prop_oneof![Just(0.0f32), Just(1.0)],
        chunk in 1usize..6,
        enters in 0..ROLES as u16,
        stop in prop_oneof![Just(vec![]), Just(vec!["ABCDE"]), Just(vec!["P", "QR"])],
        constrained in any::<bool>(),
    ) {
        // A script that never lets a token through would be refused for want of progress, not end by itself.
        let mut acts = acts;
        acts.extend([Act::Stay, Act::Stay, Act::Stay, Act::Stay]);
        let grammar = constrained.then(|| Arc::new(Sums::default()) as Arc<dyn Grammar>);
        let request = |routing| Request { grammar: grammar.clone(), ..request(routing, temperature, &stop) };
        let (one, why_one) = alone(request(Routing::Single));
        let routing = Routing::Policy(Arc::new(rules));
        let (many, why_many) = routed(request(routing), &acts, (Role(enters), chunk));
        prop_assert_eq!(ids(&one), ids(&many));
        prop_assert_eq!(text(&one), text(&many));
        prop_assert_eq!(why_one, why_many);
    }
}
