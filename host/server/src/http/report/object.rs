//! OpenAI's objects for answers and their chunks.

use journey::FinishReason;
use serde_json::{Value, json};

use super::{Piece, Report, logprobs};
use crate::http::parse::Dialect;

/// What all objects of one answer have in common.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) dialect: Dialect,
    pub(super) id: u64,
    /// Seconds since 1970.
    pub(super) created: u64,
    /// The model as the client named it.
    pub(super) model: String,
    /// Digest of the policy's revision, if there is a policy.
    pub(super) fingerprint: Option<String>,
}

/// Whether an object is all of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    Chunk,
}

impl Head {
    /// An object with these choices.
    fn object(&self, extent: Extent, choices: Value) -> Value {
        let kind = match (self.dialect, extent) {
            (Dialect::Chat, Extent::Whole) => "chat.completion",
            (Dialect::Chat, Extent::Chunk) => "chat.completion.chunk",
            (Dialect::Text, _) => "text_completion",
        };
        let mut object = json!({
            "id": self.dialect.answer_id(self.id),
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        });
        object["choices"] = choices;
        object
    }
}

impl Report {
    /// The object of a whole answer.
    pub(super) fn whole(&mut self, piece: Piece, reason: FinishReason) -> Value {
        let usage = self.usage();
        let mut object = self.with_piece(Extent::Whole, piece, Some(reason));
        object["usage"] = usage;
        object
    }

    /// The chunk that opens a stream, if the dialect has one or the client waits for the prompt's ids.
    pub(super) fn opening(&mut self) -> Option<Value> {
        let wanted = self.head.dialect == Dialect::Chat || self.prompt_ids.is_some();
        wanted.then(|| {
            let mut chunk = self.chunk(Piece::default(), None);
            if self.head.dialect == Dialect::Chat {
                chunk["choices"][0]["delta"] = json!({"role": "assistant", "content": ""});
            }
            chunk
        })
    }

    /// A chunk of a stream.
    pub(super) fn chunk(&mut self, piece: Piece, reason: Option<FinishReason>) -> Value {
        let mut object = self.with_piece(Extent::Chunk, piece, reason);
        if self.shape.include_usage {
            object["usage"] = Value::Null;
        }
        object
    }

    /// The last chunk of a stream, if the client wants tokens counted.
    pub(super) fn usage_chunk(&self) -> Option<Value> {
        self.shape.include_usage.then(|| {
            let mut object = self.head.object(Extent::Chunk, json!([]));
            object["usage"] = self.usage();
            object
        })
    }

    fn with_piece(&mut self, extent: Extent, piece: Piece, reason: Option<FinishReason>) -> Value {
        let logprobs = (self.shape.logprobs.is_some()
            && (extent == Extent::Whole || !piece.logprobs.is_empty()))
        .then(|| logprobs::object(self.head.dialect, &piece.logprobs));
        let mut choice = json!({
            "index": 0,
            "finish_reason": reason.map(self::reason),
            "logprobs": logprobs,
        });
        let (key, value) = content(self.head.dialect, extent, piece.text);
        choice[key] = value;
        if self.shape.token_ids {
            choice["token_ids"] = piece.token_ids.into();
        }
        let mut object = self.head.object(extent, json!([choice]));
        if let Some(ids) = self.prompt_ids.take() {
            object["prompt_token_ids"] = ids.into();
        }
        if let Some(trace) = &self.trace {
            object["route_trace"] = trace.object(piece.trace);
        }
        object
    }
}

/// Where a choice holds its text.
fn content(dialect: Dialect, extent: Extent, text: String) -> (&'static str, Value) {
    match (dialect, extent) {
        (Dialect::Text, _) => ("text", text.into()),
        (Dialect::Chat, Extent::Whole) => {
            ("message", json!({"role": "assistant", "content": text, "refusal": null}))
        }
        (Dialect::Chat, Extent::Chunk) if text.is_empty() => ("delta", json!({})),
        (Dialect::Chat, Extent::Chunk) => ("delta", json!({ "content": text })),
    }
}

pub(super) fn reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
    }
}
