//! Asks a new component about a few invented steps before any journey does.
//!
//! What traps, loops or answers nonsense here never serves. The order of calls is the one that a journey keeps, so
//! that a policy sees nothing that it could not see later.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use journey::{
    Accept, Adoption, Answer, Ask, Candidate, Decision, Draft, Ended, Found, Handoff, JourneyId, Judgement,
    Next, Offer, Question, Rewrite, Role, Sampled, Signals, Step,
};

use crate::error::PolicyError;
use crate::revision::Revision;
use crate::session::{ModelInfo, Session, Start};

/// One short journey with the default settings.
pub(crate) fn rehearse(revision: &Arc<Revision>) -> Result<(), PolicyError> {
    let descriptor = revision.descriptor();
    let models = 2.clamp(*descriptor.models.start(), *descriptor.models.end());
    let start = Start {
        journey: JourneyId(0),
        tenant: 0,
        models: (0..models).map(model).collect(),
        settings: revision.settings(&Default::default())?,
        prompt_tokens: PROMPT_TOKENS,
        max_tokens: 64,
        prompt: PROMPT[..PROMPT.len().min(descriptor.prompt)].to_owned(),
        seed: 0,
    };
    let mut session = revision.rehearsal(start)?;
    let mut times = Vec::new();
    let walked = walk(revision, &mut session, &mut times);
    revision.rehearsed(&mut times);
    walked
}

/// The steps; how long each call of `route` took.
fn walk(revision: &Revision, session: &mut Session, times: &mut Vec<Duration>) -> Result<(), PolicyError> {
    let mut here = session.enter(u64::from(PROMPT_TOKENS))?;
    for index in 0..STEPS {
        let mut step = step(index, here, revision);
        let position = u64::from(PROMPT_TOKENS + index);
        for _ in 0..QUESTIONS_MOST {
            let begun = Instant::now();
            let decision = session.route(position, &step)?;
            times.push(begun.elapsed());
            match decision {
                Decision::Stay | Decision::Mix(_) => break,
                Decision::Finish => return Ok(()),
                Decision::Handoff(handoff) => {
                    session.send(position, &handoff)?;
                    here = visit(session, position, here, &handoff)?;
                    break;
                }
                Decision::Consult(question) => step.answers = answered(&question),
                Decision::Rewrite(Rewrite { then, .. }) | Decision::Adopt(Adoption { then, .. }) => {
                    match then {
                        Next::Stay => {}
                        Next::Finish => return Ok(()),
                        Next::Handoff(handoff) => here = visit(session, position, here, &handoff)?,
                    }
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Follows a handoff; answers where the journey is after it.
fn visit(session: &mut Session, position: u64, here: Role, handoff: &Handoff) -> Result<Role, PolicyError> {
    if !handoff.is_visit() {
        return Ok(handoff.to);
    }
    if session.revision().descriptor().receives {
        let tokens: Vec<u32> = (0..handoff.run.map_or(1, NonZeroU32::get).min(VISIT_MOST)).collect();
        let logprobs = vec![-0.5; tokens.len()];
        let text = "a b c d".to_owned();
        let (from, why, answers) = (handoff.to, Ended::Length, Vec::new());
        let mut offer = Offer { from, tokens, logprobs, text, why, answers };
        for _ in 0..QUESTIONS_MOST {
            let Accept::Consult(question) = session.receive(position, &offer)? else { break };
            offer.answers = answered(&question);
        }
    }
    Ok(here)
}

/// Something of the right form from every model that is asked.
fn answered(question: &Question) -> Vec<Answer> {
    let found = || match &question.ask {
        Ask::Candidates(count) => Found::Candidates(candidates(0.6, *count)),
        Ask::Last(count) => {
            let judgement = Judgement { token: 1, logprob: -0.5, entropy: 1.0, top1: 0.6, best: 1 };
            Found::Last(vec![judgement; *count])
        }
        Ask::Tokens(tokens) => Found::Logprobs(vec![-1.0; tokens.len()]),
        Ask::Texts(texts) => Found::Logprobs(vec![-1.0; texts.len()]),
        Ask::Drafts(wish) => {
            let tokens = vec![1; wish.tokens.clamp(1, VISIT_MOST) as usize];
            let logprobs = vec![-0.5; tokens.len()];
            let draft = Draft { tokens, logprobs, text: "a b".to_owned(), why: Ended::Length };
            Found::Drafts(vec![draft; wish.samples as usize])
        }
        Ask::Scores => Found::Scores(vec![0.5; HEADS]),
    };
    question.models.iter().map(|&role| Answer { role, found: found() }).collect()
}

/// Steps swing between sure and unsure, so that most rules hand off somewhere.
fn step(index: u32, role: Role, revision: &Revision) -> Step {
    let descriptor = revision.descriptor();
    let top1: f32 = [0.99, 0.05, 0.6, 0.3][index as usize % 4];
    let guards = descriptor.guards.iter().position(|guard| guard.role == role);
    let heads = descriptor.needs.get(role.index()).map_or(0, |need| need.heads.len());
    let tail = TAIL[..TAIL.len().min(descriptor.tail)].to_owned();
    Step {
        index,
        run: index,
        role,
        at_eos: index == STEPS - 1,
        fired: guards.map(|guard| guard as u32),
        sampled: Sampled {
            token: 0,
            logprob: top1.ln(),
            signals: Signals { entropy: 8.0 * (1.0 - top1), top1, margin: top1 - second(top1) },
            candidates: candidates(top1, descriptor.candidates),
            scores: vec![1.0 - top1; heads],
            ..Sampled::default()
        },
        tail,
        answers: Vec::new(),
    }
}

fn candidates(top1: f32, count: usize) -> Vec<Candidate> {
    let prob = |rank: usize| if rank == 0 { top1 } else { second(top1) / rank as f32 };
    let candidate = |rank| Candidate { token: rank as u32, logit: prob(rank).ln(), prob: prob(rank) };
    (0..count).map(candidate).collect()
}

fn second(top1: f32) -> f32 {
    (1.0 - top1) / 2.0
}

fn model(role: usize) -> ModelInfo {
    ModelInfo { name: format!("rehearsal-{role}"), vocabulary: 1000, context: 4096 }
}

const STEPS: u32 = 16;
const PROMPT_TOKENS: u32 = 16;
const VISIT_MOST: u32 = 4;
const HEADS: usize = 4;
const QUESTIONS_MOST: u32 = 8;
const PROMPT: &str = "How many seconds are there in a day?";
const TAIL: &str = "First step.\n\nSecond step: <call>3</call>";
