//! A decoder that is only right: the formulas one after the other, for one sequence, in double precision.
//!
//! What the fast decoder gives is compared with this where no golden file reaches. It shares the config and the names
//! of tensors with it and nothing else.

use std::collections::HashMap;

use crate::EngineError;
use crate::config::{Activation, Config};
use crate::weights::{self, LayerTensors, Layout, Needed};

/// A model whose weights are read as they are used.
pub(crate) struct Oracle<'a> {
    config: &'a Config,
    layout: Layout,
    read: &'a mut dyn FnMut(&Needed) -> Result<Vec<f32>, EngineError>,
    kept: HashMap<String, Vec<f64>>,
}

/// One vector for each token.
type Rows = Vec<Vec<f64>>;

impl<'a> Oracle<'a> {
    pub(crate) fn new(
        config: &'a Config,
        layout: Layout,
        read: &'a mut dyn FnMut(&Needed) -> Result<Vec<f32>, EngineError>,
    ) -> Self {
        Self { config, layout, read, kept: HashMap::new() }
    }

    /// The logits after every token.
    pub(crate) fn logits(&mut self, tokens: &[u32]) -> Rows {
        let config = self.config;
        let embedding = weights::embedding(config, self.layout);
        let scale = f64::from(config.embedding_scale);
        let rows = self.weights(&embedding).chunks(config.hidden).map(<[f64]>::to_vec).collect::<Rows>();
        let mut x: Rows =
            tokens.iter().map(|&token| rows[token as usize].iter().map(|x| x * scale).collect()).collect();
        for layer in 0..config.layers {
            let tensors = LayerTensors::of(config, self.layout, layer);
            let attended = self.attention(layer, &tensors, &x);
            let attended = self.norm(tensors.attention_post_norm.as_ref(), attended);
            add(&mut x, &attended);
            let fed = self.feed_forward(&tensors, &x);
            let fed = self.norm(tensors.feed_forward_post_norm.as_ref(), fed);
            add(&mut x, &fed);
        }
        let x = self.norm(Some(&weights::final_norm(config, self.layout)), x);
        let head = weights::head(config, self.layout).unwrap_or(embedding);
        let mut logits = self.product(&head, None, &x);
        logits.iter_mut().flatten().for_each(|logit| *logit = capped(*logit, config.logit_softcap));
        logits
    }

    fn attention(&mut self, layer: usize, tensors: &LayerTensors, x: &Rows) -> Rows {
        let config = self.config;
        let span = config.attention[layer];
        let h = self.norm(Some(&tensors.attention_norm), x.clone());
        let query = self.product(&tensors.query, tensors.query_bias.as_ref(), &h);
        let key = self.product(&tensors.key, tensors.key_bias.as_ref(), &h);
        let value = self.product(&tensors.value, tensors.value_bias.as_ref(), &h);
        let query = self.rotated(span.rope, tensors.query_norm.as_ref(), query);
        let key = self.rotated(span.rope, tensors.key_norm.as_ref(), key);
        let (width, shared) = (config.head_dim, config.heads / config.kv_heads);
        let mut attended = vec![vec![0.0; config.heads * width]; x.len()];
        for (position, row) in attended.iter_mut().enumerate() {
            let first = span.window.map_or(0, |window| (position + 1).saturating_sub(window));
            for (head, out) in row.chunks_mut(width).enumerate() {
                let query = &query[position][head * width..][..width];
                let part = |rows: &Rows, at: usize| rows[at][head / shared * width..][..width].to_vec();
                let score = |at| {
                    let score = dot(query, &part(&key, at)) * f64::from(config.attention_scale);
                    capped(score, config.attention_softcap)
                };
                let scores: Vec<f64> = (first..=position).map(score).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|score| (score - most).exp()).sum();
                for (at, score) in (first..).zip(&scores) {
                    let share = (score - most).exp() / total;
                    out.iter_mut().zip(part(&value, at)).for_each(|(out, value)| *out += share * value);
                }
            }
        }
        self.product(&tensors.output, tensors.output_bias.as_ref(), &attended)
    }

    /// Heads through their norm and turned by their positions.
    fn rotated(&mut self, rope: usize, norm: Option<&Needed>, rows: Rows) -> Rows {
        let width = self.config.head_dim;
        let rope = &self.config.ropes[rope];
        let (frequencies, magnitude) = (rope.frequencies(width), f64::from(rope.magnitude()));
        let turned = |(position, row): (usize, Vec<f64>)| {
            let heads = self.norm(norm, row.chunks(width).map(<[f64]>::to_vec).collect());
            let turn = |head: &Vec<f64>| {
                let (first, second) = head.split_at(width / 2);
                let angle = |i: usize| f64::from(position as f32 * frequencies[i]);
                let part = |i: usize, a: f64, b: f64| magnitude * (a * angle(i).cos() + b * angle(i).sin());
                let front = (0..width / 2).map(|i| part(i, first[i], -second[i]));
                front.chain((0..width / 2).map(|i| part(i, second[i], first[i]))).collect::<Vec<f64>>()
            };
            heads.iter().flat_map(turn).collect()
        };
        rows.into_iter().enumerate().map(turned).collect()
    }

    fn feed_forward(&mut self, tensors: &LayerTensors, x: &Rows) -> Rows {
        let h = self.norm(Some(&tensors.feed_forward_norm), x.clone());
        let mut gated = self.product(&tensors.gate, None, &h);
        let up = self.product(&tensors.up, None, &h);
        for (gate, up) in gated.iter_mut().flatten().zip(up.iter().flatten()) {
            *gate = up
                * match self.config.activation {
                    Activation::Silu => *gate / (1.0 + (-*gate).exp()),
                    Activation::GeluTanh => {
                        let inner = (2.0 / std::f64::consts::PI).sqrt() * (*gate + 0.044_715 * gate.powi(3));
                        *gate / 2.0 * (1.0 + inner.tanh())
                    }
                };
        }
        self.product(&tensors.down, None, &gated)
    }

    fn norm(&mut self, weight: Option<&Needed>, mut rows: Rows) -> Rows {
        let Some(weight) = weight else { return rows };
        let (eps, offset) = (self.config.norm_eps, f64::from(self.config.norm_offset));
        let weight = self.weights(weight);
        for row in &mut rows {
            let scale = (dot(row, row) / row.len() as f64 + eps).powf(-0.5);
            row.iter_mut().zip(weight).for_each(|(x, weight)| *x *= scale * (weight + offset));
        }
        rows
    }

    fn product(&mut self, matrix: &Needed, bias: Option<&Needed>, rows: &Rows) -> Rows {
        let bias = bias.map_or_else(|| vec![0.0; matrix.shape[0]], |bias| self.weights(bias).to_vec());
        let weights = self.weights(matrix);
        let outputs = |row: &Vec<f64>| {
            let outputs = weights.chunks(matrix.shape[1]).zip(&bias);
            outputs.map(|(weights, bias)| dot(weights, row) + bias).collect()
        };
        rows.iter().map(outputs).collect()
    }

    fn weights(&mut self, needed: &Needed) -> &[f64] {
        self.kept.entry(needed.name.clone()).or_insert_with(|| {
            let weights = (self.read)(needed).expect("the checkpoint has the tensor");
            weights.into_iter().map(f64::from).collect()
        })
    }
}

