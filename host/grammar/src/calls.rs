//! Calls of tools in the forms that models were trained on.
//!
//! A schema of arguments is a document of its own: its references are relative to its root. So calls are put together
//! of text and schemas, and not written as one schema.

use std::fmt::Write;

use serde_json::Value;

use crate::{GrammarError, json_text};

/// A tool that may be called.
#[derive(Clone, Copy, Debug)]
pub struct Tool<'a> {
    /// Letters, digits, `_` and `-`.
    pub name: &'a str,
    /// The schema of its arguments, an object.
    pub parameters: &'a Value,
}

/// How calls are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `<tool_call>`, a line with `{"name": ..., "arguments": {...}}`, `</tool_call>`.
    Tagged,
    /// `{"name": ..., KEY: {...}}`, where this is the key.
    Object(&'static str),
    /// `[{"name": ..., "arguments": {...}}, ...]`.
    List,
}

/// One call or, if `parallel` and the form has it, several, and nothing else.
///
/// # Errors
/// [`GrammarError::NotAnObject`] for parameters that are none.
pub fn calls(form: Form, tools: &[Tool<'_>], parallel: bool) -> Result<String, GrammarError> {
    let start = match (form, parallel) {
        (Form::Tagged, true) => "start: call (\"\\n\" call)*",
        (Form::Tagged, false) => "start: call",
        (Form::Object(_), _) => "start: tool",
        (Form::List, true) => "start: \"[\" tool (\", \" tool)* \"]\"",
        (Form::List, false) => "start: \"[\" tool \"]\"",
    };
    Ok(format!("{start}\ncall: \"{OPEN}\\n\" tool \"\\n{CLOSE}\"\n{}", tool_rules(form, tools)?))
}

/// Text, or text and calls: from where the form's opening stands, calls alone. `None` for a form whose opening is no text.
///
/// # Errors
/// As [`calls`].
pub fn text_or_calls(form: Form, tools: &[Tool<'_>], parallel: bool) -> Result<Option<String>, GrammarError> {
    let rules = tool_rules(form, tools)?;
    Ok(match form {
        Form::Tagged => {
            let more =
                if parallel { format!(" (\"\\n{OPEN}\\n\" tool \"\\n{CLOSE}\")*") } else { String::new() };
            Some(format!(
                "start: opened \"\\n\" tool \"\\n{CLOSE}\"{more} | PLAIN?\n\
                 opened[suffix=\"{OPEN}\"]: /(?s:.*)/\n\
                 PLAIN: /(?s:.*)/ & ~/(?s:.*){OPEN}(?s:.*)/\n{rules}"
            ))
        }
        Form::Object(_) => Some(format!("start: tool | PLAIN?\nPLAIN: /[^\\{{](?s:.*)/\n{rules}")),
        Form::List => None,
    })
}

fn tool_rules(form: Form, tools: &[Tool<'_>]) -> Result<String, GrammarError> {
    let key = if let Form::Object(key) = form { key } else { "arguments" };
    let names: Vec<String> = (0..tools.len()).map(|ix| format!("tool_{ix}")).collect();
    let mut rules = format!("tool: {}\n", names.join(" | "));
    for (name, tool) in names.iter().zip(tools) {
        let head = Value::from(format!("{{\"name\": \"{}\", \"{key}\": ", tool.name));
        // Writing to a string does not fail.
        writeln!(
            rules,
            "{name}: {head} arguments_{name} \"}}\"\narguments_{name}: {}",
            json_text(tool.parameters)?
        )
        .unwrap_or_default();
    }
    Ok(rules)
}

/// What opens a call in the tagged form.
pub const OPEN: &str = "<tool_call>";
/// What closes it.
pub const CLOSE: &str = "</tool_call>";
