//! What a guest is shown.

use std::num::NonZeroU32;

use journey::{
    Answer, Candidate, Condition, Draft, Ended, Found, Handoff, Judgement, Offer, Role, Signal, Step,
};

use crate::session::{ModelInfo, Start};
use crate::wasm::bindings::tokenrouter::policy::types;
use crate::wasm::view::Shown;

/// What a session begins with; the rest goes where `view` finds it.
pub(in crate::wasm) fn start(start: Start, shown: &mut Shown) -> types::Start {
    let Start { models, settings, prompt_tokens, max_tokens, prompt, .. } = start;
    let context = models.iter().map(|model| model.context).min().unwrap_or(0);
    shown.models = models;
    shown.prompt = prompt;
    types::Start {
        models: shown.models.len() as u32,
        context,
        settings: settings.iter().map(|(_, value)| value).collect(),
        prompt_tokens,
        max_tokens,
        shows: shown.sights(),
    }
}

/// A step's numbers; the rest goes where `view` finds it, and its allocations are kept.
pub(in crate::wasm) fn step(step: &Step, shown: &mut Shown) -> types::Step {
    let Step { index, run, role, at_eos, fired, sampled, tail, answers } = step;
    shown.forget();
    shown.candidates.extend_from_slice(&sampled.candidates);
    shown.scores.extend_from_slice(&sampled.scores);
    shown.tail.push_str(tail);
    shown.answers.extend(answers.iter().map(answer));
    types::Step {
        index: *index,
        run: *run,
        role: number(*role),
        token: sampled.token,
        at_eos: *at_eos,
        fired: *fired,
        logprob: sampled.logprob,
        entropy: sampled.signals.entropy,
        top1: sampled.signals.top1,
        margin: sampled.signals.margin,
        shows: shown.sights(),
    }
}

pub(in crate::wasm) fn handoff(handoff: &Handoff) -> types::Handoff {
    types::Handoff {
        to: number(handoff.to),
        tokens: handoff.run.map_or(0, NonZeroU32::get),
        until: handoff.until.iter().map(condition).collect(),
    }
}

pub(in crate::wasm) fn offer(offer: &Offer, shown: &mut Shown) -> types::Offer {
    shown.forget();
    shown.tokens.extend_from_slice(&offer.tokens);
    shown.logprobs.extend_from_slice(&offer.logprobs);
    shown.text.push_str(&offer.text);
    shown.answers.extend(offer.answers.iter().map(answer));
    types::Offer {
        source: number(offer.from),
        length: offer.tokens.len() as u32,
        why: ended(offer.why),
        shows: shown.sights(),
    }
}

/// A model of the route.
pub(in crate::wasm) fn model(model: &ModelInfo) -> types::ModelInfo {
    types::ModelInfo { name: model.name.clone(), vocabulary: model.vocabulary, context: model.context }
}

/// The most probable tokens, number by number.
pub(in crate::wasm) fn candidates(candidates: &[Candidate]) -> types::Candidates {
    types::Candidates {
        tokens: candidates.iter().map(|candidate| candidate.token).collect(),
        logits: candidates.iter().map(|candidate| candidate.logit).collect(),
        probs: candidates.iter().map(|candidate| candidate.prob).collect(),
    }
}

fn answer(answer: &Answer) -> types::Answer {
    let found = match &answer.found {
        Found::Candidates(found) => types::Found::Candidates(candidates(found)),
        Found::Last(judged) => types::Found::Last(judged.iter().map(judgement).collect()),
        Found::Logprobs(logprobs) => types::Found::Logprobs(logprobs.clone()),
        Found::Drafts(drafts) => types::Found::Drafts(drafts.iter().map(draft).collect()),
        Found::Scores(scores) => types::Found::Scores(scores.clone()),
        Found::Nothing => types::Found::Nothing,
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
