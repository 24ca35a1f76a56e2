//! Draws in the model's own tokens, told in home tokens.

use journey::{Adjust, Adjustments, Candidate, Distribution, Draw, Sampled, Signals, Tally, TokenMask};

use super::speech::Speech;
use crate::Lexicon;

/// What changes the logits of own tokens, as was said of home tokens. What only one of both models has is left as it is, but
/// for a mask, which allows no more than what both have.
pub(super) struct OwnAdjust {
    wishes: Adjustments,
    barred: Vec<u32>,
    mask: Option<TokenMask>,
}

impl OwnAdjust {
    pub(super) fn new(lexicon: &Lexicon, adjust: &Adjust<'_>) -> Self {
        let to_own = |&(token, by): &(u32, f32)| Some((lexicon.to_own(token)?, by));
        let mut bias: Vec<(u32, f32)> = adjust.wishes.bias.iter().filter_map(to_own).collect();
        bias.sort_unstable_by_key(|(token, _)| *token);
        bias.dedup_by_key(|(token, _)| *token);
        // Where an answer is too short to end, no way to end it is left.
        let mut barred: Vec<u32> = adjust.barred.iter().filter_map(|&token| lexicon.to_own(token)).collect();
        if !barred.is_empty() {
            barred.extend(lexicon.ending());
        }
        let mask = adjust.mask.map(|mask| lexicon.mask(mask));
        Self { wishes: Adjustments { bias, ..adjust.wishes.clone() }, barred, mask }
    }

    /// At a place after the tokens that `tally` counts and these.
    pub(super) fn at<'a>(&'a self, tally: Option<&'a Tally>, drafted: &'a [u32]) -> Adjust<'a> {
        Adjust { tally, drafted, barred: &self.barred, mask: self.mask.as_ref(), ..Adjust::new(&self.wishes) }
    }
}

/// What a draw after the first `length` home tokens gives, if the own draws begin after those within `first` and there is one
/// after each own token from there on.
pub(super) fn sampled_at(
    speech: &Speech,
    (length, first): (usize, usize),
    draw: &Draw<'_>,
    own: &[Sampled],
) -> Sampled {
    let lexicon = &speech.translation().lexicon;
    let (from, begins) = (speech.within(first), speech.within(length));
    let at = |place: usize| &own[place - from];
    let drafted = speech.home().get(length).copied();
    let (begun, span) = (speech.begun(length), speech.span(length));
    let agrees = drafted.is_some() && span.clone().all(|place| at(place).token == speech.own()[place]);
    if begun > 0 && at(begins).token == speech.own()[begins] {
        // The model has this own token's beginning, and goes on with it.
        let rest = &lexicon.own_bytes(at(begins).token)[begun..];
        let token = drafted.filter(|_| agrees).unwrap_or_else(|| lexicon.spell_home_bytes(rest)[0]);
        let told = certain(token, draw, lexicon.home_size());
        let logprob = span.skip(1).filter(|_| agrees).map(|place| at(place).logprob).sum();
        return Sampled { logprob, scores: at(begins).scores.clone(), ..told };
    }
    let sampled = at(begins);
    let token = drafted.filter(|_| agrees).unwrap_or_else(|| lexicon.spell_home(sampled.token)[0]);
    let logprob = if agrees { span.map(|place| at(place).logprob).sum() } else { sampled.logprob };
    let of = |kept: &Distribution, token: u32| {
        lexicon.to_own(token).map_or(f32::NEG_INFINITY, |own| kept.logprob(own) as f32)
    };
    let logprobs = sampled
        .kept
        .as_ref()
        .map_or_else(Vec::new, |kept| draw.logprobs_of.iter().map(|&token| of(kept, token)).collect());
    Sampled {
        token,
        logprob,
        signals: sampled.signals,
        candidates: candidates(lexicon, &sampled.candidates),
        logprobs,
        kept: sampled.kept.as_ref().filter(|_| draw.keep).and_then(|kept| lexicon.distribution(kept)),
        scores: sampled.scores.clone(),
    }
}

/// A draw of the only token that there can be.
pub(super) fn certain(token: u32, draw: &Draw<'_>, vocabulary: usize) -> Sampled {
    let sure = |of: u32| if of == token { 0.0 } else { f32::NEG_INFINITY };
    let only = || (0..vocabulary as u32).map(sure).collect();
    Sampled {
        token,
        logprob: 0.0,
        signals: Signals { entropy: 0.0, top1: 1.0, margin: 1.0 },
        candidates: [Candidate { token, logit: 0.0, prob: 1.0 }].into_iter().take(draw.candidates).collect(),
        logprobs: draw.logprobs_of.iter().map(|&of| sure(of)).collect(),
        kept: draw.keep.then(|| Distribution::new(only())).flatten().map(std::sync::Arc::new),
        scores: Vec::new(),
    }
}

/// Those that both models have.
fn candidates(lexicon: &Lexicon, own: &[Candidate]) -> Vec<Candidate> {
    own.iter().filter_map(|own| Some(Candidate { token: lexicon.to_home(own.token)?, ..*own })).collect()
}
