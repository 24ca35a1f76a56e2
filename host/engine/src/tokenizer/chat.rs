//! A chat as a template is given it.

use serde_json::{Map, Value, json};

use super::ChatMessage;
use super::template::Abilities;

/// Messages and tools as the JSON objects of OpenAI's API.
///
/// A message has `role` and `content`, a text or a list of parts `{"type": "text", "text": ...}`, and what else there is to
/// say: `tool_calls`, whose `arguments` are objects here, `tool_call_id`, `name`. No text of it is ever parsed as special
/// tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chat {
    /// In the order in which they were said.
    pub messages: Vec<Value>,
    /// `{"type": "function", "function": {"name", "description", "parameters"}}` each.
    pub tools: Vec<Value>,
}

impl Chat {
    /// Plain messages, and no tools.
    #[must_use]
    pub fn of(messages: &[ChatMessage]) -> Self {
        let message = |ChatMessage { role, content }: &ChatMessage| json!({"role": role, "content": content});
        Self { messages: messages.iter().map(message).collect(), tools: Vec::new() }
    }

    /// The same in the shape that a template can read, with every text changed by `mark`.
    pub(super) fn fit(&self, abilities: Abilities, mark: &dyn Fn(&str) -> String) -> Self {
        let message = |message: &Value| {
            let mut message = marked(message, mark);
            if let Value::Object(fields) = &mut message {
                fit_content(fields, abilities);
                fit_calls(fields, abilities);
            }
            message
        };
        Self {
            messages: self.messages.iter().map(message).collect(),
            tools: self.tools.iter().map(|tool| marked(tool, mark)).collect(),
        }
    }
}

/// A template that knows text only is given the parts' text, one after the other.
fn fit_content(message: &mut Map<String, Value>, abilities: Abilities) {
    let Some(content) = message.get_mut("content") else { return };
    match content {
        Value::Array(parts) if !abilities.parts => {
            let text: String = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            *content = text.into();
        }
        Value::Null => *content = "".into(),
        _ => {}
    }
}

/// Some templates print arguments as they are given, and take a text only.
fn fit_calls(message: &mut Map<String, Value>, abilities: Abilities) {
    if !abilities.arguments_as_text {
        return;
    }
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten();
    for call in calls {
        if let Some(arguments) = call.pointer_mut("/function/arguments") {
            *arguments = super::template::python::dumps(arguments).into();
        }
    }
}

fn marked(value: &Value, mark: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => mark(text).into(),
        Value::Array(list) => list.iter().map(|value| marked(value, mark)).collect(),
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| (mark(key), marked(value, mark));
            Value::Object(fields.iter().map(field).collect())
        }
        other => other.clone(),
    }
}
