//! The chat template: messages to the text that the model was trained on.
//!
//! Templates are Jinja as the reference library runs it: blocks are trimmed, Python's methods exist, values are printed
//! as Python prints them, `raise_exception` refuses messages, `strftime_now` tells the time (UTC).

mod abilities;
pub(super) mod python;

use std::borrow::Cow;
use std::collections::BTreeMap;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, ErrorKind, context};

use super::chat::Chat;
use super::settings::Settings;
use crate::EngineError;
pub(super) use abilities::Abilities;

/// A parsed template.
pub(super) struct ChatTemplate {
    environment: Environment<'static>,
    /// Special tokens by the name that templates know them by.
    tokens: Value,
    abilities: Abilities,
}

impl ChatTemplate {
    /// Parses a template, and finds out what it understands.
    pub(super) fn new(source: &str, settings: &Settings) -> Result<Self, EngineError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| refused(&error))?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(python::print);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment.add_filter("tojson", python::tojson);
        // A template is part of a model that anybody may have made.
        environment.set_fuel(Some(FUEL));
        let source = without_generation(source).into_owned();
        environment.add_template_owned(NAME, source).map_err(|error| refused(&error))?;
        let named = [
            ("bos_token", &settings.bos),
            ("eos_token", &settings.eos),
            ("pad_token", &settings.pad),
            ("unk_token", &settings.unk),
        ];
        let tokens: BTreeMap<&str, &str> =
            named.into_iter().filter_map(|(name, token)| Some((name, token.as_deref()?))).collect();
        let tokens = Value::from(Serde(tokens));
        let mut template = Self { environment, tokens, abilities: Abilities::default() };
        template.abilities = Abilities::of(&template);
        Ok(template)
    }

    /// What it can be given.
    pub(super) fn abilities(&self) -> Abilities {
        self.abilities
    }

    /// What it was made of.
    pub(super) fn source(&self) -> Option<String> {
        Some(self.environment.get_template(NAME).ok()?.source().to_owned())
    }

    /// The text of a chat, ending where the assistant is to speak, if it is to.
    pub(super) fn render(&self, chat: &Chat, opens_turn: bool) -> Result<String, EngineError> {
        let tools = (!chat.tools.is_empty()).then(|| Value::from(Serde(&chat.tools)));
        let variables = context! {
            messages => Value::from(Serde(&chat.messages)),
            tools => tools,
            documents => (),
            add_generation_prompt => opens_turn,
            ..self.tokens.clone()
        };
        let template = self.environment.get_template(NAME).map_err(|error| refused(&error))?;
        template.render(variables).map_err(|error| refused(&error))
    }
}

/// `{% generation %}` only marks, for training, what the assistant says. It is made a block that does nothing, so that
/// blanks around it are trimmed as before.
fn without_generation(source: &str) -> Cow<'_, str> {
    if !source.contains("generation") {
        return Cow::Borrowed(source);
    }
    let mut kept = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, after)) = rest.split_once("{%") {
        kept.push_str(before);
        kept.push_str("{%");
        let Some((inside, behind)) = after.split_once("%}") else {
            rest = after;
            continue;
        };
        let word = inside.trim_matches(['-', '+']).trim();
        let instead = match word {
            "generation" => inside.replace(word, "if true"),
            "endgeneration" => inside.replace(word, "endif"),
            _ => inside.to_owned(),
        };
        kept.push_str(&instead);
        kept.push_str("%}");
        rest = behind;
    }
    kept.push_str(rest);
    Cow::Owned(kept)
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

/// The time as `strftime` of Python writes it.
fn strftime_now(format: &str) -> Result<String, Error> {
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    jiff::fmt::strtime::format(format, &now)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {error}")))
}

const NAME: &str = "chat";
/// Instructions of one chat: some hundred times what templates use for the longest.
const FUEL: u64 = 20_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, contents: &[&str]) -> Result<String, EngineError> {
        let settings = Settings { bos: Some("<s>".to_owned()), ..Settings::default() };
        let message = |content: &&str| serde_json::json!({"role": "user", "content": content});
        let chat = Chat { messages: contents.iter().map(message).collect(), tools: Vec::new() };
        ChatTemplate::new(source, &settings)?.render(&chat, true)
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
        let dated = "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}";
        let date = render(dated, &[]).unwrap();
        assert!(date.len() == 11 && date.ends_with(char::is_numeric), "{date}");
        let reversed = "{% for m in messages[::-1] %}{{ m.content }}{% endfor %}";
        assert_eq!(render(reversed, &["a", "b"]).unwrap(), "ba");
    }

    #[test]
    fn marks_for_training_change_nothing() {
        let source = "{% for m in messages %}\n  {%- generation -%}  {{ m.content }}  {% endgeneration %}\n.{% endfor %}";
        let plain = source.replace("endgeneration", "endif").replace("generation", "if true");
        assert_eq!(render(source, &["a", "b"]).unwrap(), render(&plain, &["a", "b"]).unwrap());
        assert_eq!(render("{{ add_generation_prompt }}", &[]).unwrap(), "True");
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
    fn what_a_template_understands_is_found_out() {
        let of = |source: &str| ChatTemplate::new(source, &Settings::default()).unwrap().abilities();
        let plain = of("{% for m in messages %}{{ m.content }}{% endfor %}");
        assert_eq!(plain, Abilities { user: true, system: true, ..Abilities::default() });
        let parts = of(
            "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}{% if add_generation_prompt %}>{% endif %}",
        );
        assert!(parts.parts && !parts.user);
        let tools = "{{ tools | tojson if tools }}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}";
        let objects =
            of(&format!("{tools}{{{{ c.function.arguments | tojson }}}}{{% endfor %}}{{% endfor %}}"));
        assert!(objects.tools && !objects.arguments_as_text);
        let refused = of(
            "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}",
        );
        assert!(refused.user && !refused.system && !refused.notes().is_empty());
    }
}
