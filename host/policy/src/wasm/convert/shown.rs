//! What a guest is shown.

use std::num::NonZeroU32;

use journey::{
    Answer, Candidate, Condition, Draft, Ended, Found, Handoff, Judgement, Offer, Role, Signal, Step,
};

use crate::session::{ModelInfo, Start};
use crate::wasm::bindings::tokenrouter::policy::types;

pub(in crate::wasm) fn start(start: Start) -> types::Start {
    let Start { models, settings, prompt_tokens, max_tokens, prompt, .. } = start;
    let model = |model: &ModelInfo| types::ModelInfo {
        name: model.name.clone(),
        vocabulary: model.vocabulary,
        context: model.context,
    };
    let setting = |(key, value): (&str, f64)| types::Setting { key: key.to_owned(), value };
    types::Start {
        models: models.iter().map(model).collect(),
        settings: settings.iter().map(setting).collect(),
        prompt_tokens,
        max_tokens,
        prompt,
    }
}

/// A step to be filled in.
pub(in crate::wasm) fn blank_step() -> types::Step {
    types::Step {
        index: 0,
        run: 0,
        role: 0,
        token: 0,
        at_eos: false,
        fired: None,
        logprob: 0.0,
        entropy: 0.0,
        top1: 0.0,
        margin: 0.0,
        scores: Vec::new(),
        candidates: Vec::new(),
        tail: String::new(),
        answers: Vec::new(),
    }
}

/// Fills `shown` in, keeping its allocations.
pub(in crate::wasm) fn step(step: &Step, shown: &mut types::Step) {
    let Step { index, run, role, at_eos, fired, sampled, tail, answers } = step;
    shown.candidates.clear();
    shown.candidates.extend(sampled.candidates.iter().map(candidate));
    shown.scores.clone_from(&sampled.scores);
    shown.tail.clone_from(tail);
    shown.answers.clear();
    shown.answers.extend(answers.iter().map(answer));
    shown.index = *index;
    shown.run = *run;
    shown.role = number(*role);
    shown.token = sampled.token;
    shown.at_eos = *at_eos;
    shown.fired = *fired;
    shown.logprob = sampled.logprob;
    shown.entropy = sampled.signals.entropy;
    shown.top1 = sampled.signals.top1;
    shown.margin = sampled.signals.margin;
}

pub(in crate::wasm) fn handoff(handoff: &Handoff) -> types::Handoff {
    types::Handoff {
        to: number(handoff.to),
        tokens: handoff.run.map_or(0, NonZeroU32::get),
        until: handoff.until.iter().map(condition).collect(),
    }
}

pub(in crate::wasm) fn offer(offer: &Offer) -> types::Offer {
    types::Offer {
        source: number(offer.from),
        tokens: offer.tokens.clone(),
        logprobs: offer.logprobs.clone(),
        text: offer.text.clone(),
        why: ended(offer.why),
        answers: offer.answers.iter().map(answer).collect(),
    }
}

fn candidate(candidate: &Candidate) -> types::Candidate {
    types::Candidate { token: candidate.token, logit: candidate.logit, prob: candidate.prob }
}

fn answer(answer: &Answer) -> types::Answer {
    let found = match &answer.found {
        Found::Candidates(candidates) => types::Found::Candidates(candidates.iter().map(candidate).collect()),
        Found::Last(judged) => types::Found::Last(judged.iter().map(judgement).collect()),
        Found::Logprobs(logprobs) => types::Found::Logprobs(logprobs.clone()),
        Found::Drafts(drafts) => types::Found::Drafts(drafts.iter().map(draft).collect()),
        Found::Scores(scores) => types::Found::Scores(scores.clone()),
    };
    types::Answer { role: number(answer.role), found }
}

fn judgement(judged: &Judgement) -> types::Judgement {
    let Judgement { token, logprob, entropy, top1, best } = *judged;
    types::Judgement { token, logprob, entropy, top1, best }
}

fn draft(draft: &Draft) -> types::Draft {
    types::Draft {
        tokens: draft.tokens.clone(),
        logprobs: draft.logprobs.clone(),
        text: draft.text.clone(),
        why: ended(draft.why),
    }
}

fn ended(why: Ended) -> types::Ended {
    match why {
        Ended::Length => types::Ended::Length,
        Ended::Condition => types::Ended::Condition,
        Ended::Answer => types::Ended::Answer,
    }
}

fn condition(condition: &Condition) -> types::Condition {
    let bound = |signal: Signal, value| types::Bound { signal: signal_shown(signal), value };
    match condition {
        Condition::Above(signal, value) => types::Condition::Above(bound(*signal, *value)),
        Condition::Below(signal, value) => types::Condition::Below(bound(*signal, *value)),
        Condition::Text(text) => types::Condition::Text(text.clone()),
        Condition::Token(tokens) => types::Condition::Token(tokens.clone()),
    }
}

fn signal_shown(signal: Signal) -> types::Signal {
    match signal {
        Signal::Entropy => types::Signal::Entropy,
        Signal::EntropyNorm => types::Signal::EntropyNorm,
        Signal::Top1 => types::Signal::Top1,
        Signal::Margin => types::Signal::Margin,
        Signal::Logprob => types::Signal::Logprob,
        Signal::Score(0) => types::Signal::Score0,
        Signal::Score(1) => types::Signal::Score1,
        Signal::Score(2) => types::Signal::Score2,
        Signal::Score(_) => types::Signal::Score3,
    }
}

fn number(role: Role) -> u32 {
    u32::from(role.0)
}
