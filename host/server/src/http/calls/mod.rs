//! Calls of tools in an answer's text.
//!
//! A [`Calls`] reads the text as it becomes visible and says what of it is content, which call begins and how its arguments
//! go on. A stream and a whole answer hear the same, so arguments in pieces, joined, are the arguments in one. What is
//! not a call in the end is text.

mod json;

use engine::CallForm;
use grammar::calls::{CLOSE, OPEN};
use serde_json::{Value, json};

use super::constrain::Reading;
use json::{Arguments, Head, head};

/// Reads one answer.
#[derive(Debug)]
pub(super) struct Calls {
    form: CallForm,
    only_calls: bool,
    /// Number of the answer, for ids.
    answer: u64,
    /// Calls so far.
    count: usize,
    state: State,
    /// Text that nothing was said of yet.
    rest: String,
}

/// Something that was said.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    /// Content.
    Text(String),
    /// A call of the function with this name.
    Call { index: usize, id: String, name: String },
    /// More of its arguments.
    Arguments { index: usize, text: String },
}

#[derive(Debug)]
enum State {
    /// Nothing but blanks has come.
    Start,
    /// Content, in which calls may be opened.
    Text,
    /// A call was opened; its name is to come.
    Head,
    /// A call whose name is not where it is looked for; it is read when it is whole.
    Odd,
    /// Within arguments.
    Arguments(Arguments),
    /// After them.
    After,
}

impl Calls {
    pub(super) fn new(reading: Reading, answer: u64) -> Self {
        let Reading { form, only_calls } = reading;
        let state = if only_calls && form != CallForm::Tagged { State::Head } else { State::Start };
        Self { form, only_calls, answer, count: 0, state, rest: String::new() }
    }

    /// Whether something was called.
    pub(super) fn any(&self) -> bool {
        self.count > 0
    }

    /// Takes a token, and the text that became visible with it.
    pub(super) fn push(&mut self, token: u32, text: &str) -> Vec<Said> {
        let mut said = Vec::new();
        if self.form == CallForm::List(token) && matches!(self.state, State::Start | State::Text) {
            self.give_up_rest(&mut said);
            self.state = State::Head;
        }
        self.rest.push_str(text);
        while self.advance(&mut said) {}
        said
    }

    /// The answer has ended.
    pub(super) fn finish(&mut self) -> Vec<Said> {
        let mut said = Vec::new();
        match self.state {
            // The beginning of what opens a call is no text where nothing else was asked for.
            State::Start | State::Text if self.only_calls => {}
            State::Start | State::Text => self.give_up_rest(&mut said),
            State::Odd | State::Head => self.read_whole(&mut said),
            State::Arguments(_) | State::After => {}
        }
        self.rest.clear();
        said
    }

    /// One step; `false` when more text must come.
    fn advance(&mut self, said: &mut Vec<Said>) -> bool {
        match &mut self.state {
            State::Start => {
                if self.rest.trim_start().is_empty() {
                    return false;
                }
                let is_object = self.form == CallForm::Object && self.rest.trim_start().starts_with('{');
                self.state = if is_object { State::Head } else { State::Text };
                true
            }
            State::Text => self.text(said),
            State::Head => match head(&self.rest, self.form) {
                Head::More => false,
                Head::Odd => {
                    self.state = State::Odd;
                    true
                }
                Head::Found { name, end } => {
                    self.rest.drain(..end);
                    self.begin(name, said);
                    self.state = State::Arguments(Arguments::default());
                    true
                }
            },
            State::Odd => {
                let Some(at) = self.rest.find(CLOSE).filter(|_| self.form == CallForm::Tagged) else {
                    return false;
                };
                let behind = self.rest.split_off(at + CLOSE.len());
                self.rest.truncate(at);
                self.read_whole(said);
                self.rest = behind;
                self.state = State::Text;
                true
            }
            State::Arguments(arguments) => {
                let (taken, is_whole) = arguments.take(&self.rest);
                let text: String = self.rest.drain(..taken).collect();
                if !text.is_empty() {
                    said.push(Said::Arguments { index: self.count - 1, text });
                }
                if is_whole {
                    self.state = State::After;
                }
                is_whole
            }
            State::After => self.after(),
        }
    }

