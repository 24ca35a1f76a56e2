//! `config.json` and `generation_config.json` of a Llama checkpoint.
//!
//! Everything that would change the numbers and is not implemented is refused here by its key, so that no model runs
//! with a silently wrong forward pass. Defaults are those of the reference implementation.

use serde_json::{Map, Value};

use crate::{EngineError, ModelFiles};

/// The shape of a Llama decoder, checked to be consistent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// The class of the checkpoint.
    pub(crate) architecture: String,
    /// Number of token ids.
    pub(crate) vocabulary: usize,
    /// Most positions.
    pub(crate) context: usize,
    /// Width of the residual stream.
    pub(crate) hidden: usize,
    /// Width inside the feed-forward block.
    pub(crate) intermediate: usize,
    /// Decoder layers.
    pub(crate) layers: usize,
    /// Query heads per layer.
    pub(crate) heads: usize,
    /// Key and value heads per layer.
    pub(crate) kv_heads: usize,
    /// Width of a head; even.
    pub(crate) head_dim: usize,
    /// Added to the mean square in every norm.
    pub(crate) norm_eps: f64,
    /// Base of the rotary frequencies.
    pub(crate) rope_theta: f64,
    /// Whether the head is the embedding.
    pub(crate) tied: bool,
    /// Tokens that end an answer.
    pub(crate) eos: Vec<u32>,
}

impl Config {
    /// Reads and checks the config of a checkpoint.
    pub(crate) fn read(files: &ModelFiles) -> Result<Self, EngineError> {
        let content = files.require(CONFIG, "config.json, model.safetensors and tokenizer.json")?;
        let keys = Keys::parse(CONFIG, &content)?;
        let architecture = architecture(&keys)?;
        refuse_what_is_not_implemented(&keys)?;
        let heads = keys.size("num_attention_heads", None)?;
        let hidden = keys.size("hidden_size", None)?;
        let kv_heads = keys.size("num_key_value_heads", Some(heads))?;
        if !heads.is_multiple_of(kv_heads) {
            return Err(
                keys.wrong("num_key_value_heads", format!("is {kv_heads}; it must divide {heads} heads"))
            );
        }
        let head_dim = keys.size("head_dim", Some(hidden / heads))?;
        if head_dim == 0 || !head_dim.is_multiple_of(2) {
            return Err(
                keys.wrong("head_dim", format!("is {head_dim}; rotary positions need an even number"))
            );
        }
        let vocabulary = keys.size("vocab_size", None)?;
        Ok(Self {
            architecture,
            vocabulary,
            context: keys.size("max_position_embeddings", None)?,
            hidden,
            intermediate: keys.size("intermediate_size", None)?,
            layers: keys.size("num_hidden_layers", None)?,
            heads,
            kv_heads,
            head_dim,
            norm_eps: keys.positive("rms_norm_eps", 1e-6)?,
            rope_theta: rope_theta(&keys)?,
            tied: keys.flag("tie_word_embeddings")?,
            eos: eos(files, &keys, vocabulary)?,
        })
    }
}

fn architecture(keys: &Keys) -> Result<String, EngineError> {
    let named = match keys.get("architectures") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    match named.as_slice() {
        [one] if one == "LlamaForCausalLM" => Ok(one.clone()),
        _ => Err(EngineError::Architecture { file: keys.file.to_owned(), found: named }),
    }
}

fn refuse_what_is_not_implemented(keys: &Keys) -> Result<(), EngineError> {
    for key in ["attention_bias", "mlp_bias"] {
        if keys.flag(key)? {
            return Err(keys.wrong(key, "is true; biases are not implemented".to_owned()));
        }
    }
    match keys.get("hidden_act") {
        None => {}
        Some(Value::String(act)) if act == "silu" => {}
        Some(other) => {
            return Err(keys.wrong("hidden_act", format!("is {other}; only \"silu\" is implemented")));
        }
    }
    for key in ["quantization_config", "sliding_window"] {
        if let Some(value) = keys.get(key) {
            return Err(keys.wrong(key, format!("is {value}; only null is implemented")));
        }
    }
    Ok(())
}

