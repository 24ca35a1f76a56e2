//! Models of known sizes with random weights, to measure and compare engines where no checkpoint is at hand.
//!
//! A weight depends on its tensor's name and its place alone, so every engine gets the same model. The shapes are those
//! of the dense Qwen3 models; there is no tokenizer, as the tokens mean nothing.

use std::fmt;
use std::str::FromStr;

use half::bf16;

use crate::checkpoint::Raw;
use crate::config::{Activation, Config, Rope, Scaling, Span};
use crate::load::{build_on, survey};
use crate::weights::{Layout, Needed};
use crate::{Device, Engine, EngineError, LoadOptions, ModelSpec, WeightType};

/// A size of a random model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomShape {
    /// Small enough for a test.
    Tiny,
    /// As Qwen3-0.6B.
    B0_6,
    /// As Qwen3-1.7B.
    B1_7,
    /// As Qwen3-4B.
    B4,
    /// As Qwen3-8B.
    B8,
}

/// A text that names no shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is no size of a random model; the sizes are tiny, 0.6b, 1.7b, 4b and 8b")]
pub struct NoShape;

impl RandomShape {
    /// What [`random`] makes.
    ///
    /// # Errors
    /// Never: every tensor of these models is there.
    pub fn spec(self) -> Result<ModelSpec, EngineError> {
        let name = format!("random {self}");
        Ok(survey(&name, &self.config(), Layout::HuggingFace, stored)?.0)
    }

    fn config(self) -> Config {
        let (hidden, intermediate, layers, heads, tied) = match self {
            Self::Tiny => (64, 160, 3, 4, true),
            Self::B0_6 => (1024, 3072, 28, 16, true),
            Self::B1_7 => (2048, 6144, 28, 16, true),
            Self::B4 => (2560, 9728, 36, 32, true),
            Self::B8 => (4096, 12_288, 36, 32, false),
        };
        let (vocabulary, kv_heads, head_dim) =
            if self == Self::Tiny { (2000, 2, 16) } else { (151_936, 8, 128) };
        Config {
            architecture: "Qwen3ForCausalLM".to_owned(),
            vocabulary,
            context: 40_960,
            hidden,
            intermediate,
            layers,
            heads,
            kv_heads,
            head_dim,
            norm_eps: 1e-6,
            tied,
            eos: Vec::new(),
            attention: vec![Span { window: None, rope: 0 }; layers],
            ropes: vec![Rope { theta: 1e6, scaling: Scaling::None }],
            qkv_bias: false,
            output_bias: false,
            qk_norm: true,
            norm_offset: 0.0,
            post_norms: false,
            activation: Activation::Silu,
            embedding_scale: 1.0,
            attention_scale: (head_dim as f32).powf(-0.5),
            attention_softcap: None,
            logit_softcap: None,
        }
    }
}

impl FromStr for RandomShape {
    type Err = NoShape;

    fn from_str(text: &str) -> Result<Self, NoShape> {
        let all = [Self::Tiny, Self::B0_6, Self::B1_7, Self::B4, Self::B8];
        all.into_iter().find(|shape| shape.to_string() == text).ok_or(NoShape)
    }
}

impl fmt::Display for RandomShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tiny => "tiny",
            Self::B0_6 => "0.6b",
            Self::B1_7 => "1.7b",
            Self::B4 => "4b",
            Self::B8 => "8b",
        })
    }
}

/// Makes a model on a device.
///
/// # Errors
/// [`EngineError::NoCuda`], [`EngineError::Device`], [`EngineError::Memory`].
pub fn random(
    shape: RandomShape,
    device: Device,
    options: LoadOptions,
) -> Result<Box<dyn Engine>, EngineError> {
    build_on(device, shape.spec()?, (&shape.config(), Layout::HuggingFace), options, &mut |needed| {
        Ok(made(needed))
    })
}

/// Every tensor is there, in bf16.
fn stored(needed: &Needed) -> Result<(WeightType, u64), EngineError> {
    Ok((WeightType::Bf16, 2 * needed.parameters()))
}

/// A norm is ones. A matrix keeps the size of what goes through it: uniform numbers of variance 1 / inputs.
fn made(needed: &Needed) -> Raw {
    let (rows, width) = match needed.shape[..] {
        [rows, width] => (rows, width),
        _ => (1, needed.shape.iter().product()),
    };
    let mut bytes = Vec::with_capacity(2 * rows * width);
    if needed.shape.len() == 1 {
        bytes.extend((0..width).flat_map(|_| bf16::ONE.to_le_bytes()));
    } else {
        // Of i16.
        let scale = (3.0 / width as f32).sqrt() / 32_768.0;
        let seed = needed.name.bytes().fold(SEED, |seed, byte| (seed ^ u64::from(byte)).wrapping_mul(PRIME));
        for at in 0..(rows * width).div_ceil(4) as u64 {
            for number in mixed(seed.wrapping_add(at.wrapping_mul(STEP))).to_le_bytes().as_chunks().0 {
                bytes.extend(bf16::from_f32(f32::from(i16::from_le_bytes(*number)) * scale).to_le_bytes());
            }
        }
        bytes.truncate(2 * rows * width);
    }
    Raw { kind: WeightType::Bf16, bytes, rows, width }
}

/// The output function of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
fn mixed(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Of the FNV-1a hash.
const SEED: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

#[cfg(test)]
mod tests {
    use journey::{Draw, JourneyId};

    use super::*;
    use crate::Row;

    #[test]
    fn shapes_have_the_parameters_of_their_names() {
        for (shape, parameters) in
            [("0.6b", 596_049_920), ("1.7b", 1_720_574_976), ("4b", 4_022_468_096), ("8b", 8_190_735_360)]
        {
            let shape: RandomShape = shape.parse().unwrap();
            assert_eq!(shape.spec().unwrap().parameters, parameters, "{shape}");
        }
        assert_eq!("9b".parse::<RandomShape>(), Err(NoShape));
    }

    #[test]
    fn a_random_model_says_the_same_every_time() {
        let draws = &[Draw { candidates: 4, ..Draw::GREEDY }];
        let answer = || {
            let mut engine = random(RandomShape::Tiny, Device::Cpu, LoadOptions::default()).unwrap();
            let row = Row { journey: JourneyId(1), salt: 0, from: 0, tokens: &[1, 2, 3], draws };
            engine.step(&[row]).unwrap()
        };
        assert_eq!(answer(), answer());
        let entropy = answer()[0].signals.entropy;
        assert!(entropy > 5.0 && entropy < 7.6, "neither flat nor certain: {entropy}");
    }
}
