//! Continuations for a question: decoded beyond S one after the other, each from the same place.

use crate::grammar::Standing;
use crate::journey::Journey;
use crate::question::{Draft, DraftRequest, Ended};
use crate::random::{Purpose, uniform};
use crate::request::Sampling;
use crate::step::{Draw, Sampled};
use crate::text::TextStream;
use crate::watch::Watch;

/// Drafts that are made at one model.
#[derive(Debug, Default)]
pub(super) struct Drafting {
    done: Vec<Draft>,
    now: Option<Current>,
}

/// The one under way.
#[derive(Debug)]
struct Current {
    /// Length of `history` where it began.
    from: usize,
    watch: Watch,
    text: TextStream,
    shown: String,
    logprobs: Vec<f32>,
}

impl Drafting {
    /// How its next token is drawn. Every draft has randomness of its own, and none of it is the answer's.
    pub(super) fn draw<'a>(
        &self,
        wish: &DraftRequest,
        draw: Draw<'a>,
        (seed, position): (u64, usize),
    ) -> Draw<'a> {
        let sample = self.done.len() as u32;
        let temperature = wish.temperature.unwrap_or(draw.sampling.temperature);
        let sampling = Sampling { temperature, ..draw.sampling };
        Draw { sampling, uniform: uniform(seed, position as u64 + 1, Purpose::Draft, sample), ..draw }
    }

    /// Takes a token; all drafts once the last has ended.
    pub(super) fn take(
        &mut self,
        wish: &DraftRequest,
        (sampled, follows_grammar): (&Sampled, bool),
        journey: &mut Journey,
    ) -> Option<Vec<Draft>> {
        let current = self.now.get_or_insert_with(|| Current {
            from: journey.length(),
            watch: Watch::new(Some(wish.tokens.max(1)), wish.until.clone()),
            text: journey.output.preview(),
            shown: String::new(),
            logprobs: Vec::new(),
        });
        let ends = journey.request.ends.tokens.contains(&sampled.token);
        let vocabulary = &journey.request.vocabulary;
        let bytes: &[u8] = if ends { &[] } else { vocabulary.bytes(sampled.token) };
        current.shown.push_str(&current.text.push(bytes));
        current.logprobs.push(sampled.logprob);
        let watched = current.watch.push(sampled, bytes, vocabulary.len());
        journey.history.push(sampled.token);
        let whole = follows_grammar && journey.standing(journey.length()) == Standing::Complete;
        let over = ends || whole || current.text.stopped() || journey.out_of_room(journey.length());
        let why = if over { Ended::Answer } else { watched? };
        self.done.extend(self.now.take().map(|current| current.end(why, journey)));
        (self.done.len() >= wish.samples.max(1) as usize).then(|| std::mem::take(&mut self.done))
    }
}

impl Current {
    /// What it became; `history` and the model's KV are back where it began.
    fn end(mut self, why: Ended, journey: &mut Journey) -> Draft {
        self.shown.push_str(&self.text.finish());
        let tokens = journey.history.tokens()[self.from..].to_vec();
        journey.cut(self.from);
        Draft { tokens, logprobs: self.logprobs, text: self.shown, why }
    }
}
