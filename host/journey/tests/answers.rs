//! What a journey answers to single decisions: refusals, proposals, rewrites, answers to questions.

mod toy;

use std::num::NonZeroU32;
use std::sync::Arc;

use journey::{
    Answer, Ask, Consult, Draw, Effect, FinishReason, Found, Guard, Handoff, Journey, JourneyId, Next,
    Parcel, Question, Request, Rewrite, Role, Routing, Rules, Trigger,
};

use toy::{Kv, ROLES, drawn, ids, request};

fn policy(rules: Rules) -> Journey {
    Journey::new(JourneyId(3), request(Routing::Policy(Arc::new(rules)), 0.0, &[]))
}

#[test]
fn a_policy_that_only_moves_the_journey_about_is_refused() {
    let mut journey = policy(Rules::default());
    let mut kv: Vec<Kv> = (0..ROLES).map(|_| Kv::default()).collect();
    for hop in 0..100u16 {
        let here = journey.here();
        let sampled = kv[here.index()].step(&mut journey, usize::MAX).remove(0);
        assert!(matches!(journey.hold(sampled), Consult::Route(_)));
        let handoff = Handoff::new(Role(1 - here.0), None);
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
    let mut journey = policy(Rules::default());
    let mut kv: Vec<Kv> = (0..ROLES).map(|_| Kv::default()).collect();
    let sampled = kv[0].step(&mut journey, usize::MAX).remove(0);
    assert!(matches!(journey.hold(sampled.clone()), Consult::Route(_)));
    let visit = Handoff::new(Role(1), NonZeroU32::new(1));
    assert_eq!(journey.hand_off(visit, Parcel::default()), Ok(Effect::Leave { to: Role(1) }));
    let other = kv[1].step(&mut journey, usize::MAX).remove(0);
    assert_eq!(journey.hold(other), Consult::Settled(Effect::Leave { to: Role(0) }));
    let made = journey.take_output();
    let proposal = made[0].proposal.expect("the visit replaced a proposal");
    assert_eq!((made[0].by, proposal.by, proposal.token), (Role(1), Role(0), sampled.token));
    assert_eq!((proposal.signals, proposal.fired), (sampled.signals, None), "asked without a guard");
    assert_eq!(journey.pending(), (3, &[made[0].sampled.token][..]), "resume appends one token");
}

#[test]
fn what_the_client_has_seen_cannot_be_dropped() {
    let mut journey = policy(Rules { holdback: 2, ..Rules::default() });
    let mut kv = Kv::default();
    for _ in 0..4 {
        let sampled = kv.step(&mut journey, usize::MAX).remove(0);
        assert!(matches!(journey.hold(sampled), Consult::Route(_)));
        assert_eq!(journey.stay(), Effect::Decode);
    }
    assert_eq!(journey.take_output().len(), 2, "two of four are held back");
    let sampled = kv.step(&mut journey, usize::MAX).remove(0);
    journey.hold(sampled);
    let rewrite =
        |drop| Rewrite { keep_held: false, drop, tokens: vec![3], text: "AB".into(), then: Next::Finish };
    let refused = journey.rewrite(rewrite(3)).expect_err("the third was seen");
    assert!(refused.to_string().contains("only 2 are held back"), "{refused}");
    assert_eq!(journey.rewrite(rewrite(2)), Ok(Effect::Finish(FinishReason::Stop)));
    assert_eq!(ids(&journey.take_output()), [3, 1, 2], "forced tokens, then forced text");
}

#[test]
fn answers_say_what_the_model_would_have_said() {
    let mut journey = policy(Rules::default());
    let mut kv: Vec<Kv> = (0..ROLES).map(|_| Kv::default()).collect();
    let mut sure = Vec::new();
    for _ in 0..3 {
        let sampled = kv[0].step(&mut journey, usize::MAX).remove(0);
        sure.push((sampled.token, sampled.logprob));
        journey.hold(sampled);
        journey.stay();
    }
    let sampled = kv[0].step(&mut journey, usize::MAX).remove(0);
    sure.push((sampled.token, sampled.logprob));
    journey.hold(sampled);
    let question =
        Question { models: vec![Role(1)], side: String::new(), with_held: true, ask: Ask::Last(9) };
    assert_eq!(journey.consult(question), Ok(Consult::Settled(Effect::Leave { to: Role(1) })));
    let heard: Vec<Consult> =
        kv[1].step(&mut journey, usize::MAX).into_iter().map(|sampled| journey.hold(sampled)).collect();
    assert_eq!(heard.last(), Some(&Consult::Settled(Effect::Leave { to: Role(0) })));
    let Consult::Route(step) = journey.arrive() else { panic!("the policy is asked again") };
    let Found::Last(judged) = &step.answers[0].found else { panic!("{:?}", step.answers) };
    let judged: Vec<_> = judged.iter().map(|judged| (judged.token, judged.logprob)).collect();
    assert_eq!(judged, sure, "the same weights judge as they decoded");
}

#[test]
fn a_question_for_which_there_is_no_room_is_answered_at_once() {
    let mut journey = policy(Rules::default());
    let mut kv = Kv::default();
    let room = journey.request().context - journey.committed() - 1;
    let sampled = kv.step(&mut journey, usize::MAX).remove(0);
    assert!(matches!(journey.hold(sampled), Consult::Route(_)));
    let ask = |side: usize| Question {
        models: vec![Role(1), Role(0)],
        side: "A".repeat(side),
        with_held: true,
        ask: Ask::Candidates(2),
    };
    let Ok(Consult::Route(step)) = journey.consult(ask(room)) else { panic!("nobody needs to be visited") };
    let nothing = |role| Answer { role: Role(role), found: Found::Nothing };
    assert_eq!(step.answers, [nothing(1), nothing(0)]);
    assert_eq!(journey.consult(ask(room - 1)), Ok(Consult::Settled(Effect::Leave { to: Role(1) })));
}

#[test]
fn a_journey_begins_where_it_enters() {
    let mut journey = policy(Rules::default());
    assert!(journey.enter(Role(ROLES as u16)).is_err());
    journey.enter(Role(1)).expect("the route has it");
    let mut kv = Kv::default();
    let sampled = kv.step(&mut journey, usize::MAX).remove(0);
    let Consult::Route(step) = journey.hold(sampled) else { panic!("the policy is asked") };
    assert_eq!((step.role, step.index, step.run), (Role(1), 0, 0));
    assert_eq!(journey.visited().collect::<Vec<_>>(), [Role(1)]);
}

#[test]
fn guards_fire_at_both_ends_of_an_answer() {
    let guards = [Trigger::Start, Trigger::End].map(|fires| Guard { role: Role(0), fires });
    let mut journey = policy(Rules { guards: guards.to_vec(), ..Rules::default() });
    let mut kv = Kv::default();
    let mut fired = Vec::new();
    loop {
        let sampled = kv.step(&mut journey, usize::MAX).remove(0);
        match journey.hold(sampled) {
            Consult::Route(step) => {
                fired.push((step.fired, step.index == 0, step.at_eos));
                if step.at_eos {
                    break;
                }
                journey.stay();
            }
            Consult::Settled(Effect::Decode) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fired, [(Some(0), true, false), (Some(1), false, true)]);
}

#[test]
fn a_prompt_is_scored_in_any_pieces_and_its_answer_stays_as_it_was() {
    let answer = |score_prompt: bool, chunk: usize, max_tokens: usize| {
        let request = Request { score_prompt, max_tokens, ..request(Routing::Single, 0.8, &[]) };
        let prompt = request.prompt.clone();
        let (mut journey, mut kv) = (Journey::new(JourneyId(3), request), Kv::default());
        let (mut scored, mut made) = (None, Vec::new());
        loop {
            let mut effect = Effect::Decode;
            for sampled in kv.step(&mut journey, chunk) {
                if let Consult::Settled(settled) = journey.hold(sampled) {
                    effect = settled;
                }
            }
            scored = journey.take_scored().or(scored);
            made.extend(journey.take_output());
            if effect != Effect::Decode {
                return (prompt, scored, ids(&made));
            }
        }
    };
    let plain = answer(false, usize::MAX, 5);
    assert_eq!((plain.1, plain.2.len()), (None, 5));
    for chunk in [1, 2, usize::MAX] {
        let (prompt, scored, ids) = answer(true, chunk, 5);
        let scored = scored.expect("asked for");
        assert_eq!(ids, plain.2);
        assert_eq!(scored.iter().map(|score| score.token).collect::<Vec<_>>(), prompt[1..]);
        for (position, score) in scored.iter().enumerate() {
            let draw = Draw { logprobs_of: &prompt[position + 1..position + 2], ..Draw::GREEDY };
            assert_eq!([score.logprob], *drawn(&prompt[..=position], &draw, 0).logprobs);
        }
        let (_, only, none) = answer(true, chunk, 0);
        assert_eq!((only, none), (Some(scored), Vec::new()), "no answer, the same scores");
    }
}
