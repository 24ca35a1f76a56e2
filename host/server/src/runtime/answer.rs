//! What goes into the runtime and what comes out.

use std::sync::Arc;

use engine::{Lexicon, Translation};
use journey::{Adjustments, Ends, FinishReason, Grammar, JourneyId, Made, Sampled, Sampling};
use policy::{Revision, Settings};
use scheduler::{Behalf, Tenant};
use tokio::sync::mpsc;

use super::catalog::Route;

/// A request in tokens.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The prompt's tokens.
    pub prompt: Vec<u32>,
    /// The prompt as each model reads it, as [`Route::prompts`] gives it; may be left empty where all models of the route
    /// share their tokens.
    pub prompts: Vec<Option<Vec<u32>>>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// What changes logits before; every token id exists in every model of the route.
    pub adjustments: Adjustments,
    /// What the answer must look like, if it must.
    pub grammar: Option<Arc<dyn Grammar>>,
    /// Key of all randomness; the same seed gives the same answer, whatever else runs.
    pub seed: u64,
    /// Strings that end the answer.
    pub stop: Vec<String>,
    /// Tokens that end the answer, beside those that the route ends with.
    pub stop_tokens: Vec<u32>,
    /// Whether the route's end tokens are tokens like others.
    pub ignore_eos: bool,
    /// Until the answer has this many tokens, no token that would end it is chosen.
    pub tokens_min: usize,
    /// Most tokens of the answer; `None` allows as many as the context holds. 0 only feeds the prompt.
    pub max_tokens: Option<usize>,
    /// Whether to report what the model that begins would have said of the prompt's tokens.
    pub score_prompt: bool,
    /// How many candidates to report per token.
    pub candidates: usize,
    /// On whose behalf: steps are shared between tenants, and each finds only its own text in the prefix cache.
    pub behalf: Behalf,
}

impl Ask {
    /// The most probable answer, as long as the context allows, with nothing beside it.
    #[must_use]
    pub fn greedy(prompt: Vec<u32>) -> Self {
        Self {
            prompt,
            prompts: Vec::new(),
            sampling: Sampling::GREEDY,
            adjustments: Adjustments::default(),
            grammar: None,
            seed: 0,
            stop: Vec::new(),
            stop_tokens: Vec::new(),
            ignore_eos: false,
            tokens_min: 0,
            max_tokens: None,
            score_prompt: false,
            candidates: 0,
            behalf: Tenant::default().into(),
        }
    }

    /// Most tokens of prompt and answer together, where this is the context.
    #[must_use]
    pub fn tokens_max(&self, context: usize) -> usize {
        let room = context.saturating_sub(self.prompt.len());
        self.prompt.len() + self.max_tokens.map_or(room, |wanted| wanted.min(room))
    }
}

/// What happens to a request, in order. The last event is `Finished` or `Failed`; a stream that ends without one was
/// cut off by a shutdown.
#[derive(Clone, Debug)]
pub enum Event {
    /// The prompt's tokens from the second on, with what the model would have said of them; before any token.
    Scored(Vec<Sampled>),
    /// A token was committed.
    Made(Made),
    /// The policy failed; the answer goes on without it.
    FellBack {
        /// What the policy did.
        fault: String,
    },
    /// The answer is complete.
    Finished(FinishReason),
    /// The answer cannot be continued.
    Failed {
        /// What went wrong.
        message: String,
    },
}

/// Said to answers that a shutdown ends.
pub(super) const SHUTTING_DOWN: &str = "the server is shutting down";

/// A request being answered. Dropping it cancels the request.
pub struct Answer {
    /// The journey's name.
    pub id: JourneyId,
    /// The route it takes.
    pub route: Arc<Route>,
    /// The policy's revision, which the journey keeps to its end.
    pub revision: Option<Arc<Revision>>,
    /// The values of the policy's parameters.
    pub settings: Option<Settings>,
    /// What happens to it.
    pub events: mpsc::Receiver<Event>,
}

/// Why a request was not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The prompt has no tokens.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// Prompt and answer do not fit.
    #[error(
        "the prompt has {prompt} tokens and {wanted} more were asked for, but the route's models hold {context} in all"
    )]
    ContextExceeded {
        /// Tokens of the prompt.
        prompt: usize,
        /// Tokens asked for.
        wanted: usize,
        /// Smallest context of the route's models.
        context: usize,
    },
    /// A setting of the policy is unknown or out of range.
    #[error("{0}")]
    Setting(String),
    /// Too many requests wait.
    #[error("{waiting} requests are waiting already; try again later")]
    QueueFull {
        /// How many.
        waiting: usize,
    },
    /// The server is shutting down.
    #[error("the server is shutting down")]
    Draining,
}

/// Where the answer ends, for a route that ends with `eos`.
pub(super) fn ends(ask: &mut Ask, eos: &Arc<[u32]>) -> Ends {
    let own = std::mem::take(&mut ask.stop_tokens);
    let tokens = match (ask.ignore_eos, own.is_empty()) {
        (false, true) => Arc::clone(eos),
        (false, false) => eos.iter().copied().chain(own).collect(),
        (true, _) => own.into(),
    };
    Ends { tokens, strings: std::mem::take(&mut ask.stop), tokens_min: ask.tokens_min }
}

/// By role: what a model needs to read a journey whose tokens are not its own.
pub(super) type Translations = Vec<Option<Arc<Translation>>>;

/// What it takes for each model of a route to read the journey.
pub(super) fn translations(ask: &mut Ask, route: &Route) -> Result<Translations, SubmitError> {
    let mut prompts = std::mem::take(&mut ask.prompts).into_iter();
    let translation = |lexicon: &Option<Arc<Lexicon>>| {
        let own = prompts.next().flatten();
        let Some(lexicon) = lexicon.clone() else { return Ok(None) };
        let translation = Translation::new(lexicon, ask.prompt.clone(), own.unwrap_or_default());
        translation.map(|translation| Some(Arc::new(translation))).ok_or(SubmitError::EmptyPrompt)
    };
    route.lexicons.iter().map(translation).collect()
}

/// Most tokens that the answer may have.
pub(super) fn room(ask: &Ask, context: usize) -> Result<usize, SubmitError> {
    if ask.prompt.is_empty() {
        return Err(SubmitError::EmptyPrompt);
    }
    let own = ask.prompts.iter().flatten().map(Vec::len).max();
    let prompt = ask.prompt.len().max(own.unwrap_or(0));
    let wanted = ask.max_tokens.unwrap_or_else(|| context.saturating_sub(prompt).max(1));
    if prompt.saturating_add(wanted) > context {
        return Err(SubmitError::ContextExceeded { prompt, wanted, context });
    }
    Ok(wanted)
}
