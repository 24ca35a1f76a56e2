//! Asks a new component about a few invented steps before any journey does.
//!
//! What traps, loops or answers nonsense here never serves. The order of calls is the one that a journey keeps, so
//! that a policy sees nothing that it could not see later.

use std::sync::Arc;

use journey::{Candidate, Decision, Handoff, JourneyId, Offer, Role, Sampled, Signals, Step};

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
        seed: 0,
    };
    let mut session = revision.rehearsal(start)?;
    let mut here = Role::ENTRY;
    for index in 0..STEPS {
        let step = step(index, here, descriptor.candidates);
        let position = u64::from(PROMPT_TOKENS + index);
        match session.route(position, &step)? {
            Decision::Stay => {}
            Decision::Finish => break,
            Decision::Handoff(handoff) => here = visit(&mut session, position, here, handoff)?,
        }
    }
    Ok(())
}

/// Follows a handoff; answers where the journey is after it.
fn visit(session: &mut Session, position: u64, here: Role, handoff: Handoff) -> Result<Role, PolicyError> {
    session.send(position, handoff)?;
    let Some(run) = handoff.run else { return Ok(handoff.to) };
    if session.revision().descriptor().receives {
        let tokens: Vec<u32> = (0..run.get().min(VISIT_MOST)).collect();
        let logprobs = vec![-0.5; tokens.len()];
        session.receive(position, &Offer { from: handoff.to, tokens, logprobs })?;
    }
    Ok(here)
}

/// Steps swing between sure and unsure, so that most rules hand off somewhere.
fn step(index: u32, role: Role, candidates: usize) -> Step {
    let top1 = [0.99, 0.05, 0.6, 0.3][index as usize % 4];
    let second = (1.0_f32 - top1) / 2.0;
    let prob = |rank: usize| if rank == 0 { top1 } else { second / rank as f32 };
    let candidate = |rank| Candidate { token: rank as u32, logit: prob(rank).ln(), prob: prob(rank) };
    Step {
        index,
        run: index,
        role,
        at_eos: index == STEPS - 1,
        sampled: Sampled {
            token: 0,
            logprob: top1.ln(),
            signals: Signals { entropy: 8.0 * (1.0 - top1), top1, margin: top1 - second },
            candidates: (0..candidates).map(candidate).collect(),
            ..Sampled::default()
        },
    }
}

fn model(role: usize) -> ModelInfo {
    ModelInfo { name: format!("rehearsal-{role}"), vocabulary: 1000, context: 4096 }
}

const STEPS: u32 = 16;
const PROMPT_TOKENS: u32 = 16;
const VISIT_MOST: u32 = 4;
