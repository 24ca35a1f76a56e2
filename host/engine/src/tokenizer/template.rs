//! The chat template: messages to the text that the model was trained on.
//!
//! Templates are Jinja as the reference library runs it: blocks are trimmed, Python's string methods exist,
//! `raise_exception` refuses messages. There is no clock, so templates that ask for the date find it undefined and
//! take their default.

use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value};
use minijinja::{Environment, Error, ErrorKind};

use super::ChatMessage;
use super::settings::Settings;
use crate::EngineError;

/// A parsed template.
pub(super) struct ChatTemplate {
    environment: Environment<'static>,
    /// Special tokens by the name that templates know them by.
    tokens: Vec<(&'static str, String)>,
}

impl ChatTemplate {
    /// Parses a template.
    pub(super) fn new(source: &str, settings: &Settings) -> Result<Self, EngineError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| refused(&error))?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", raise_exception);
        environment.add_filter("tojson", tojson);
        // A template is part of a model that anybody may have made.
        environment.set_fuel(Some(FUEL));
        environment.add_template_owned(NAME, source.to_owned()).map_err(|error| refused(&error))?;
        let named = [
            ("bos_token", &settings.bos),
            ("eos_token", &settings.eos),
            ("pad_token", &settings.pad),
            ("unk_token", &settings.unk),
        ];
        let tokens = named.into_iter().filter_map(|(name, token)| Some((name, token.clone()?))).collect();
        Ok(Self { environment, tokens })
    }

    /// The text of the messages, ending where the assistant is to speak.
    pub(super) fn render(&self, messages: &[ChatMessage]) -> Result<String, EngineError> {
        let message = |ChatMessage { role, content }: &ChatMessage| {
            Value::from(BTreeMap::from([("role", role.clone()), ("content", content.clone())]))
        };
        let messages: Vec<Value> = messages.iter().map(message).collect();
        let mut variables = BTreeMap::from([
            ("messages", Value::from(messages)),
            ("add_generation_prompt", Value::from(true)),
            ("tools", Value::from(())),
            ("documents", Value::from(())),
        ]);
        variables.extend(self.tokens.iter().map(|(name, token)| (*name, Value::from(token.as_str()))));
        let template = self.environment.get_template(NAME).map_err(|error| refused(&error))?;
        template.render(Value::from(variables)).map_err(|error| refused(&error))
    }
}

fn refused(error: &Error) -> EngineError {
    // What a template raises is meant for the person who sent the messages, without the place in the template.
    let message = match (error.kind(), error.detail()) {
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        _ => error.to_string(),
    };
    EngineError::Template { message }
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// JSON as Python writes it. The filter of the template library also escapes for HTML, which no model was trained on.
fn tojson(value: &Value, indent: Option<Value>, options: Kwargs) -> Result<String, Error> {
    let escaped = minijinja::filters::tojson(value, indent, options)?;
    let escaped = escaped.as_str().unwrap_or_default();
    let mut json = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = rest.find('\\') {
        json.push_str(&rest[..at]);
        let (escape, plain) = match rest.get(at..at + 6) {
            Some("\\u003c") => (6, "<"),
            Some("\\u003e") => (6, ">"),
            Some("\\u0026") => (6, "&"),
            Some("\\u0027") => (6, "'"),
            // Any other escape is two bytes or more; its second byte may be a backslash and begins nothing.
            _ => (2, &rest[at..at + 2]),
        };
        json.push_str(plain);
        rest = &rest[at + escape..];
    }
    json.push_str(rest);
    Ok(json)
}

const NAME: &str = "chat";
/// Instructions of one chat: some hundred times what templates use for the longest.
const FUEL: u64 = 20_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, contents: &[&str]) -> Result<String, EngineError> {
        let settings = Settings { bos: Some("<s>".to_owned()), ..Settings::default() };
        let message =
            |content: &&str| ChatMessage { role: "user".to_owned(), content: (*content).to_owned() };
        let messages: Vec<ChatMessage> = contents.iter().map(message).collect();
        ChatTemplate::new(source, &settings)?.render(&messages)
    }

    #[test]
    fn blocks_are_trimmed_as_in_the_reference() {
        let source = "{{ bos_token }}\n  {% for m in messages %}\n[{{ m['role'] }}] {{ m.content | trim }}\n  {% endfor %}\n{% if add_generation_prompt %}>{% endif %}";
        assert_eq!(render(source, &[" a ", "b"]).unwrap(), "<s>\n[user] a\n[user] b\n>");
    }

    #[test]
    fn python_methods_and_absent_names_work() {
        let source = "{% if not tools and not date and eos_token is not defined %}{{ messages[0].content.split('-')[1].upper() }}{{ messages[0]['content'][:1] }}{% endif %}";
        assert_eq!(render(source, &["x-y"]).unwrap(), "Yx");
        let dated = "{% if strftime_now is defined %}{{ strftime_now() }}{% else %}no date{% endif %}";
        assert_eq!(render(dated, &[]).unwrap(), "no date");
    }

    #[test]
    fn a_raised_exception_is_given_in_its_own_words() {
        let source = "{% if messages | length > 1 %}{{ raise_exception('One message only!') }}{% endif %}ok";
        assert_eq!(render(source, &["a"]).unwrap(), "ok");
        match render(source, &["a", "b"]) {
            Err(EngineError::Template { message }) => assert_eq!(message, "One message only!"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_template_that_cannot_be_parsed_is_refused_at_once() {
        let error = ChatTemplate::new("{% for %}", &Settings::default()).err().unwrap();
        assert!(error.to_string().contains("chat"), "{error}");
    }

    #[test]
    fn json_is_not_escaped_for_html() {
        let text = "<a href='x'>\\u003c \"&\" \\ \u{e9}\n";
        let json = render("{{ messages[0].content | tojson }}", &[text]).unwrap();
        assert_eq!(json, serde_json::to_string(text).unwrap());
    }
}
