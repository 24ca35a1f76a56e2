//! What a step must do at least, and how long the machine takes for that at best.
//!
//! A step reads every weight once, whatever the batch, and the KV of every sequence; and it multiplies every weight
//! with every token. Reading and multiplying overlap, so the slower of the two is the bound:
//!
//! ```text
//! seconds = max(bytes / bytes per second, multiply-adds / multiply-adds per second)
//! ```
//!
//! Left out, and therefore room that no step can use up: the arithmetic of attention, norms and sampling. A table of
//! embeddings that is not the head as well is only looked up, so it does not count.

use std::fmt;

use engine::{KvType, ModelSpec, Peaks};
use serde::Serialize;

use super::Machine;

/// The most that the machine allows at one batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// Tokens per second over the batch.
    pub tokens_per_s: f64,
    /// What keeps it from being more.
    pub by: Limit,
}

/// Which part of the machine is the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Reading weights and KV.
    Memory,
    /// Multiplying.
    Compute,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Compute => "compute",
        })
    }
}

/// What must be done to get some tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    tokens: u64,
    bytes: f64,
    multiply_adds: f64,
}

impl Work {
    /// One decode step of a batch whose sequences have `positions` each.
    pub(super) fn decode(spec: &ModelSpec, batch: usize, positions: usize) -> Self {
        let kv = batch as u64 * positions as u64 * spec.kv_bytes_per_token(KvType::Auto);
        let multiply_adds = batch as u64 * (layers(spec) + head(spec));
        Self {
            tokens: batch as u64,
            bytes: weight_bytes(spec) + kv as f64,
            multiply_adds: multiply_adds as f64,
        }
    }

    /// All prompts of a batch; only the last token of each is asked for logits.
    pub(super) fn prefill(spec: &ModelSpec, batch: usize, prompt: usize) -> Self {
        let multiply_adds = batch as u64 * (prompt as u64 * layers(spec) + head(spec));
        let tokens = batch as u64 * prompt as u64;
        Self { tokens, bytes: weight_bytes(spec), multiply_adds: multiply_adds as f64 }
    }

    /// What the machine allows.
    pub(super) fn bound(self, spec: &ModelSpec, machine: &Machine) -> Bound {
        let reading = self.bytes / (machine.weights_read_gb_per_s * 1e9);
        let multiplying = self.multiply_adds / (peak(spec, machine.peaks) * 1e9);
        let by = if multiplying > reading { Limit::Compute } else { Limit::Memory };
        Bound { tokens_per_s: self.tokens as f64 / reading.max(multiplying), by }
    }
}

/// Bytes of weights that one step reads.
pub(super) fn weight_bytes(spec: &ModelSpec) -> f64 {
    let multiplied = (layers(spec) + head(spec)) as f64 / spec.parameters as f64;
    spec.weight_bytes as f64 * multiplied.min(1.0)
}

/// Multiply-adds of one token that is asked for logits.
pub(super) fn multiply_adds(spec: &ModelSpec) -> u64 {
    layers(spec) + head(spec)
}

/// Weights as blocks of small integers are multiplied as such; all others as floats.
fn peak(spec: &ModelSpec, peaks: Peaks) -> f64 {
    if spec.dtype.is_quantised() { peaks.int8_gmac_per_s } else { peaks.f32_gmac_per_s }
}

fn layers(spec: &ModelSpec) -> u64 {
    let (query, kv) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
    let attention = spec.hidden * (2 * query + 2 * kv);
    let feed_forward = 3 * spec.hidden * spec.intermediate;
    spec.layers as u64 * (attention + feed_forward) as u64
}

fn head(spec: &ModelSpec) -> u64 {
    spec.vocabulary as u64 * spec.hidden as u64
}

#[cfg(test)]
pub(super) mod tests {
    use engine::WeightType;

    use super::*;

    /// SmolLM2-135M with 4-bit layers and an 8-bit tied head.
    pub(in crate::bench::decode) fn spec() -> ModelSpec {
        ModelSpec {
            name: "smollm2".to_owned(),
            architecture: "LlamaForCausalLM".to_owned(),
            vocabulary: 49_152,
            context: 8192,
            hidden: 576,
            intermediate: 1536,
            layers: 30,
            heads: 9,
            kv_heads: 3,
            head_dim: 64,
            parameters: 134_515_008,
            weight_bytes: 96_600_000,
            eos: Vec::new(),
            dtype: WeightType::Q4_1,
        }
    }

    pub(in crate::bench::decode) fn machine() -> Machine {
        Machine {
            threads: 2,
            weights_bytes: 96_600_000,
            weights_read_gb_per_s: 63.0,
            memory_bytes: 512 << 20,
            memory_read_gb_per_s: 33.0,
            peaks: Peaks { int8_gmac_per_s: 855.0, f32_gmac_per_s: 209.0, instructions: "none" },
        }
    }

    #[test]
    fn one_sequence_waits_for_memory_and_many_for_the_multipliers() {
        let spec = spec();
        assert_eq!(multiply_adds(&spec), 134_479_872);
        // (96.6 MB + 160 * 23 040 bytes) / 63 GB/s = 1.592 ms; the norms make up 0.03 % of the weights.
        let one = Work::decode(&spec, 1, 160).bound(&spec, &machine());
        assert!((one.tokens_per_s - 628.3).abs() < 0.5 && one.by == Limit::Memory, "{one:?}");
        // 855 G/s / 134.48 M = 6358 tokens/s.
        let many = Work::decode(&spec, 32, 160).bound(&spec, &machine());
        assert!((many.tokens_per_s - 6357.8).abs() < 0.5 && many.by == Limit::Compute, "{many:?}");
    }

    #[test]
    fn a_prompt_pays_for_the_head_once() {
        let spec = spec();
        let prompt = Work::prefill(&spec, 4, 128);
        let layers = multiply_adds(&spec) - 49_152 * 576;
        assert_eq!(prompt.multiply_adds, (4 * (128 * layers + 49_152 * 576)) as f64);
        assert_eq!(prompt.bound(&spec, &machine()).by, Limit::Compute);
    }

    #[test]
    fn floats_are_held_against_the_peak_of_floats() {
        let floats = ModelSpec { dtype: WeightType::Bf16, ..spec() };
        let many = Work::decode(&floats, 1000, 10).bound(&floats, &machine());
        assert!((many.tokens_per_s - 209e9 / 134_479_872.0).abs() < 0.5, "{many:?}");
    }

    #[test]
    fn embeddings_that_are_only_looked_up_are_not_read() {
        let tied = spec();
        let table = 49_152 * 576;
        let untied = ModelSpec {
            parameters: tied.parameters + table,
            weight_bytes: 4 * (tied.parameters + table),
            ..tied.clone()
        };
        let tied = ModelSpec { weight_bytes: 4 * tied.parameters, ..tied };
        assert!((weight_bytes(&untied) / weight_bytes(&tied) - 1.0).abs() < 1e-3);
    }
}
