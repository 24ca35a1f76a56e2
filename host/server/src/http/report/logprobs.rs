//! Log-probabilities, aligned with the text.
//!
//! The two endpoints promise different things. A completion's `tokens`, joined, are its text, so a token stands there
//! with the text that became visible with it. A chat's tokens have their own text and bytes; they wait until their
//! text is visible, and what a stop string cut off is cut off here too, so that their bytes, joined, are the text.

use std::collections::VecDeque;

use journey::{Made, Sampled, Vocabulary};
use serde_json::{Map, Value, json};

use crate::http::parse::Dialect;

/// What is told of one token.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    token: String,
    bytes: Vec<u8>,
    /// None for a prompt's first token, which nothing is before.
    logprob: Option<f32>,
    /// The most probable tokens at this position, best first.
    top: Vec<Alternative>,
    /// Characters of the answer before this token.
    offset: usize,
}

#[derive(Clone, Debug, PartialEq)]
struct Alternative {
    bytes: Vec<u8>,
    logprob: f32,
}

/// Entries in the making.
#[derive(Debug)]
pub(super) struct Logprobs {
    dialect: Dialect,
    /// How many alternatives the client wants.
    top: usize,
    /// Entries whose text is not visible yet, with where their bytes end.
    waiting: VecDeque<(usize, Entry)>,
    /// Bytes of all tokens so far.
    made_bytes: usize,
    /// Bytes of visible text so far.
    shown_bytes: usize,
    /// Characters of visible text so far.
    shown_characters: usize,
}

impl Logprobs {
    pub(super) fn new(dialect: Dialect, top: usize) -> Self {
        let waiting = VecDeque::new();
        Self { dialect, top, waiting, made_bytes: 0, shown_bytes: 0, shown_characters: 0 }
    }

    /// Takes a committed token and gives the entries that are complete.
    pub(super) fn made(&mut self, made: &Made, vocabulary: &Vocabulary) -> Vec<Entry> {
        let entry = self.entry(made, vocabulary);
        self.shown_characters += made.text.chars().count();
        match self.dialect {
            Dialect::Text => vec![entry],
            Dialect::Chat => {
                self.made_bytes += entry.bytes.len();
                self.shown_bytes += made.text.len();
                self.waiting.push_back((self.made_bytes, entry));
                self.visible()
            }
        }
    }

    /// Takes a prompt that the answer begins with, as text by token, and the scores of its tokens from the second on.
    pub(super) fn prompt(
        &mut self,
        tokens: &[u32],
        (texts, scores): (Vec<String>, &[Sampled]),
        vocabulary: &Vocabulary,
    ) -> Vec<Entry> {
        let scores = std::iter::once(None).chain(scores.iter().map(Some));
        let entry = |((&token, text), score): ((&u32, String), Option<&Sampled>)| {
            let characters = text.chars().count();
            let entry = self.entry_of(token, text, score, vocabulary);
            self.shown_characters += characters;
            entry
        };
        tokens.iter().zip(texts).zip(scores).map(entry).collect()
    }

    /// Gives the entries that waited for text that will not come.
    pub(super) fn finish(&mut self) -> Vec<Entry> {
        let shown = self.shown_bytes;
        let cut = |(end, mut entry): (usize, Entry)| {
            let start = end - entry.bytes.len();
            entry.bytes.truncate(shown.saturating_sub(start));
            entry.token = lossy(&entry.bytes);
            entry
        };
        self.waiting.drain(..).map(cut).collect()
    }

    fn visible(&mut self) -> Vec<Entry> {
        let hidden = |&(end, _): &(usize, Entry)| end > self.shown_bytes;
        let count = self.waiting.iter().position(hidden).unwrap_or(self.waiting.len());
        self.waiting.drain(..count).map(|(_, entry)| entry).collect()
    }

    fn entry(&self, made: &Made, vocabulary: &Vocabulary) -> Entry {
        let text = made.text.clone();
        self.entry_of(made.sampled.token, text, Some(&made.sampled), vocabulary)
    }

    /// An entry of a token, whose text at this place is given, and of what a model said of it, if anything did.
    fn entry_of(&self, token: u32, text: String, said: Option<&Sampled>, vocabulary: &Vocabulary) -> Entry {
        let own = vocabulary.bytes(token);
        let alternative = |candidate: &journey::Candidate| {
            // Of the token itself it is the same number, not one that is rounded otherwise: clients compare them.
            let own = said.filter(|_| candidate.token == token).map(|said| said.logprob);
            let logprob = floor(own.unwrap_or_else(|| candidate.prob.ln()));
            Alternative { bytes: vocabulary.bytes(candidate.token).to_vec(), logprob }
        };
        let shown = match self.dialect {
            Dialect::Chat => lossy(own),
            Dialect::Text => text,
        };
        let candidates = said.into_iter().flat_map(|said| said.candidates.iter().take(self.top));
        Entry {
            token: shown,
            bytes: own.to_vec(),
            logprob: said.map(|said| floor(said.logprob)),
            top: candidates.map(alternative).collect(),
            offset: self.shown_characters,
        }
    }
}

