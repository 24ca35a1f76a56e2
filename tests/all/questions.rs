//! Questions that the embedded pair was trained to answer.

use e2e::Server;
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

/// The answer to the `ix`th question, with its trace.
pub(crate) async fn traced(server: &Server, model: &str, ix: usize) -> Value {
    let mut body = chat(model, ix, 0.0);
    body["route_trace"] = json!(true);
    let reply = server.post("/v1/chat/completions", &body).await;
    assert_eq!(reply.status, 200, "{model}: {}", reply.text);
    reply.json()
}