    /// Content up to where a call is opened. What may be the beginning of that, and blanks, wait.
    fn text(&mut self, said: &mut Vec<Said>) -> bool {
        let opens = self.form == CallForm::Tagged;
        if let Some(at) = self.rest.find(OPEN).filter(|_| opens) {
            let content = self.rest[..at].trim_end().to_owned();
            self.rest.drain(..at + OPEN.len());
            self.say(content, said);
            self.state = State::Head;
            return true;
        }
        let begun =
            (1..OPEN.len()).rev().find(|&len| opens && self.rest.ends_with(&OPEN[..len])).unwrap_or(0);
        let shown = self.rest[..self.rest.len() - begun].trim_end().len();
        let content: String = self.rest.drain(..shown).collect();
        self.say(content, said);
        false
    }

    /// Skips what closes a call; whether another state follows.
    fn after(&mut self) -> bool {
        match self.form {
            CallForm::Tagged => {
                let Some(at) = self.rest.find(CLOSE) else { return false };
                self.rest.drain(..at + CLOSE.len());
                self.state = State::Text;
                true
            }
            CallForm::List(_) => {
                let Some(at) = self.rest.find([',', ']']) else { return false };
                let closes = self.rest.as_bytes()[at] == b']';
                self.rest.drain(..=at);
                self.state = if closes { State::Text } else { State::Head };
                true
            }
            CallForm::Object | CallForm::Unknown => {
                self.rest.clear();
                false
            }
        }
    }

    /// A call, or several in a list, that is all there in some other order.
    fn read_whole(&mut self, said: &mut Vec<Said>) {
        let text = std::mem::take(&mut self.rest);
        let calls = match serde_json::from_str::<Value>(text.trim()) {
            Ok(Value::Array(list)) if !list.is_empty() => list,
            Ok(one) => vec![one],
            Err(_) => Vec::new(),
        };
        let named = |call: &Value| {
            let arguments = call.get("arguments").or_else(|| call.get("parameters"))?;
            Some((call.get("name")?.as_str()?.to_owned(), arguments.clone()))
        };
        let read: Option<Vec<(String, Value)>> = calls.iter().map(named).collect();
        let Some(read) = read.filter(|read| !read.is_empty()) else {
            // The beginning of a call that was cut off is of no use to anybody where nothing else was asked for.
            if !self.only_calls {
                let opening = if self.form == CallForm::Tagged { OPEN } else { "" };
                self.say(format!("{opening}{text}"), said);
            }
            return;
        };
        for (name, arguments) in read {
            self.begin(name, said);
            let text = if let Value::String(text) = arguments { text } else { arguments.to_string() };
            said.push(Said::Arguments { index: self.count - 1, text });
        }
    }

    fn begin(&mut self, name: String, said: &mut Vec<Said>) {
        let (index, id) = (self.count, self.id());
        said.push(Said::Call { index, id, name });
        self.count += 1;
    }

    /// Mistral's templates take nine letters and digits and nothing else.
    fn id(&self) -> String {
        let number = self.answer.wrapping_add((self.count as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        match self.form {
            CallForm::List(_) => format!("{:09x}", number & 0xF_FFFF_FFFF),
            _ => format!("call_{number:016x}"),
        }
    }

    fn say(&self, content: String, said: &mut Vec<Said>) {
        // Between calls there are only blanks.
        let is_blank = self.count > 0 && content.trim().is_empty();
        if !content.is_empty() && !is_blank {
            said.push(Said::Text(content));
        }
    }

    fn give_up_rest(&mut self, said: &mut Vec<Said>) {
        let rest = std::mem::take(&mut self.rest);
        self.say(rest, said);
    }
}

/// `tool_calls` of a whole message.
pub(super) fn whole(said: &[Said]) -> Vec<Value> {
    let mut calls: Vec<(String, String, String)> = Vec::new();
    for part in said {
        match part {
            Said::Text(_) => {}
            Said::Call { id, name, .. } => calls.push((id.clone(), name.clone(), String::new())),
            Said::Arguments { index, text } => calls[*index].2.push_str(text),
        }
    }
    let call = |(id, name, arguments)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    calls.into_iter().map(call).collect()
}

/// `tool_calls` of a chunk.
pub(super) fn deltas(said: &[Said]) -> Vec<Value> {
    let delta = |part: &Said| match part {
        Said::Text(_) => None,
        Said::Call { index, id, name } => Some(json!({"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": ""}})),
        Said::Arguments { index, text } => Some(json!({"index": index, "function": {"arguments": text}})),
    };
    said.iter().filter_map(delta).collect()
}

#[cfg(test)]
mod tests;
