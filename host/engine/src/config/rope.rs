//! How fast the pairs of a head turn per position, and how checkpoints stretch that to longer contexts.
//!
//! Frequencies are computed in f32 in the order of the reference implementation, since the models were trained with
//! its rounding and far positions multiply the difference.

use std::f64::consts::PI;

/// A rotary embedding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rope {
    /// Base of the frequencies.
    pub(crate) theta: f64,
    /// What is done to them for a longer context.
    pub(crate) scaling: Scaling,
}

/// What is done to the frequencies of a model that was first trained on a shorter context.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scaling {
    /// Nothing.
    None,
    /// All are divided.
    Linear {
        /// By this.
        factor: f64,
    },
    /// Each is divided by a number of its own, one for each pair.
    Each {
        /// Those numbers.
        factors: Vec<f32>,
    },
    /// By how often each turns within the original context.
    Llama3(Llama3),
    /// Along the index of the pair.
    Yarn(Yarn),
}

/// Slow frequencies are divided, fast ones are kept, and those between are mixed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Llama3 {
    /// Divides the slow ones.
    pub(crate) factor: f64,
    /// Slow: fewer turns within the original context than this.
    pub(crate) low_freq_factor: f64,
    /// Fast: more turns than this.
    pub(crate) high_freq_factor: f64,
    /// Positions of the first training.
    pub(crate) original_context: usize,
}

/// The same, but mixed along the index of the pair; and the rotated vectors grow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Yarn {
    /// Divides the slow ones.
    pub(crate) factor: f64,
    /// Turns within the original context from which on a pair is fast.
    pub(crate) beta_fast: f64,
    /// Turns up to which it is slow.
    pub(crate) beta_slow: f64,
    /// Positions of the first training.
    pub(crate) original_context: usize,
    /// Whether the two bounds are rounded outwards to whole pairs.
    pub(crate) truncate: bool,
    /// Cosine and sine are multiplied by this.
    pub(crate) attention_factor: f64,
}

impl Rope {
    /// theta^(-2i / head_dim), scaled, for each pair i, in radians per position.
    pub(crate) fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        let power = |i: usize| (self.theta as f32).powf((2 * i) as f32 / head_dim as f32);
        let powers = (0..head_dim / 2).map(power);
        match &self.scaling {
            Scaling::None => powers.map(|power| 1.0 / power).collect(),
            Scaling::Linear { factor } => powers.map(|power| 1.0 / power / *factor as f32).collect(),
            Scaling::Each { factors } => {
                powers.zip(factors).map(|(power, factor)| 1.0 / power / factor).collect()
            }
            Scaling::Llama3(llama3) => powers.map(|power| llama3.scaled(1.0 / power)).collect(),
            Scaling::Yarn(yarn) => {
                let bounds = yarn.bounds(self.theta, head_dim);
                (0..).zip(powers).map(|(pair, power)| yarn.scaled(pair, power, bounds)).collect()
            }
        }
    }

    /// What cosine and sine are multiplied by.
    pub(crate) fn magnitude(&self) -> f32 {
        match &self.scaling {
            Scaling::Yarn(yarn) => yarn.attention_factor as f32,
            _ => 1.0,
        }
    }
}

impl Llama3 {
    fn scaled(&self, frequency: f32) -> f32 {
        let (factor, context) = (self.factor as f32, self.original_context as f64);
        let (low, high) = (self.low_freq_factor, self.high_freq_factor);
        let length = (2.0 * PI) as f32 / frequency;
        if length > (context / low) as f32 {
            return frequency / factor;
        }
        if length < (context / high) as f32 {
            return frequency;
        }
        let smooth = (context as f32 / length - low as f32) / (high - low) as f32;
        (1.0 - smooth) * frequency / factor + smooth * frequency
    }
}

impl Yarn {
    /// The pairs up to which frequencies are kept and from which on they are divided.
    fn bounds(&self, theta: f64, head_dim: usize) -> (f64, f64) {
        // The pair that turns so many times within the original context.
        let pair = |turns: f64| {
            let length = self.original_context as f64 / (turns * 2.0 * PI);
            head_dim as f64 * length.ln() / (2.0 * theta.ln())
        };
        let (mut low, mut high) = (pair(self.beta_fast), pair(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, high) = (low.max(0.0), high.min(head_dim as f64 - 1.0));
        (low, if low == high { high + 0.001 } else { high })
    }

    fn scaled(&self, pair: usize, power: f32, (low, high): (f64, f64)) -> f32 {
        let divided = ((pair as f32 - low as f32) / (high - low) as f32).clamp(0.0, 1.0);
        let kept = 1.0 - divided;
        1.0 / (self.factor as f32 * power) * (1.0 - kept) + 1.0 / power * kept
    }

    /// How much vectors grow, by the author of the method, when the context grows by a factor.
    pub(super) fn growth(factor: f64, scale: f64) -> f64 {
        if factor <= 1.0 { 1.0 } else { 0.1 * scale * factor.ln() + 1.0 }
    }
}
