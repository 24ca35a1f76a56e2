//! OpenAI's objects for answers and their chunks.

use journey::FinishReason;
use serde_json::{Value, json};

use super::{Piece, Report, logprobs};
use crate::http::calls::{self, Said};
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
        });
        // OpenAI's is a string, or not there.
        if let Some(fingerprint) = &self.fingerprint {
            object["system_fingerprint"] = fingerprint.as_str().into();
        }
        object["choices"] = choices;
        object
    }
}

impl Report {
    /// The object of a whole answer, of which these are the choices.
    pub(super) fn whole(&mut self, pieces: Vec<Piece>) -> Value {
        let each = |(index, piece)| self.choice(Extent::Whole, index, piece);
        let (mut choices, mut traces) = (Vec::new(), Vec::new());
        for (choice, trace) in pieces.into_iter().enumerate().map(each) {
            choices.push(choice);
            traces.push(trace);
        }
        let mut object = self.object(Extent::Whole, (choices, traces));
        object["usage"] = self.usage();
        object
    }

    /// The chunk that opens a choice of a stream, if the dialect has one or there is something to say before its tokens.
    pub(super) fn opening(&mut self, index: usize) -> Option<Value> {
        let piece = self.begun(index);
        let chat = self.head.dialect == Dialect::Chat;
        let wanted = chat || self.choices[index].prompt_ids.is_some() || !piece.is_empty();
        wanted.then(|| {
            let mut chunk = self.chunk(index, piece);
            if chat {
                chunk["choices"][0]["delta"] = json!({"role": "assistant", "content": ""});
            }
            chunk
        })
    }

    /// A chunk of a stream, about one choice.
    pub(super) fn chunk(&mut self, index: usize, piece: Piece) -> Value {
        let (choice, trace) = self.choice(Extent::Chunk, index, piece);
        let mut object = self.object(Extent::Chunk, (vec![choice], vec![trace]));
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

    /// The object around choices. A trace stands beside the choice, and within one of several.
    fn object(&mut self, extent: Extent, (mut choices, traces): (Vec<Value>, Vec<Option<Value>>)) -> Value {
        let alone = self.choices.len() == 1;
        let mut beside = None;
        for (choice, trace) in choices.iter_mut().zip(traces) {
            match trace {
                Some(trace) if alone => beside = Some(trace),
                Some(trace) => choice["route_trace"] = trace,
                None => {}
            }
        }
        let mut object = self.head.object(extent, choices.into());
        if let Some(trace) = beside {
            object["route_trace"] = trace;
        }
        // A chat has one prompt, however many choices continue it.
        if self.head.dialect == Dialect::Chat
            && let Some(ids) = self.choices[0].prompt_ids.take()
        {
            object["prompt_token_ids"] = ids.into();
        }
        object
    }

    /// The object of a choice, and its trace.
    fn choice(&mut self, extent: Extent, index: usize, piece: Piece) -> (Value, Option<Value>) {
        let (dialect, state) = (self.head.dialect, &mut self.choices[index]);
        let logprobs = (self.shape.logprobs.is_some()
            && (extent == Extent::Whole || !piece.logprobs.is_empty()))
        .then(|| logprobs::object(dialect, &piece.logprobs));
        let mut choice = json!({
            "index": index,
            "finish_reason": state.told_reason(),
            "logprobs": logprobs,
        });
        let (key, value) = match &state.calls {
            Some(_) => said(extent, &piece.said),
            None => content(dialect, extent, piece.text),
        };
        choice[key] = value;
        if self.shape.token_ids {
            choice["token_ids"] = piece.token_ids.into();
        }
        let ids = if dialect == Dialect::Text { state.prompt_ids.take() } else { None };
        if let Some(ids) = ids {
            choice["prompt_token_ids"] = ids.into();
        }
        (choice, state.traced(piece.trace))
    }
}

/// The same of an answer in which tools may be called.
fn said(extent: Extent, said: &[Said]) -> (&'static str, Value) {
    let text = |part: &Said| if let Said::Text(text) = part { Some(text.clone()) } else { None };
    let content: String = said.iter().filter_map(text).collect();
    let content = (!content.is_empty()).then_some(content);
    let (key, mut object, calls) = match extent {
        Extent::Whole => {
            let message =
                json!({"role": "assistant", "content": content, "refusal": null, "annotations": []});
            ("message", message, calls::whole(said))
        }
        Extent::Chunk => {
            let delta = content.map_or_else(|| json!({}), |content| json!({ "content": content }));
            ("delta", delta, calls::deltas(said))
        }
    };
    if !calls.is_empty() {
        object["tool_calls"] = calls.into();
    }
    (key, object)
}

/// Where a choice holds its text.
fn content(dialect: Dialect, extent: Extent, text: String) -> (&'static str, Value) {
    match (dialect, extent) {
        (Dialect::Text, _) => ("text", text.into()),
        (Dialect::Chat, Extent::Whole) => {
            ("message", json!({"role": "assistant", "content": text, "refusal": null, "annotations": []}))
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
