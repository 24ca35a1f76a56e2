//! The messages of a chat: text only, each with a role that the template can be given.

use engine::ChatMessage;
use serde_json::Value;

use super::fields::{Fields, shown, text, wrong_type, wrong_value};
use crate::http::error::{ApiError, Fault};

/// Takes `messages`.
pub(super) fn take(fields: &mut Fields) -> Result<Vec<ChatMessage>, ApiError> {
    let list = match fields.take("messages") {
        None => return Err(fields.missing("messages", WANTED)),
        Some(Value::Array(list)) if !list.is_empty() => list,
        Some(empty @ Value::Array(_)) => return Err(wrong_value("messages", WANTED, &empty)),
        Some(other) => return Err(wrong_type("messages", WANTED, &other)),
    };
    list.into_iter().enumerate().map(|(ix, value)| message(value, &format!("messages[{ix}]"))).collect()
}

fn message(value: Value, path: &str) -> Result<ChatMessage, ApiError> {
    let mut fields = Fields::of(value, path)?;
    let Some(role) = fields.string("role")? else { return Err(fields.missing("role", ROLES)) };
    let role = match role.as_str() {
        "system" | "user" | "assistant" | "tool" => role,
        // OpenAI's newer word for what templates call the system.
        "developer" => "system".to_owned(),
        _ => return Err(wrong_value(&fields.path("role"), ROLES, &Value::String(role))),
    };
    let content_path = fields.path("content");
    let content = match fields.take("content") {
        None => return Err(fields.missing("content", CONTENT)),
        Some(Value::String(content)) => content,
        Some(Value::Array(parts)) if !parts.is_empty() => join(parts, &content_path)?,
        Some(other) => return Err(wrong_type(&content_path, CONTENT, &other)),
    };
    if role == "tool" {
        // Says which call is answered; the text of the answer is all that a template is given.
        fields.string("tool_call_id")?;
    }
    refuse_beside_text(&mut fields)?;
    fields.finish()?;
    Ok(ChatMessage { role, content })
}

fn join(parts: Vec<Value>, path: &str) -> Result<String, ApiError> {
    parts.into_iter().enumerate().map(|(ix, value)| part(value, &format!("{path}[{ix}]"))).collect()
}

fn part(value: Value, path: &str) -> Result<String, ApiError> {
    let mut fields = Fields::of(value, path)?;
    let Some(kind) = fields.string("type")? else { return Err(fields.missing("type", "\"text\"")) };
    if kind != "text" {
        let path = fields.path("type");
        let message =
            format!("{path:?} must be \"text\"; parts of type {} are not supported", shown(&kind.into()));
        return Err(ApiError::field(Fault::Unsupported, path, message));
    }
    let text_path = fields.path("text");
    let Some(value) = fields.take("text") else { return Err(fields.missing("text", "a string")) };
    let content = text(value, &text_path)?;
    fields.finish()?;
    Ok(content)
}

/// What OpenAI's own answers carry beside their text may be sent back as long as it says nothing.
fn refuse_beside_text(fields: &mut Fields) -> Result<(), ApiError> {
    for key in ["name", "refusal", "audio", "function_call", "tool_calls", "annotations"] {
        let Some(value) = fields.take(key) else { continue };
        if value.as_array().is_none_or(|list| !list.is_empty()) {
            let path = fields.path(key);
            let message = format!("{path:?} is not supported; remove it");
            return Err(ApiError::field(Fault::Unsupported, path, message));
        }
    }
    Ok(())
}

const WANTED: &str = "a list of at least one message";
const ROLES: &str = "one of \"system\", \"developer\", \"user\", \"assistant\" and \"tool\"";
const CONTENT: &str = "a string or a list of text parts";
