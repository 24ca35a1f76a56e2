//! Steps that no model is likely to give, and that a policy must survive all the same.

use journey::{Candidate, Ended, Offer, Role, Sampled, Signals, Step};

/// A step of a role that looks like any other.
pub(super) fn usual(role: Role) -> Step {
    Step {
        index: 3,
        run: 3,
        role,
        at_eos: false,
        fired: Some(0),
        sampled: Sampled {
            token: 17,
            logprob: -0.1,
            signals: Signals { entropy: 0.9, top1: 0.9, margin: 0.85 },
            ..Sampled::default()
        },
        tail: String::new(),
        answers: Vec::new(),
    }
}

/// What is special, and the step, for one role.
pub(super) fn extreme(role: Role, heads: usize) -> Vec<(String, Step)> {
    let mut all = Vec::new();
    let scored = |mut step: Step, score: f32| {
        step.sampled.scores = vec![score; heads];
        step
    };
    for (name, number) in NUMBERS {
        let mut step = scored(usual(role), number);
        step.sampled.logprob = number;
        step.sampled.signals = Signals { entropy: number, top1: number, margin: number };
        all.push((format!("every signal {name}, {role}"), step));
    }
    for count in [0, 1, 128] {
        let mut step = scored(usual(role), 0.5);
        step.sampled.candidates = (0..count).map(candidate).collect();
        all.push((format!("{count} candidates, {role}"), step));
    }
    let edge = |index, run, token, at_eos| Step {
        index,
        run,
        at_eos,
        sampled: Sampled { token, ..usual(role).sampled },
        ..usual(role)
    };
    all.push((format!("the first token ends the answer, {role}"), scored(edge(0, 0, 0, true), 0.5)));
    let last = edge(u32::MAX, u32::MAX, u32::MAX, false);
    all.push((format!("index, run and token 4294967295, {role}"), scored(last, 0.5)));
    let tail = Step { tail: "\u{10FFFF}".repeat(1024), ..scored(usual(role), 0.5) };
    all.push((format!("4096 bytes of text, {role}"), tail));
    all
}

/// Visits with nothing, and with very much.
pub(super) fn offers(role: Role) -> Vec<Offer> {
    let offer = |count: usize, logprob: f32| Offer {
        from: role,
        tokens: vec![7; count],
        logprobs: vec![logprob; count],
        text: "a".repeat(count),
        why: Ended::Answer,
        answers: Vec::new(),
    };
    vec![offer(0, 0.0), offer(1, f32::NAN), offer(4096, f32::NEG_INFINITY)]
}

fn candidate(rank: u32) -> Candidate {
    let number = [f32::NAN, f32::INFINITY, 0.0][rank as usize % 3];
    Candidate { token: u32::MAX - rank, logit: number, prob: number }
}

const NUMBERS: [(&str, f32); 5] = [
    ("not a number", f32::NAN),
    ("infinite", f32::INFINITY),
    ("infinitely negative", f32::NEG_INFINITY),
    ("0", 0.0),
    ("the largest", f32::MAX),
];
