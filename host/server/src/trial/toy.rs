//! Models without weights: their logits are a function of the role and the tokens before, swinging from sure to unsure,
//! over a vocabulary of single characters.

use std::sync::Arc;

use journey::{
    Adjustments, Distribution, Draw, Ends, Journey, Request, Role, Routing, Rules, Sampled, Sampling,
    Signals, Vocabulary,
};

/// A journey's request to toy models.
pub(super) fn request(rules: Rules, candidates: usize, roles: usize, seed: u64) -> Request {
    let characters = (FIRST..=LAST).map(|byte| Box::from([byte]));
    let bytes = [Box::from([]), Box::from([b'\n'])].into_iter().chain(characters).collect();
    let vocabulary = Arc::new(Vocabulary::new(bytes));
    Request {
        prompt: PROMPT.to_vec(),
        sampling: Sampling { temperature: 1.0, ..Sampling::GREEDY },
        adjustments: Adjustments::default(),
        seed,
        ends: Ends { tokens: Arc::from([EOS]), strings: Vec::new(), tokens_min: super::TOKENS / 2 },
        grammar: None,
        max_tokens: super::TOKENS,
        context: CONTEXT,
        score_prompt: false,
        encoder: Arc::clone(&vocabulary) as _,
        vocabulary,
        candidates,
        roles,
        routing: Routing::Policy(Arc::new(rules)),
    }
}

/// What one model holds of a journey.
#[derive(Clone, Debug, Default)]
pub(super) struct Kv(Vec<u32>);

impl Kv {
    /// Feeds what is pending; what was drawn after it, in order.
    pub(super) fn step(&mut self, journey: &mut Journey, heads: usize) -> Vec<Sampled> {
        journey.holds(self.0.len());
        let (from, tokens) = journey.pending();
        self.0.truncate(from);
        self.0.extend_from_slice(tokens);
        let count = tokens.len();
        let role = journey.here();
        let wanted = journey.wanted();
        journey.constrain(wanted);
        let drawn = |position| drawn(&self.0[..=position], role, &journey.draw(position), heads);
        let all = journey.wanted().map(drawn).collect();
        journey.fed(count);
        all
    }
}

fn drawn(tokens: &[u32], role: Role, draw: &Draw<'_>, heads: usize) -> Sampled {
    let own = Distribution::new(logits(tokens, role)).expect("toy logits are finite");
    let token = own.drawn_from(draw).map_or(EOS, |allowed| allowed.sample(draw.uniform));
    let top = own.top(2);
    let (top1, second) = (top[0].prob, top[1].prob);
    Sampled {
        token,
        logprob: own.logprob(token) as f32,
        signals: Signals { entropy: own.entropy() as f32, top1, margin: top1 - second },
        candidates: own.top(draw.candidates),
        logprobs: draw.logprobs_of.iter().map(|&token| own.logprob(token) as f32).collect(),
        scores: if draw.scores { vec![1.0 - top1; heads] } else { Vec::new() },
        kept: draw.keep.then(|| Arc::new(own)),
    }
}

fn logits(tokens: &[u32], role: Role) -> Vec<f32> {
    let hash = tokens.iter().fold(mixed(u64::from(role.0)), |hash, &token| mixed(hash ^ u64::from(token)));
    let sharpness = SHARPNESS[hash as usize % SHARPNESS.len()];
    let logit = |token: u32| sharpness * (mixed(hash ^ u64::from(token)) >> 40) as f32 / (1 << 24) as f32;
    (0..VOCABULARY).map(logit).collect()
}

/// The last steps of SplitMix64: every bit of the result depends on every bit of the number.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Span of the logits: from nearly uniform, 4.5 nats, to nearly certain.
const SHARPNESS: [f32; 4] = [1.0, 10.0, 40.0, 400.0];
/// Token ids: the end of an answer, a new line, and the printable characters of ASCII.
pub(super) const VOCABULARY: u32 = 2 + (LAST - FIRST) as u32 + 1;
pub(super) const PROMPT: [u32; 3] = [5, 6, 7];
pub(super) const CONTEXT: usize = 512;
const EOS: u32 = 0;
const FIRST: u8 = b' ';
const LAST: u8 = b'~';
