//! `tools`, `tool_choice` and `parallel_tool_calls`.

use serde_json::{Value, json};

use super::fields::{Fields, wrong_type, wrong_value};
use super::format::{NAME, is_name};
use crate::http::error::{ApiError, Fault};

/// What may be called.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::http) struct Tools {
    /// In the order of the request.
    pub(in crate::http) list: Vec<Tool>,
    /// Whether one must be called.
    pub(in crate::http) choice: Choice,
    /// Whether several may be called at once.
    pub(in crate::http) parallel: bool,
}

/// A function that may be called.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::http) struct Tool {
    /// Letters, digits, `_` and `-`.
    pub(in crate::http) name: String,
    /// What it is for.
    description: Option<String>,
    /// The schema of its arguments.
    pub(in crate::http) parameters: Value,
}

/// Whether a tool must be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::http) enum Choice {
    /// None is.
    #[default]
    None,
    /// The model decides.
    Auto,
    /// One or several must be.
    Required,
    /// This one must be.
    Named(String),
}

impl Tool {
    /// As chat templates are given it.
    pub(in crate::http) fn object(&self) -> Value {
        let mut function = json!({"name": self.name});
        if let Some(description) = &self.description {
            function["description"] = description.as_str().into();
        }
        function["parameters"] = self.parameters.clone();
        json!({"type": "function", "function": function})
    }
}

/// Takes the three fields.
pub(super) fn take(fields: &mut Fields) -> Result<Tools, ApiError> {
    let list = match fields.take("tools") {
        None => Vec::new(),
        Some(Value::Array(list)) if list.len() > TOOLS_MAX => {
            let message = format!("\"tools\" may hold {TOOLS_MAX} tools, not {}", list.len());
            return Err(ApiError::field(Fault::Value, "tools", message));
        }
        Some(Value::Array(list)) => {
            let tools = list.into_iter().enumerate().map(|(ix, value)| tool(value, &format!("tools[{ix}]")));
            tools.collect::<Result<_, _>>()?
        }
        Some(other) => return Err(wrong_type("tools", "a list of tools", &other)),
    };
    let twice = (1..list.len()).find(|&ix| list[..ix].iter().any(|tool: &Tool| tool.name == list[ix].name));
    if let Some(ix) = twice {
        let message = format!("two tools are named {:?}", list[ix].name);
        return Err(ApiError::field(Fault::Value, format!("tools[{ix}].function.name"), message));
    }
    let choice = choice(fields, &list)?;
    let parallel = fields.boolean("parallel_tool_calls")?.unwrap_or(true);
    Ok(Tools { list, choice, parallel })
}

fn tool(value: Value, path: &str) -> Result<Tool, ApiError> {
    let mut fields = Fields::of(value, path)?;
    let Some(kind) = fields.string("type")? else { return Err(fields.missing("type", "\"function\"")) };
    if kind != "function" {
        return Err(wrong_value(&fields.path("type"), "\"function\"", &kind.into()));
    }
    let Some(value) = fields.take("function") else {
        return Err(fields.missing("function", "an object with \"name\" and \"parameters\""));
    };
    let mut function = Fields::of(value, &fields.path("function"))?;
    fields.finish()?;
    let Some(name) = function.string("name")? else { return Err(function.missing("name", NAME)) };
    if !is_name(&name) {
        return Err(wrong_value(&function.path("name"), NAME, &name.into()));
    }
    let description = function.string("description")?;
    let parameters = match function.take("parameters") {
        None => json!({"type": "object", "properties": {}}),
        Some(schema @ Value::Object(_)) => schema,
        Some(other) => return Err(wrong_type(&function.path("parameters"), "a JSON schema", &other)),
    };
    // Whatever it says, arguments of a call that is constrained satisfy the schema.
    function.boolean("strict")?;
    function.finish()?;
    Ok(Tool { name, description, parameters })
}

fn choice(fields: &mut Fields, list: &[Tool]) -> Result<Choice, ApiError> {
    const KEY: &str = "tool_choice";
    let (choice, value) = match fields.take(KEY) {
        None if list.is_empty() => return Ok(Choice::None),
        None => return Ok(Choice::Auto),
        Some(Value::String(word)) => {
            let choice = match word.as_str() {
                "none" => return Ok(Choice::None),
                "auto" if list.is_empty() => return Ok(Choice::None),
                "auto" => Choice::Auto,
                "required" => Choice::Required,
                _ => return Err(wrong_value(KEY, CHOICES, &word.into())),
            };
            (choice, word)
        }
        Some(value @ Value::Object(_)) => {
            let name = named(value)?;
            (Choice::Named(name.clone()), name)
        }
        Some(other) => return Err(wrong_type(KEY, CHOICES, &other)),
    };
    let is_there = match &choice {
        Choice::Named(name) => list.iter().any(|tool| tool.name == *name),
        _ => !list.is_empty(),
    };
    if !is_there {
        let message = format!("{KEY:?} asks for {value:?}, which is not among \"tools\"");
        return Err(ApiError::field(Fault::Value, KEY, message));
    }
    Ok(choice)
}

/// `{"type": "function", "function": {"name": ...}}`
fn named(value: Value) -> Result<String, ApiError> {
    let mut fields = Fields::of(value, "tool_choice")?;
    let Some(kind) = fields.string("type")? else { return Err(fields.missing("type", "\"function\"")) };
    if kind != "function" {
        return Err(wrong_value("tool_choice.type", "\"function\"", &kind.into()));
    }
    let Some(value) = fields.take("function") else {
        return Err(fields.missing("function", "an object with \"name\""));
    };
    fields.finish()?;
    let mut function = Fields::of(value, "tool_choice.function")?;
    let Some(name) = function.string("name")? else { return Err(function.missing("name", NAME)) };
    function.finish()?;
    Ok(name)
}

const CHOICES: &str = "\"none\", \"auto\", \"required\" or an object that names a function";
/// OpenAI takes as many.
const TOOLS_MAX: usize = 128;