/// Checkpoints state the base either at the top or, written by newer tools, within `rope_parameters`.
fn rope_theta(keys: &Keys) -> Result<f64, EngineError> {
    for key in ["rope_scaling", "rope_parameters"] {
        let kind = keys.get(key).map(|value| value.get("rope_type").or_else(|| value.get("type")));
        match kind {
            None => {}
            Some(Some(Value::String(kind))) if kind == "default" => {}
            Some(Some(kind)) => {
                let problem = format!("has rope_type {kind}; only plain rotary positions are implemented");
                return Err(keys.wrong(key, problem));
            }
            Some(None) => return Err(keys.wrong(key, "has no rope_type".to_owned())),
        }
    }
    match keys.get("rope_parameters").and_then(|value| value.get("rope_theta")) {
        Some(theta) => positive(theta).ok_or_else(|| {
            keys.wrong("rope_parameters.rope_theta", format!("is {theta}; it must be a positive number"))
        }),
        None => keys.positive("rope_theta", 10_000.0),
    }
}

/// End tokens of the generation config, then those of the config that it does not name.
fn eos(files: &ModelFiles, config: &Keys, vocabulary: usize) -> Result<Vec<u32>, EngineError> {
    let mut all = match files.read(GENERATION)? {
        Some(content) => Keys::parse(GENERATION, &content)?.tokens("eos_token_id", vocabulary)?,
        None => Vec::new(),
    };
    for token in config.tokens("eos_token_id", vocabulary)? {
        if !all.contains(&token) {
            all.push(token);
        }
    }
    Ok(all)
}

/// A JSON object, with errors that name the key. A key that is null counts as absent.
struct Keys {
    file: &'static str,
    map: Map<String, Value>,
}

impl Keys {
    fn parse(file: &'static str, content: &[u8]) -> Result<Self, EngineError> {
        let map = serde_json::from_slice(content)
            .map_err(|source| EngineError::Json { file: file.to_owned(), source })?;
        Ok(Self { file, map })
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    fn wrong(&self, key: &str, problem: String) -> EngineError {
        EngineError::Config { file: self.file.to_owned(), key: key.to_owned(), problem }
    }

    /// A whole number of at least 1 and of a size that can be multiplied with others without care.
    fn size(&self, key: &str, default: Option<usize>) -> Result<usize, EngineError> {
        let Some(value) = self.get(key) else {
            return default
                .ok_or_else(|| self.wrong(key, "is missing; it must be a whole number".to_owned()));
        };
        match value.as_u64() {
            Some(size @ 1..=SIZE_MAX) => Ok(size as usize),
            _ => Err(self.wrong(key, format!("is {value}; it must be a whole number from 1 to {SIZE_MAX}"))),
        }
    }

    fn positive(&self, key: &str, default: f64) -> Result<f64, EngineError> {
        match self.get(key) {
            None => Ok(default),
            Some(value) => {
                let problem = || format!("is {value}; it must be a positive number");
                positive(value).ok_or_else(|| self.wrong(key, problem()))
            }
        }
    }

    fn flag(&self, key: &str) -> Result<bool, EngineError> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(other) => Err(self.wrong(key, format!("is {other}; it must be true or false"))),
        }
    }

    /// One token id or a list of them.
    fn tokens(&self, key: &str, vocabulary: usize) -> Result<Vec<u32>, EngineError> {
        let values = match self.get(key) {
            None => &[][..],
            Some(Value::Array(values)) => values,
            Some(one) => std::slice::from_ref(one),
        };
        let token = |value: &Value| {
            let token = value.as_u64().and_then(|token| u32::try_from(token).ok());
            token.filter(|&token| (token as usize) < vocabulary).ok_or_else(|| {
                self.wrong(key, format!("names {value}, which is no token id below {vocabulary}"))
            })
        };
        values.iter().map(token).collect()
    }
}

fn positive(value: &Value) -> Option<f64> {
    value.as_f64().filter(|number| number.is_finite() && *number > 0.0)
}

/// The config's file name.
pub(crate) const CONFIG: &str = "config.json";
const GENERATION: &str = "generation_config.json";

/// No dimension of a language model comes near it, and a product of two fits 64 bits with room.
const SIZE_MAX: u64 = 1 << 28;
