//! The messages of a chat: text, calls of tools and what they gave, each with a role that the template can be given.

use engine::Chat;
use serde_json::{Map, Value, json};

use super::fields::{Fields, shown, text, wrong_type, wrong_value};
use crate::http::error::{ApiError, Fault};

/// Takes `messages`.
pub(super) fn take(fields: &mut Fields) -> Result<Chat, ApiError> {
    let list = match fields.take("messages") {
        None => return Err(fields.missing("messages", WANTED)),
        Some(Value::Array(list)) if !list.is_empty() => list,
        Some(empty @ Value::Array(_)) => return Err(wrong_value("messages", WANTED, &empty)),
        Some(other) => return Err(wrong_type("messages", WANTED, &other)),
    };
    let messages = list.into_iter().enumerate().map(|(ix, value)| message(value, &format!("messages[{ix}]")));
    Ok(Chat { messages: messages.collect::<Result<_, _>>()?, tools: Vec::new() })
}

fn message(value: Value, path: &str) -> Result<Value, ApiError> {
    let mut fields = Fields::of(value, path)?;
    let Some(role) = fields.string("role")? else { return Err(fields.missing("role", ROLES)) };
    let role = match role.as_str() {
        "system" | "user" | "assistant" | "tool" => role,
        // OpenAI's newer word for what templates call the system.
        "developer" => "system".to_owned(),
        _ => return Err(wrong_value(&fields.path("role"), ROLES, &Value::String(role))),
    };
    let calls = if role == "assistant" { calls(&mut fields)? } else { Vec::new() };
    let content_path = fields.path("content");
    let content = match fields.take("content") {
        None if !calls.is_empty() => Value::from(""),
        None => return Err(fields.missing("content", CONTENT)),
        Some(content @ Value::String(_)) => content,
        Some(Value::Array(parts)) if !parts.is_empty() => checked(parts, &content_path)?,
        Some(other) => return Err(wrong_type(&content_path, CONTENT, &other)),
    };
    let mut message = Map::new();
    message.insert("role".to_owned(), role.as_str().into());
    message.insert("content".to_owned(), content);
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    }
    if role == "tool"
        && let Some(id) = fields.string("tool_call_id")?
    {
        message.insert("tool_call_id".to_owned(), id.into());
    }
    refuse_beside_text(&mut fields)?;
    fields.finish()?;
    Ok(Value::Object(message))
}

/// What the assistant called, with arguments as objects.
fn calls(fields: &mut Fields) -> Result<Vec<Value>, ApiError> {
    let path = fields.path("tool_calls");
    match fields.take("tool_calls") {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => {
            list.into_iter().enumerate().map(|(ix, value)| call(value, &format!("{path}[{ix}]"))).collect()
        }
        Some(other) => Err(wrong_type(&path, "a list of calls", &other)),
    }
}

fn call(value: Value, path: &str) -> Result<Value, ApiError> {
    let mut fields = Fields::of(value, path)?;
    let Some(id) = fields.string("id")? else { return Err(fields.missing("id", "the id of the call")) };
    let kind = fields.string("type")?.unwrap_or_else(|| "function".to_owned());
    if kind != "function" {
        return Err(wrong_value(&fields.path("type"), "\"function\"", &kind.into()));
    }
    // Of the chunks of a stream; those who put them together often leave it there.
    fields.integer("index", 0..=i64::MAX)?;
    let Some(value) = fields.take("function") else {
        return Err(fields.missing("function", "an object with \"name\" and \"arguments\""));
    };
    let mut function = Fields::of(value, &fields.path("function"))?;
    fields.finish()?;
    let Some(name) = function.string("name")? else { return Err(function.missing("name", "a name")) };
    let Some(arguments) = function.string("arguments")? else {
        return Err(function.missing("arguments", ARGUMENTS));
    };
    let arguments_path = function.path("arguments");
    function.finish()?;
    let parsed = if arguments.is_empty() { Ok(json!({})) } else { serde_json::from_str(&arguments) };
    let Ok(arguments @ Value::Object(_)) = parsed else {
        return Err(wrong_value(&arguments_path, ARGUMENTS, &arguments.into()));
    };
    Ok(json!({"id": id, "type": kind, "function": {"name": name, "arguments": arguments}}))
}

fn checked(parts: Vec<Value>, path: &str) -> Result<Value, ApiError> {
    parts.into_iter().enumerate().map(|(ix, value)| part(value, &format!("{path}[{ix}]"))).collect()
}

fn part(value: Value, path: &str) -> Result<Value, ApiError> {
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
    Ok(json!({"type": "text", "text": content}))
}

/// What OpenAI's own answers carry beside their text may be sent back as long as it says nothing.
fn refuse_beside_text(fields: &mut Fields) -> Result<(), ApiError> {
    for key in ["name", "refusal", "audio", "function_call", "tool_calls", "annotations"] {
        let Some(value) = fields.take(key) else { continue };
        if value.as_array().is_none_or(|list| !list.is_empty()) {
            let path = fields.path(key);
            let message = format!("{path:?} is not supported here; remove it");
            return Err(ApiError::field(Fault::Unsupported, path, message));
        }
    }
    Ok(())
}

const WANTED: &str = "a list of at least one message";
const ROLES: &str = "one of \"system\", \"developer\", \"user\", \"assistant\" and \"tool\"";
const CONTENT: &str = "a string or a list of text parts";
const ARGUMENTS: &str = "a JSON object as a string";
