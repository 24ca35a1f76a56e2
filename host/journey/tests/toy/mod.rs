//! A model without weights, and its KV: enough to drive journeys as an engine does.

use std::sync::Arc;

use journey::{
    Adjustments, Distribution, Draw, Ends, Grammar, Journey, Made, Matcher, Request, Routing, Sampled,
    Sampling, Signals, Standing, Tally, TokenMask, Vocabulary,
};

const EOS: u32 = 0;
const PROMPT: [u32; 3] = [5, 6, 7];
const TOKENS_MIN: usize = 4;
pub(crate) const ROLES: usize = 3;
pub(crate) const VOCABULARY: u32 = 40;
const SALT: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of splitmix64: every bit of the result depends on every bit of `x`.
fn mixed(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A model without weights: its logits are a function of everything before the position, and of which model it is.
pub(crate) fn logits(tokens: &[u32], model: u64) -> Vec<f32> {
    let step = |h: u64, t: u32| mixed(h ^ u64::from(t).wrapping_add(1));
    let hash = tokens.iter().fold(SALT.wrapping_mul(model + 1), |h, &t| step(h, t));
    let logit = |token: u32| (step(hash, token) >> 40) as f32 / (1 << 21) as f32 - 4.0;
    (0..VOCABULARY).map(logit).collect()
}

/// The draw after these tokens, as an engine makes it.
pub(crate) fn drawn(tokens: &[u32], draw: &Draw<'_>, model: u64) -> Sampled {
    // Questions are about the model's own logits, and ask for something beside the token.
    assert!(
        draw.adjust.is_some()
            || draw.keep
            || draw.scores
            || draw.candidates > 0
            || !draw.logprobs_of.is_empty()
    );
    if let Some(adjust) = draw.adjust {
        let mut walked = Tally::of_prompt(&tokens[..PROMPT.len()]);
        tokens[PROMPT.len()..].iter().for_each(|&token| walked.add(token));
        let mut counted = adjust.tally.expect("counts").clone();
        adjust.drafted.iter().for_each(|&token| counted.add(token));
        assert_eq!(counted, walked, "the counts are those of the tokens before the position");
        let is_short = tokens.len() < PROMPT.len() + TOKENS_MIN;
        match adjust.mask {
            Some(mask) => {
                let expected = Sums::default().after(&tokens[PROMPT.len()..]).mask(is_short);
                assert_eq!(mask.allowed(VOCABULARY as usize).collect::<Vec<_>>(), expected);
                assert!(adjust.barred.is_empty());
            }
            None => assert_eq!(adjust.barred.is_empty(), !is_short),
        }
    }
    let own = Distribution::new(logits(tokens, model)).expect("finite logits");
    let token = own.drawn_from(draw).expect("something is allowed").sample(draw.uniform);
    let top = own.top(2);
    Sampled {
        token,
        logprob: own.logprob(token) as f32,
        signals: Signals {
            entropy: own.entropy() as f32,
            top1: top[0].prob,
            margin: top[0].prob - top[1].prob,
        },
        candidates: own.top(draw.candidates),
        logprobs: draw.logprobs_of.iter().map(|&token| own.logprob(token) as f32).collect(),
        scores: if draw.scores { vec![0.5, 0.25] } else { Vec::new() },
        kept: draw.keep.then(|| Arc::new(own)),
    }
}

/// One model's KV, and which model it is: it must always be a prefix of what the journey says was fed.
#[derive(Default)]
pub(crate) struct Kv(pub(crate) Vec<u32>, pub(crate) u64);

impl Kv {
    /// Feeds at most `chunk` tokens; what was drawn after them.
    pub(crate) fn step(&mut self, journey: &mut Journey, chunk: usize) -> Vec<Sampled> {
        journey.holds(self.0.len());
        let (from, tokens) = journey.pending();
        assert!(!tokens.is_empty() && from <= self.0.len(), "a hole in the KV");
        let count = chunk.clamp(1, tokens.len());
        self.0.truncate(from);
        self.0.extend_from_slice(&tokens[..count]);
        let (wanted, end) = (journey.wanted(), from + count);
        assert_eq!(wanted.end, from + tokens.len(), "draws are after the last of what is pending");
        let after = wanted.start.min(end)..wanted.end.min(end);
        journey.constrain(after.clone());
        let all =
            after.map(|position| drawn(&self.0[..=position], &journey.draw(position), self.1)).collect();
        journey.fed(count);
        all
    }
}

/// A grammar of sums: no token may make the sum of all a multiple of three, and the answer may end at even sums.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    taken: Vec<u32>,
}

impl Sums {
    fn after(mut self, tokens: &[u32]) -> Self {
        tokens.iter().for_each(|&token| assert!(self.take(token), "{token} after {:?}", self.taken));
        self
    }

    fn fits(&self, token: u32) -> bool {
        token != EOS && !(self.sum() + token).is_multiple_of(3)
    }

    fn sum(&self) -> u32 {
        self.taken.iter().sum()
    }

    fn mask(&mut self, is_short: bool) -> Vec<u32> {
        let may_end = self.standing() != Standing::Open && !is_short;
        (0..VOCABULARY).filter(|&token| self.fits(token) || (token == EOS && may_end)).collect()
    }
}

impl Grammar for Sums {
    fn begin(&self) -> Box<dyn Matcher> {
        Box::new(self.clone())
    }
}

impl Matcher for Sums {
    fn take(&mut self, token: u32) -> bool {
        let fits = self.fits(token);
        self.taken.extend(fits.then_some(token));
        fits
    }

    fn rewind(&mut self, count: usize) {
        self.taken.truncate(self.taken.len().checked_sub(count).expect("no more than was taken"));
    }

    fn allow(&mut self, mask: &mut TokenMask) {
        mask.clear();
        (0..VOCABULARY).filter(|&token| self.fits(token)).for_each(|token| mask.allow(token));
    }

    fn standing(&mut self) -> Standing {
        match self.sum() {
            sum if sum > SUM_MAX => Standing::Complete,
            sum if sum.is_multiple_of(2) => Standing::Accepting,
            _ => Standing::Open,
        }
    }
}

/// Beyond it an answer is whole.
const SUM_MAX: u32 = 500;

pub(crate) fn request(routing: Routing, temperature: f32, stop: &[&str]) -> Request {
    let bytes = (0..40u8).map(|t| if t == 0 { Box::from([]) } else { Box::from([b'@' + t]) }).collect();
    let vocabulary = Arc::new(Vocabulary::new(bytes));
    Request {
        prompt: PROMPT.to_vec(),
        sampling: Sampling { temperature, ..Sampling::GREEDY },
        adjustments: Adjustments { frequency: 0.5, ..Adjustments::default() },
        seed: 11,
        ends: Ends {
            tokens: Arc::from([EOS]),
            strings: stop.iter().map(|&s| s.to_owned()).collect(),
            tokens_min: TOKENS_MIN,
        },
        grammar: None,
        max_tokens: 60,
        context: 50,
        score_prompt: false,
        encoder: Arc::clone(&vocabulary) as _,
        vocabulary,
        candidates: 0,
        roles: ROLES,
        routing,
    }
}

pub(crate) fn ids(made: &[Made]) -> Vec<u32> {
    made.iter().map(|m| m.sampled.token).collect()
}
