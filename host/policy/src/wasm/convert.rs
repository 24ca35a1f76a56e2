//! Between the generated types and those of `journey`. What comes from a guest is checked here and nowhere else.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use journey::{Accept, Decision, Handoff, Offer, Parcel, Role, Step};

use super::bindings::tokenrouter::policy::types;
use crate::descriptor::{Descriptor, Parameter};
use crate::error::{Call, PolicyError};
use crate::session::Start;

pub(super) fn start(start: Start) -> types::Start {
    let Start { models, settings, prompt_tokens, max_tokens, .. } = start;
    let model = |model: &crate::session::ModelInfo| types::ModelInfo {
        name: model.name.clone(),
        vocabulary: model.vocabulary,
        context: model.context,
    };
    let setting = |(key, value): (&str, f64)| types::Setting { key: key.to_owned(), value };
    types::Start {
        models: models.iter().map(model).collect(),
        settings: settings.iter().map(setting).collect(),
        prompt_tokens,
        max_tokens,
    }
}

/// A step to be filled in.
pub(super) fn blank_step() -> types::Step {
    types::Step {
        index: 0,
        run: 0,
        role: 0,
        token: 0,
        at_eos: false,
        logprob: 0.0,
        entropy: 0.0,
        top1: 0.0,
        margin: 0.0,
        candidates: Vec::new(),
    }
}

/// Fills `shown` in, keeping its allocation.
pub(super) fn step(step: &Step, shown: &mut types::Step) {
    let Step { index, run, role, at_eos, sampled } = step;
    let mut candidates = std::mem::take(&mut shown.candidates);
    candidates.clear();
    candidates.extend(sampled.candidates.iter().map(|candidate| types::Candidate {
        token: candidate.token,
        logit: candidate.logit,
        prob: candidate.prob,
    }));
    *shown = types::Step {
        index: *index,
        run: *run,
        role: u32::from(role.0),
        token: sampled.token,
        at_eos: *at_eos,
        logprob: sampled.logprob,
        entropy: sampled.signals.entropy,
        top1: sampled.signals.top1,
        margin: sampled.signals.margin,
        candidates,
    };
}

pub(super) fn handoff(handoff: Handoff) -> types::Handoff {
    types::Handoff { to: u32::from(handoff.to.0), tokens: handoff.run.map_or(0, NonZeroU32::get) }
}

pub(super) fn offer(offer: &Offer) -> types::Offer {
    types::Offer {
        source: u32::from(offer.from.0),
        tokens: offer.tokens.clone(),
        logprobs: offer.logprobs.clone(),
    }
}

/// `here` is the model that the journey is at, `models` how many the route has.
pub(super) fn decision(
    decision: types::Decision,
    here: Role,
    models: usize,
) -> Result<Decision, PolicyError> {
    let handoff = match decision {
        types::Decision::Stay => return Ok(Decision::Stay),
        types::Decision::Finish => return Ok(Decision::Finish),
        types::Decision::HandOff(handoff) => handoff,
    };
    let to = u16::try_from(handoff.to).map(Role).ok().filter(|to| to.index() < models);
    let refuse = |why: String| Err(PolicyError::BadAnswer { call: Call::Route, why });
    match to {
        None => refuse(format!(
            "a handoff to role {}, but the roles of this route are 0 to {}",
            handoff.to,
            models - 1
        )),
        Some(to) if to == here => {
            refuse(format!("a handoff to {to}, where the journey already is; answer stay"))
        }
        Some(to) => Ok(Decision::Handoff(Handoff { to, run: NonZeroU32::new(handoff.tokens) })),
    }
}

pub(super) fn parcel(parcel: types::Parcel) -> Parcel {
    Parcel { keep_held: parcel.keep_held }
}

pub(super) fn accept(accept: types::Accept, offered: usize) -> Result<Accept, PolicyError> {
    let take = accept.take as usize;
    if take > offered {
        let why = format!("it takes {take} tokens, but {offered} were offered");
        return Err(PolicyError::BadAnswer { call: Call::Receive, why });
    }
    Ok(Accept { take })
}

/// Checks everything that a policy says about itself.
pub(super) fn descriptor(described: types::Descriptor) -> Result<Descriptor, PolicyError> {
    let types::Descriptor { name, doc, parameters, models_least, models_most, candidates, receives } =
        described;
    let refuse = |why: String| Err(PolicyError::BadDescriptor { why });
    if !is_word(&name) {
        return refuse(format!(
            "name {name:?} is not a word of a-z, 0-9, - and _, at most {WORD_BYTES} bytes"
        ));
    }
    if doc.len() > DOC_BYTES {
        return refuse(format!("doc has {} bytes, at most {DOC_BYTES} are shown", doc.len()));
    }
    if models_least == 0 || models_least > models_most || models_most > MODELS_MOST {
        return refuse(format!(
            "it serves routes of {models_least} to {models_most} models; from 1 to {MODELS_MOST}, least first"
        ));
    }
    if candidates > CANDIDATES_MOST {
        return refuse(format!("it asks for {candidates} candidates, at most {CANDIDATES_MOST} are shown"));
    }
    if parameters.len() > PARAMETERS_MOST {
        return refuse(format!(
            "it has {} parameters, at most {PARAMETERS_MOST} are allowed",
            parameters.len()
        ));
    }
    let parameters = parameters.into_iter().map(parameter).collect::<Result<Vec<_>, _>>()?;
    let mut seen = BTreeSet::new();
    if let Some(twice) = parameters.iter().find(|parameter| !seen.insert(parameter.key.as_str())) {
        return refuse(format!("parameter {:?} is declared twice", twice.key));
    }
    let models = models_least as usize..=models_most as usize;
    Ok(Descriptor { name, doc, parameters, models, candidates: candidates as usize, receives })
}

fn parameter(declared: types::Parameter) -> Result<Parameter, PolicyError> {
    let types::Parameter { key, default, least, most, whole, doc } = declared;
    let refuse = |why: String| Err(PolicyError::BadDescriptor { why });
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
const CANDIDATES_MOST: u32 = 128;
/// Roles are 16 bits wide.
const MODELS_MOST: u32 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> types::Descriptor {
        let parameter = types::Parameter {
            key: "tokens".to_owned(),
            default: 1.0,
            least: 0.0,
            most: 8.0,
            whole: true,
            doc: "tokens".to_owned(),
        };
        types::Descriptor {
            name: "example".to_owned(),
            doc: "for tests".to_owned(),
            parameters: vec![parameter],
            models_least: 2,
            models_most: 3,
            candidates: 20,
            receives: true,
        }
    }

    fn refused(edit: impl FnOnce(&mut types::Descriptor)) -> String {
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

    #[test]
    fn handoffs_are_followed_only_to_other_models_of_the_route() {
        let to = |to, tokens| decision(types::Decision::HandOff(types::Handoff { to, tokens }), Role(0), 2);
        let run = NonZeroU32::new(3);
        assert_eq!(to(1, 3).expect("it is followed"), Decision::Handoff(Handoff { to: Role(1), run }));
        assert_eq!(to(1, 0).expect("it is followed"), Decision::Handoff(Handoff { to: Role(1), run: None }));
        for role in [0, 2, 65_536, 65_537, u32::MAX] {
            assert!(to(role, 1).is_err(), "role {role}");
        }
    }

    #[test]
    fn no_more_is_taken_than_was_offered() {
        assert_eq!(accept(types::Accept { take: 3 }, 3).expect("all of it"), Accept { take: 3 });
        assert!(accept(types::Accept { take: 4 }, 3).is_err());
    }
}
