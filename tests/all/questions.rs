//! Questions that the embedded pair was trained to answer.

use serde_json::{Value, json};

/// The `ix`th question of a set that the models have not seen.
pub(crate) fn question(ix: usize) -> String {
    let mix = tinypair::problems::Mix::DEFAULT;
    let problems = tinypair::problems::held_out(mix, 4242, ix + 1);
    problems[ix].question.clone()
}

/// A chat request that asks it.
pub(crate) fn chat(model: &str, ix: usize, temperature: f64) -> Value {
    json!({
        "model": model,
        "messages": [{"role": "user", "content": question(ix)}],
        "temperature": temperature,
        "max_tokens": 200,
    })
}