/// The `logprobs` object of a choice.
pub(super) fn object(dialect: Dialect, entries: &[Entry]) -> Value {
    match dialect {
        Dialect::Chat => {
            json!({"content": entries.iter().map(chat_entry).collect::<Vec<Value>>(), "refusal": null})
        }
        Dialect::Text => json!({
            "tokens": entries.iter().map(|entry| entry.token.as_str()).collect::<Vec<&str>>(),
            "token_logprobs": entries.iter().map(|entry| entry.logprob).collect::<Vec<Option<f32>>>(),
            "top_logprobs": entries.iter().map(text_alternatives).collect::<Vec<Value>>(),
            "text_offset": entries.iter().map(|entry| entry.offset).collect::<Vec<usize>>(),
        }),
    }
}

fn chat_entry(entry: &Entry) -> Value {
    let alternative = |alternative: &Alternative| {
        let Alternative { bytes, logprob } = alternative;
        json!({"token": lossy(bytes), "bytes": bytes, "logprob": logprob})
    };
    json!({
        "token": entry.token,
        "bytes": entry.bytes,
        "logprob": entry.logprob,
        "top_logprobs": entry.top.iter().map(alternative).collect::<Vec<Value>>(),
    })
}

/// Alternatives by their text, the sampled token among them, as OpenAI has it. Of tokens with one text, the most
/// probable stands.
fn text_alternatives(entry: &Entry) -> Value {
    let Some(logprob) = entry.logprob else { return Value::Null };
    let mut by_text = Map::new();
    let sampled = Alternative { bytes: entry.bytes.clone(), logprob };
    for Alternative { bytes, logprob } in entry.top.iter().chain([&sampled]) {
        by_text.entry(lossy(bytes)).or_insert_with(|| Value::from(*logprob));
    }
    Value::Object(by_text)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// JSON has no infinity; this is what OpenAI says instead.
fn floor(logprob: f32) -> f32 {
    logprob.max(-9999.0)
}

#[cfg(test)]
mod tests {
    use journey::text::TextStream;
    use journey::{Candidate, Role, Sampled};

    use super::*;

    /// The entries of an answer whose tokens are these bytes.
    fn entries(dialect: Dialect, tokens: &[&[u8]], stop: &str) -> (String, Vec<Entry>) {
        let vocabulary = Vocabulary::new(tokens.iter().map(|&bytes| bytes.into()).collect());
        let mut text = TextStream::new(if stop.is_empty() { Vec::new() } else { vec![stop.to_owned()] });
        let mut logprobs = Logprobs::new(dialect, 1);
        let (mut shown, mut all) = (String::new(), Vec::new());
        for (id, bytes) in tokens.iter().enumerate() {
            let mut visible = text.push(bytes);
            if id + 1 == tokens.len() {
                visible += &text.finish();
            }
            shown += &visible;
            let token = id as u32;
            let candidates = vec![
                Candidate { token, logit: 1.0, prob: 0.5 },
                Candidate { token: 0, logit: 0.0, prob: 0.0 },
            ];
            let sampled = Sampled { token, logprob: f32::NEG_INFINITY, candidates, ..Sampled::default() };
            all.extend(
                logprobs.made(&Made { by: Role(0), sampled, text: visible, proposal: None }, &vocabulary),
            );
        }
        all.extend(logprobs.finish());
        (shown, all)
    }

    fn joined(entries: &[Entry]) -> String {
        String::from_utf8(entries.iter().flat_map(|entry| entry.bytes.clone()).collect()).unwrap()
    }

    #[test]
    fn bytes_of_chat_tokens_join_to_the_text_over_split_characters() {
        let (text, entries) = entries(Dialect::Chat, &[b"a", b"\xC3", b"\xA9", b"", b"b"], "");
        assert_eq!((joined(&entries), entries.len()), (text, 5));
        assert_eq!(entries[1].token, "\u{FFFD}");
        assert_eq!((entries[0].logprob, entries[0].top.len()), (Some(-9999.0), 1));
    }

    #[test]
    fn chat_tokens_show_nothing_of_a_stop_string() {
        let (text, entries) = entries(Dialect::Chat, &[b"ab", b"cS", b"TO", b"Px"], "STOP");
        assert_eq!(text, "abc");
        assert_eq!((joined(&entries), entries.len()), (text, 4));
        assert_eq!(entries[1].token, "c");
    }

    #[test]
    fn tokens_of_a_completion_join_to_the_text() {
        let (text, entries) = entries(Dialect::Text, &[b"\xC3", b"\xA9S", b"TOX", b"!"], "STOP");
        let joined: String = entries.iter().map(|entry| entry.token.as_str()).collect();
        assert_eq!((joined, entries.len()), (text, 4));
        assert_eq!(entries.iter().map(|entry| entry.offset).collect::<Vec<_>>(), [0, 0, 1, 5]);
        let object = object(Dialect::Text, &entries);
        // As the token's own, whatever the probability beside it is rounded to.
        assert_eq!(object["top_logprobs"][3], json!({"!": -9999.0}));
    }
}
