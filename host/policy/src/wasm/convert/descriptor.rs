//! What a guest says about itself.

use std::collections::BTreeSet;

use journey::Role;

use super::answered::signal;
use crate::descriptor::{Descriptor, Fires, Limit, Need, Parameter, PolicyGuard};
use crate::error::PolicyError;
use crate::wasm::bindings::tokenrouter::policy::manifest;

/// Checks everything that a policy says about itself.
pub(in crate::wasm) fn descriptor(described: manifest::Descriptor) -> Result<Descriptor, PolicyError> {
    check_words(&described)?;
    check_numbers(&described)?;
    let manifest::Descriptor { name, doc, parameters, needs, guards, .. } = described;
    let parameters = parameters.into_iter().map(parameter).collect::<Result<Vec<_>, _>>()?;
    let mut seen = BTreeSet::new();
    if let Some(twice) = parameters.iter().find(|parameter| !seen.insert(parameter.key.as_str())) {
        return refuse(format!("parameter {:?} is declared twice", twice.key));
    }
    let models = described.models_least as usize..=described.models_most as usize;
    let needs = needs.into_iter().map(need).collect::<Result<Vec<_>, _>>()?;
    let checked = Descriptor {
        name,
        doc,
        parameters,
        models,
        needs,
        guards: Vec::new(),
        candidates: described.candidates as usize,
        tail: described.tail as usize,
        prompt: described.prompt as usize,
        enters: described.enters,
        sends: described.sends,
        receives: described.receives,
        distributions: described.distributions,
        holdback: described.holdback as usize,
        fallback: described.fallback.map(|role| Role(role as u16)),
    };
    let guards = guards.into_iter().map(|declared| guard(declared, &checked)).collect::<Result<_, _>>()?;
    Ok(Descriptor { guards, ..checked })
}

fn refuse<T>(why: String) -> Result<T, PolicyError> {
    Err(PolicyError::BadDescriptor { why })
}

fn check_words(described: &manifest::Descriptor) -> Result<(), PolicyError> {
    let manifest::Descriptor { name, doc, .. } = described;
    if !is_word(name) {
        return refuse(format!(
            "name {name:?} is not a word of a-z, 0-9, - and _, at most {WORD_BYTES} bytes"
        ));
    }
    if doc.len() > DOC_BYTES {
        return refuse(format!("doc has {} bytes, at most {DOC_BYTES} are shown", doc.len()));
    }
    Ok(())
}

fn check_numbers(described: &manifest::Descriptor) -> Result<(), PolicyError> {
    let &manifest::Descriptor { models_least, models_most, candidates, tail, prompt, fallback, .. } =
        described;
    if models_least == 0 || models_least > models_most || models_most > MODELS_MOST {
        return refuse(format!(
            "it serves routes of {models_least} to {models_most} models; from 1 to {MODELS_MOST}, least first"
        ));
    }
    if let Some(role) = fallback.filter(|role| *role >= models_least) {
        return refuse(format!(
            "it falls back to role {role}, which a route of {models_least} models does not have"
        ));
    }
    let bounded = [
        ("candidates", candidates as usize, CANDIDATES_MOST),
        ("bytes of the answer's end", tail as usize, TAIL_BYTES),
        ("bytes of the prompt's end", prompt as usize, PROMPT_BYTES),
        ("parameters", described.parameters.len(), PARAMETERS_MOST),
        ("guards", described.guards.len(), GUARDS_MOST),
        ("needs", described.needs.len(), models_most as usize),
    ];
    match bounded.into_iter().find(|(_, count, most)| count > most) {
        Some((what, count, most)) => refuse(format!("it asks for {count} {what}, at most {most}")),
        None => Ok(()),
    }
}

fn need(declared: manifest::Need) -> Result<Need, PolicyError> {
    let manifest::Need { name, doc, heads, context_least } = declared;
    if let Some(word) = heads.iter().chain([&name]).find(|word| !is_word(word)) {
        return refuse(format!("{word:?} of its needs is not a word of a-z, 0-9, - and _"));
    }
    if heads.len() > HEADS_MOST {
        return refuse(format!("{name} needs {} heads, at most {HEADS_MOST}", heads.len()));
    }
    Ok(Need { name, doc, heads, context_least: context_least as usize })
}

