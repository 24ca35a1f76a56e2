//! What one does without this server: two ordinary servers, and a dispatcher that asks for one token at a time.
//!
//! Every token is a request with the whole text so far, as token ids; the servers find its KV in their prefix caches. The
//! dispatcher sees what such a server tells of a token, the log-probabilities of the best few, and routes by the entropy
//! of those. Here both servers are this one, under the models' own names; connections are kept open.

use std::net::SocketAddr;
use std::time::Instant;

use serde::Deserialize;
use serde_json::json;

use super::RoutingError;
use super::connection::Connection;

/// One client's dispatcher.
pub(super) struct Dispatcher {
    pub(super) address: SocketAddr,
    /// The small and the large model.
    pub(super) models: Vec<String>,
    pub(super) eos: Vec<u32>,
    /// Most tokens of an answer.
    pub(super) tokens: usize,
    /// Most entropy, in nats, at which the small model's token is kept.
    pub(super) threshold: f64,
    /// To the small and to the large model, once they are needed.
    pub(super) connections: Vec<Connection>,
}

impl Dispatcher {
    /// Writes an answer token by token; notes when each came.
    pub(super) async fn answer(
        &mut self,
        prompt: &[u32],
        came: &mut Vec<Instant>,
    ) -> Result<(), RoutingError> {
        let mut text = prompt.to_vec();
        for _ in 0..self.tokens {
            let mut next = self.next(SMALL, &text).await?;
            if next.entropy() > self.threshold {
                next = self.next(LARGE, &text).await?;
            }
            came.push(Instant::now());
            text.push(next.token);
            if self.eos.contains(&next.token) {
                break;
            }
        }
        Ok(())
    }

    async fn next(&mut self, model: usize, text: &[u32]) -> Result<Next, RoutingError> {
        while self.connections.len() <= model {
            self.connections.push(Connection::open(self.address).await?);
        }
        let body = json!({
            "model": self.models[model], "prompt": text, "max_tokens": 1, "temperature": 0, "logprobs": SEEN,
            "return_token_ids": true,
        });
        let bytes = self.connections[model].ask("/v1/completions", &body).await?;
        Next::read(&bytes).ok_or_else(|| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            RoutingError::Answer { status: 200, text }
        })
    }
}

/// A token as a server tells it.
struct Next {
    token: u32,
    /// Log-probabilities of the best tokens.
    best: Vec<f64>,
}

impl Next {
    fn read(bytes: &[u8]) -> Option<Self> {
        let answer: Answer = serde_json::from_slice(bytes).ok()?;
        let choice = answer.choices.into_iter().next()?;
        let best = choice.logprobs.top_logprobs.into_iter().next()?;
        Some(Self { token: *choice.token_ids.first()?, best: best.into_values().collect() })
    }

    /// Of the best tokens, in nats; what the others would add is not told.
    fn entropy(&self) -> f64 {
        self.best.iter().map(|logprob| -logprob * logprob.exp()).sum()
    }
}

#[derive(Deserialize)]
struct Answer {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    token_ids: Vec<u32>,
    logprobs: Logprobs,
}

#[derive(Deserialize)]
struct Logprobs {
    top_logprobs: Vec<std::collections::BTreeMap<String, f64>>,
}

const SMALL: usize = 0;
const LARGE: usize = 1;

/// How many of the best tokens a dispatcher sees; as many as OpenAI tells of a completion.
const SEEN: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_and_its_entropy_is_that_of_the_best() {
        let text = r#"{"choices": [{"token_ids": [7], "logprobs": {"top_logprobs": [{"a": -0.6931472, "b": -0.6931472}]}}]}"#;
        let next = Next::read(text.as_bytes()).expect("an answer");
        assert_eq!(next.token, 7);
        assert!((next.entropy() - std::f64::consts::LN_2).abs() < 1e-6);
        assert!(Next::read(b"{}").is_none());
    }
}
