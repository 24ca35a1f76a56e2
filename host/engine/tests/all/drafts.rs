//! A draft is verified in one step: every position says what decoding it would have said, to the bit.

use engine::{Engine, Row};
use journey::random::{Purpose, uniform};
use journey::{Adjust, Adjustments, Draw, JourneyId, Sampled, Sampling, Tally};

use crate::checkpoints::{open, pair};

const PROMPT: [u32; 4] = [1, 40, 41, 42];
const DRAFTED: usize = 24;

/// How the token at `position` is drawn; its log-probability is told beside what follows in `drafted`.
fn draw<'a>(adjust: Adjust<'a>, position: usize, next: &'a [u32]) -> Draw<'a> {
    let sampling = Sampling { temperature: 0.9, top_p: 0.98, top_k: 50, min_p: 0.001 };
    let uniform = uniform(9, position as u64, Purpose::Sample, 0);
    Draw {
        adjust: Some(adjust),
        candidates: 5,
        logprobs_of: next,
        keep: true,
        ..Draw::new(sampling, uniform)
    }
}

fn wishes() -> Adjustments {
    Adjustments { presence: 0.4, frequency: 0.2, repetition: 1.1, bias: vec![(50, 0.5)] }
}

/// One token after the other: what each step said, with the log-probability of the token it chose asked for.
fn decoded(engine: &mut dyn Engine, journey: JourneyId, wishes: &Adjustments) -> Vec<Sampled> {
    let mut tally = Tally::of_prompt(&PROMPT);
    let mut all = PROMPT.to_vec();
    let mut said = Vec::new();
    for _ in 0..=DRAFTED {
        let from = if said.is_empty() { 0 } else { all.len() - 1 };
        let adjust = Adjust { tally: Some(&tally), ..Adjust::new(wishes) };
        let draws = &[draw(adjust, all.len(), &[7])];
        let sampled =
            engine.step(&[Row { journey, salt: 0, from, tokens: &all[from..], draws }]).unwrap().remove(0);
        all.push(sampled.token);
        tally.add(sampled.token);
        said.push(sampled);
    }
    said
}

#[test]
fn a_draft_verified_in_one_step_says_what_decoding_says() {
    for model in ["small", "large"] {
        let mut engine = open(&pair(model)).unwrap().engine;
        let wishes = wishes();
        let said = decoded(&mut engine, JourneyId(1), &wishes);
        let drafted: Vec<u32> = said[..DRAFTED].iter().map(|sampled| sampled.token).collect();

        let journey = JourneyId(2);
        engine.step(&[Row { journey, salt: 7, from: 0, tokens: &PROMPT[..3], draws: &[] }]).unwrap();
        let tally = Tally::of_prompt(&PROMPT);
        let tokens = [&PROMPT[3..], &drafted[..]].concat();
        let adjust =
            |ix: usize| Adjust { tally: Some(&tally), drafted: &drafted[..ix], ..Adjust::new(&wishes) };
        let draws: Vec<Draw<'_>> =
            (0..=DRAFTED).map(|ix| draw(adjust(ix), PROMPT.len() + ix, &[7])).collect();
        let beside = Row { journey: JourneyId(3), salt: 0, from: 0, tokens: &[5, 6], draws: &[Draw::GREEDY] };
        let row = Row { journey, salt: 7, from: 3, tokens: &tokens, draws: &draws };
        let verified = engine.step(&[beside, row]).unwrap();
        assert_eq!(verified.len(), 1 + DRAFTED + 1);
        assert_eq!(verified[1..], said, "{model}");

        // What a verifier compares: the log-probability of each drafted token at its position.
        let draws: Vec<Draw<'_>> =
            (0..DRAFTED).map(|ix| Draw { logprobs_of: &drafted[ix..=ix], ..Draw::GREEDY }).collect();
        let row = Row { journey, salt: 7, from: 3, tokens: &tokens[..DRAFTED], draws: &draws };
        for (asked, said) in engine.step(&[row]).unwrap().iter().zip(&said) {
            assert_eq!(asked.logprobs, [said.logprob]);
            let kept = said.kept.as_ref().expect("asked for");
            assert_eq!(kept.logprob(said.token) as f32, said.logprob);
        }
        // Half of the draft is refused: what follows is as if it had never been fed.
        let half = DRAFTED / 2;
        let adjust = Adjust { drafted: &drafted[..half + 1], ..adjust(0) };
        let draws = &[draw(adjust, PROMPT.len() + half + 1, &[7])];
        let row = Row { journey, salt: 7, from: PROMPT.len() + half, tokens: &drafted[half..=half], draws };
        assert_eq!(engine.step(&[row]).unwrap(), [said[half + 1].clone()]);
    }
}

#[test]
fn penalties_change_what_is_chosen_and_not_what_is_said() {
    let mut engine = open(&pair("small")).unwrap().engine;
    let plain = decoded(&mut engine, JourneyId(1), &Adjustments::default());
    let wishes = Adjustments { bias: vec![(plain[0].token, -100.0)], ..Adjustments::default() };
    let other = decoded(&mut engine, JourneyId(2), &wishes);
    assert_ne!(other[0].token, plain[0].token);
    assert_eq!(other[0].signals, plain[0].signals);
    assert_eq!((&other[0].candidates, &other[0].kept), (&plain[0].candidates, &plain[0].kept));
}
