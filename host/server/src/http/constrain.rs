//! What an answer must look like, for the models of a route: a JSON schema, or calls of tools in the model's own form.

use std::sync::Arc;

use engine::CallForm;
use grammar::calls::{self, Form};
use grammar::{Compiler, GrammarError};
use journey::Grammar;

use super::error::{ApiError, Fault};
use super::parse::{Choice, Format, Tool, Tools};
use crate::runtime::Route;

/// What follows from a request's `response_format` and `tools`.
#[derive(Default)]
pub(super) struct Constraint {
    /// What the answer must look like, if it must.
    pub(super) grammar: Option<Arc<dyn Grammar>>,
    /// How calls in it are read, if there may be some.
    pub(super) calls: Option<Reading>,
    /// Ends the prompt, so that calls have begun already.
    pub(super) opening: Option<u32>,
}

/// How calls are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// How the model writes them.
    pub(super) form: CallForm,
    /// Whether the answer is nothing but calls.
    pub(super) only_calls: bool,
}

/// Whether a body may ask for a grammar, whose making takes long enough to hold up other connections.
pub(super) fn may_constrain(body: &[u8]) -> bool {
    [&b"\"response_format\""[..], b"\"tools\""]
        .iter()
        .any(|key| body.windows(key.len()).any(|part| part == *key))
}

/// Makes the grammar.
///
/// # Errors
/// What cannot be constrained, with the field that asks for it.
pub(super) fn constrain(route: &Route, format: &Format, tools: &Tools) -> Result<Constraint, ApiError> {
    match (format, &tools.choice) {
        (Format::Text, Choice::None) => Ok(Constraint::default()),
        (Format::Json(schema, path), Choice::None) => {
            let lark = grammar::json(schema).map_err(|error| refused(&error, path))?;
            Ok(Constraint { grammar: Some(compile(route, &lark, path)?), ..Constraint::default() })
        }
        (Format::Text, _) => of_tools(route, tools),
        (Format::Json(..), _) => {
            let message = "\"response_format\" asks for JSON, which calls of \"tools\" are not; set \"tool_choice\" to \"none\"";
            Err(ApiError::field(Fault::Value, "response_format", message))
        }
    }
}

fn of_tools(route: &Route, tools: &Tools) -> Result<Constraint, ApiError> {
    let form = route.tokenizer.call_form();
    let named = |tool: &&Tool| !matches!(&tools.choice, Choice::Named(name) if *name != tool.name);
    let list: Vec<calls::Tool<'_>> = tools
        .list
        .iter()
        .filter(named)
        .map(|Tool { name, parameters, .. }| calls::Tool { name, parameters })
        .collect();
    let written = match form {
        CallForm::Tagged => Form::Tagged,
        CallForm::Object => Form::Object("parameters"),
        CallForm::List(_) => Form::List,
        CallForm::Unknown => Form::Object("arguments"),
    };
    let only_calls = tools.choice != Choice::Auto;
    let lark = if only_calls {
        let parallel = tools.parallel && tools.choice == Choice::Required;
        calls::calls(written, &list, parallel).map(Some)
    } else if form == CallForm::Unknown || !route.tokenizer.shows_tools() {
        let message = "the model's chat template knows no tools; set \"tool_choice\" to \"required\", to a function, or to \"none\"";
        return Err(ApiError::field(Fault::Unsupported, "tools", message));
    } else {
        calls::text_or_calls(written, &list, tools.parallel)
    };
    let lark = lark.map_err(|error| refused(&error, TOOLS))?;
    Ok(Constraint {
        grammar: lark.map(|lark| compile(route, &lark, TOOLS)).transpose()?,
        calls: Some(Reading { form, only_calls }),
        opening: if let (CallForm::List(id), true) = (form, only_calls) { Some(id) } else { None },
    })
}

fn compile(route: &Route, lark: &str, path: &str) -> Result<Arc<dyn Grammar>, ApiError> {
    let compiler: &Compiler = route.grammars().map_err(|error| ApiError::server(error.to_string()))?;
    compiler.compile(lark).map_err(|error| refused(&error, path))
}

fn refused(error: &GrammarError, path: &str) -> ApiError {
    ApiError::field(Fault::Value, path, format!("{path:?} cannot be followed: {error}"))
}

const TOOLS: &str = "tools";