fn add(x: &mut Rows, more: &Rows) {
    x.iter_mut().flatten().zip(more.iter().flatten()).for_each(|(x, more)| *x += more);
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn capped(x: f64, cap: Option<f32>) -> f64 {
    cap.map(f64::from).map_or(x, |cap| cap * (x / cap).tanh())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::ModelFiles;
    use crate::checkpoint::Checkpoint;
    use crate::config::Scaling;

    /// The largest difference of a logit from those of a golden file, for a config that is changed first.
    fn largest_error(directory: &str, change: fn(&mut Config)) -> f64 {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(directory);
        let files = ModelFiles::Directory(directory.clone());
        let mut checkpoint = Checkpoint::open(&files).unwrap();
        let mut config = Config::read(&files, &mut checkpoint).unwrap();
        change(&mut config);
        let layout = checkpoint.layout();
        let mut read = |needed: &Needed| Ok(checkpoint.read(needed)?.floats());
        let mut oracle = Oracle::new(&config, layout, &mut read);
        let golden = std::fs::read(directory.join("golden.json")).unwrap();
        let golden: Value = serde_json::from_slice(&golden).unwrap();
        let floats = |value: &Value| {
            value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<f64>>()
        };
        let mut error = 0.0f64;
        for run in golden["models"].as_object().unwrap().values().flat_map(|runs| runs.as_array().unwrap()) {
            let tokens: Vec<u32> = floats(&run["tokens"]).iter().map(|&token| token as u32).collect();
            let logits = oracle.logits(&tokens);
            for (ours, theirs) in logits.iter().zip(floats(&run["best_logits"])) {
                let best = ours.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                error = error.max((best - theirs).abs());
            }
            for (ours, theirs) in logits.last().unwrap().iter().zip(floats(&run["last_logits"])) {
                error = error.max((ours - theirs).abs());
            }
        }
        error
    }

    #[test]
    fn the_oracle_gives_the_logits_of_the_reference() {
        for family in ["llama3", "mistral", "qwen2", "qwen3", "gemma2", "gemma3"] {
            let error = largest_error(&format!("families/{family}"), |_| ());
            assert!(error < 2e-5, "{family}: {error}");
        }
        for other in ["random/f32", "gguf/llama", "gguf/qwen2", "gguf/gemma3"] {
            let error = largest_error(other, |_| ());
            assert!(error < 2e-5, "{other}: {error}");
        }
    }

    #[test]
    fn every_difference_between_architectures_shows_in_a_golden_file() {
        type Change = (&'static str, fn(&mut Config));
        let changes: [Change; 15] = [
            ("llama3", |config| config.ropes[0].scaling = Scaling::None),
            ("llama3", |config| config.output_bias = false),
            ("mistral", |config| config.attention[1].window = Some(10)),
            ("mistral", |config| config.attention[0].window = None),
            ("qwen2", |config| config.attention[0].window = Some(7)),
            ("qwen2", |config| config.qkv_bias = false),
            ("qwen3", |config| config.ropes[0].scaling = Scaling::Linear { factor: 4.0 }),
            ("qwen3", |config| config.qk_norm = false),
            ("gemma2", |config| config.attention_softcap = None),
            ("gemma2", |config| config.logit_softcap = Some(30.0)),
            ("gemma3", |config| config.ropes.swap(0, 1)),
            ("gemma3", |config| config.norm_offset = 0.0),
            ("gemma3", |config| config.activation = Activation::Silu),
            ("gemma3", |config| config.embedding_scale = 1.0),
            ("gemma3", |config| config.attention_scale = (8.0f32).powf(-0.5)),
        ];
        for (index, (family, change)) in changes.into_iter().enumerate() {
            let error = largest_error(&format!("families/{family}"), change);
            assert!(error > 1e-2, "change {index}, of {family}, makes a difference of {error} only");
        }
    }
}
