//! What a template can be given, found by trying.
//!
//! Templates do not say what they understand. Each is shown a few small chats when it is loaded, and what it prints of them
//! tells; so does what it refuses.

use serde_json::{Value, json};

use super::ChatTemplate;
use crate::tokenizer::Chat;

/// What a template understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::tokenizer) struct Abilities {
    /// Content as a list of parts.
    pub(in crate::tokenizer) parts: bool,
    /// A list of tools.
    pub(in crate::tokenizer) tools: bool,
    /// Arguments of calls are to be texts, not objects.
    pub(in crate::tokenizer) arguments_as_text: bool,
    /// A message of the system.
    pub(in crate::tokenizer) system: bool,
    /// Plain questions of a user.
    pub(in crate::tokenizer) user: bool,
    /// It opens the assistant's turn where one is to follow.
    pub(in crate::tokenizer) opens_turn: bool,
}

impl Abilities {
    pub(super) fn of(template: &ChatTemplate) -> Self {
        let printed = |messages: Value, tools: Value| {
            let list = |value: Value| value.as_array().cloned().unwrap_or_default();
            template.render(&Chat { messages: list(messages), tools: list(tools) }, true).unwrap_or_default()
        };
        let user = json!({"role": "user", "content": WORD});
        let plain = printed(json!([user]), json!([]));
        let in_parts =
            printed(json!([{"role": "user", "content": [{"type": "text", "text": WORD}]}]), json!([]));
        let system = printed(json!([{"role": "system", "content": OTHER}, user]), json!([]));
        let with_tools = printed(json!([user]), json!([tool()]));
        let arguments = |arguments: Value| {
            let call = json!({"id": "call00001", "type": "function", "function": {"name": "f", "arguments": arguments}});
            let answer = json!({"role": "assistant", "content": "", "tool_calls": [call]});
            let result = json!({"role": "tool", "tool_call_id": "call00001", "name": "f", "content": "1"});
            printed(json!([user, answer, result]), json!([tool()])).contains(OTHER)
        };
        let turn = Chat { messages: vec![user.clone()], tools: Vec::new() };
        let closed = template.render(&turn, false).unwrap_or_default();
        Self {
            parts: in_parts.contains(WORD) && !in_parts.contains("'type'") && !in_parts.contains("\"type\""),
            tools: with_tools.contains(OTHER),
            arguments_as_text: !arguments(json!({OTHER: 1}))
                && arguments(json!(format!("{{\"{OTHER}\": 1}}"))),
            system: system.contains(OTHER),
            user: plain.contains(WORD),
            opens_turn: plain != closed,
        }
    }

    /// What whoever runs the model should know of its template.
    pub(in crate::tokenizer) fn notes(self) -> Vec<&'static str> {
        let notes = [
            (!self.user, "the chat template does not show a user's message; is it the model's own?"),
            (!self.system, "the chat template has no place for a system message"),
            (!self.opens_turn, "the chat template does not open the assistant's turn"),
            (!self.tools, "the chat template does not show tools"),
        ];
        notes.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note).collect()
    }
}

fn tool() -> Value {
    json!({"type": "function", "function": {"name": OTHER, "description": "d",
        "parameters": {"type": "object", "properties": {"x": {"type": "string", "description": "x"}}, "required": ["x"]}}})
}

// What no template says by itself.
const WORD: &str = "probe-word";
const OTHER: &str = "probe_other";