fn guard(declared: manifest::Guard, of: &Descriptor) -> Result<PolicyGuard, PolicyError> {
    let manifest::Guard { role, fires } = declared;
    if role as usize >= *of.models.end() {
        return refuse(format!("a guard for role {role}, which no route with it has"));
    }
    let role = Role(role as u16);
    let limit = |limit: manifest::Limit| {
        let signal = signal(limit.signal);
        if !of.parameters.iter().any(|known| known.key == limit.parameter) {
            return refuse(format!(
                "a guard compares with parameter {:?}, which is not declared",
                limit.parameter
            ));
        }
        let heads = of.needs.get(role.index()).map_or(0, |need| need.heads.len());
        if matches!(signal, journey::Signal::Score(head) if usize::from(head) >= heads) {
            return refuse(format!("a guard looks at a score of {role}, whose needs name {heads} heads"));
        }
        Ok(Limit { signal, parameter: limit.parameter })
    };
    let text = |text: String| {
        if text.is_empty() || text.len() > TEXT_BYTES {
            return refuse(format!("a guard's text has {} bytes, from 1 to {TEXT_BYTES}", text.len()));
        }
        Ok(text)
    };
    let fires = match fires {
        manifest::Trigger::Above(above) => Fires::Above(limit(above)?),
        manifest::Trigger::Below(below) => Fires::Below(limit(below)?),
        manifest::Trigger::Text(of) => Fires::Text(text(of)?),
        manifest::Trigger::AfterText(of) => Fires::AfterText(text(of)?),
        manifest::Trigger::Start => Fires::Start,
        manifest::Trigger::End => Fires::End,
    };
    Ok(PolicyGuard { role, fires })
}

fn parameter(declared: manifest::Parameter) -> Result<Parameter, PolicyError> {
    let manifest::Parameter { key, default, least, most, whole, doc } = declared;
    if !is_word(&key) {
        return refuse(format!(
            "parameter {key:?} is not named by a word of a-z, 0-9, - and _, at most {WORD_BYTES} bytes"
        ));
    }
    if doc.len() > DOC_BYTES {
        return refuse(format!("the doc of {key} has {} bytes, at most {DOC_BYTES} are shown", doc.len()));
    }
    let range = least..=most;
    if !least.is_finite() || !most.is_finite() || !range.contains(&default) {
        return refuse(format!("parameter {key}: the default {default} is outside {least} to {most}"));
    }
    if whole && [default, least, most].iter().any(|value| value.fract() != 0.0) {
        return refuse(format!("parameter {key} is whole, but {default}, {least}, {most} are not all"));
    }
    Ok(Parameter { key, default, range, whole, doc })
}

fn is_word(text: &str) -> bool {
    let allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    (1..=WORD_BYTES).contains(&text.len()) && text.bytes().all(allowed)
}

const WORD_BYTES: usize = 64;
const DOC_BYTES: usize = 1024;
const PARAMETERS_MOST: usize = 64;
const CANDIDATES_MOST: usize = 128;
const TAIL_BYTES: usize = 4 << 10;
const PROMPT_BYTES: usize = 64 << 10;
const GUARDS_MOST: usize = 32;
const HEADS_MOST: usize = 4;
const TEXT_BYTES: usize = 256;
/// Roles are 16 bits wide.
const MODELS_MOST: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> manifest::Descriptor {
        let parameter = manifest::Parameter {
            key: "tokens".to_owned(),
            default: 1.0,
            least: 0.0,
            most: 8.0,
            whole: true,
            doc: "tokens".to_owned(),
        };
        manifest::Descriptor {
            name: "example".to_owned(),
            doc: "for tests".to_owned(),
            parameters: vec![parameter],
            models_least: 2,
            models_most: 3,
            needs: Vec::new(),
            guards: Vec::new(),
            candidates: 20,
            tail: 0,
            prompt: 0,
            enters: false,
            sends: true,
            receives: true,
            distributions: false,
            holdback: 0,
            fallback: None,
        }
    }

    fn refused(edit: impl FnOnce(&mut manifest::Descriptor)) -> String {
        let mut described = described();
        edit(&mut described);
        descriptor(described).expect_err("it contradicts itself").to_string()
    }

    #[test]
    fn a_sound_descriptor_is_taken_as_it_is() {
        let taken = descriptor(described()).expect("it is sound");
        assert_eq!((taken.name.as_str(), taken.candidates, taken.receives), ("example", 20, true));
        assert_eq!((taken.models, taken.parameters.len()), (2..=3, 1));
    }

    #[test]
    fn what_is_wrong_with_a_descriptor_is_named() {
        assert!(refused(|d| d.name = "Two words".to_owned()).contains("\"Two words\""));
        assert!(refused(|d| d.name.clear()).contains("\"\""));
        assert!(refused(|d| d.doc = "x".repeat(1025)).contains("1025 bytes"));
        assert!(refused(|d| d.models_least = 0).contains("0 to 3 models"));
        assert!(refused(|d| d.models_most = 1).contains("2 to 1 models"));
        assert!(refused(|d| d.models_most = 70_000).contains("2 to 70000 models"));
        assert!(refused(|d| d.candidates = 129).contains("129 candidates"));
        assert!(refused(|d| d.parameters = vec![d.parameters[0].clone(); 2]).contains("declared twice"));
        assert!(refused(|d| d.parameters = vec![d.parameters[0].clone(); 65]).contains("65 parameters"));
        assert!(refused(|d| d.parameters[0].key = "a.b".to_owned()).contains("a.b"));
        assert!(refused(|d| d.parameters[0].default = 9.0).contains("9 is outside 0 to 8"));
        assert!(refused(|d| d.parameters[0].default = f64::NAN).contains("NaN"));
        assert!(refused(|d| d.parameters[0].most = f64::INFINITY).contains("inf"));
        assert!(refused(|d| d.parameters[0].most = 7.5).contains("7.5"));
    }
}
