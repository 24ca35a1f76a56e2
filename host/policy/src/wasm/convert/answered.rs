//! What a guest answers: taken over, or refused with what is wrong with it.

use std::num::NonZeroU32;

use journey::{
    Accept, Adoption, Ask, Check, Condition, Decision, DraftRequest, Handoff, Mixture, Next, Parcel,
    Question, Rewrite, Role, Rule, Signal, Space,
};

use crate::error::{Call, PolicyError};
use crate::wasm::bindings::tokenrouter::policy::types;

/// What an answer is checked against.
#[derive(Clone, Copy, Debug)]
pub(in crate::wasm) struct Context {
    /// The call that is answered.
    pub(in crate::wasm) call: Call,
    /// Models of the route.
    pub(in crate::wasm) models: usize,
}

pub(in crate::wasm) fn decision(
    decision: types::Decision,
    here: Role,
    context: Context,
) -> Result<Decision, PolicyError> {
    Ok(match decision {
        types::Decision::Stay => Decision::Stay,
        types::Decision::Finish => Decision::Finish,
        types::Decision::HandOff(to) => Decision::Handoff(context.handoff(to, Some(here))?),
        types::Decision::Consult(question) => Decision::Consult(context.question(question)?),
        types::Decision::Mix(mixture) => Decision::Mix(context.mixture(mixture)?),
        types::Decision::Rewrite(rewrite) => Decision::Rewrite(context.rewrite(rewrite, here)?),
        types::Decision::Adopt(adoption) => Decision::Adopt(context.adoption(adoption, here)?),
    })
}

pub(in crate::wasm) fn entrance(role: u32, context: Context) -> Result<Role, PolicyError> {
    context.role("it enters at", role)
}

pub(in crate::wasm) fn parcel(parcel: types::Parcel) -> Parcel {
    Parcel { keep_held: parcel.keep_held }
}

pub(in crate::wasm) fn accept(
    accept: types::Accept,
    offered: usize,
    context: Context,
) -> Result<Accept, PolicyError> {
    match accept {
        types::Accept::Take(take) if take as usize > offered => {
            Err(context.refuse(format!("it takes {take} tokens, but {offered} were offered")))
        }
        types::Accept::Take(take) => Ok(Accept::Take(take as usize)),
        types::Accept::Verify(check) => Ok(Accept::Verify(context.check(check)?)),
        types::Accept::Consult(question) => Ok(Accept::Consult(context.question(question)?)),
    }
}

impl Context {
    fn refuse(&self, why: String) -> PolicyError {
        PolicyError::BadAnswer { call: self.call, why }
    }

    fn role(&self, what: &str, role: u32) -> Result<Role, PolicyError> {
        let known = u16::try_from(role).map(Role).ok().filter(|role| role.index() < self.models);
        known.ok_or_else(|| {
            self.refuse(format!(
                "{what} role {role}, but the roles of this route are 0 to {}",
                self.models - 1
            ))
        })
    }

    fn at_most(&self, what: &str, count: usize, most: usize) -> Result<usize, PolicyError> {
        if count > most { Err(self.refuse(format!("{count} {what}, at most {most}"))) } else { Ok(count) }
    }

    fn one_to(&self, what: &str, count: u32, most: usize) -> Result<usize, PolicyError> {
        match self.at_most(what, count as usize, most)? {
            0 => Err(self.refuse(format!("0 {what}, at least 1"))),
            count => Ok(count),
        }
    }

    fn handoff(&self, handoff: types::Handoff, here: Option<Role>) -> Result<Handoff, PolicyError> {
        let to = self.role("a handoff to", handoff.to)?;
        if Some(to) == here {
            return Err(self.refuse(format!("a handoff to {to}, where the journey already is; answer stay")));
        }
        let until = self.conditions(handoff.until)?;
        Ok(Handoff { to, run: NonZeroU32::new(handoff.tokens), until })
    }

    fn conditions(&self, until: Vec<types::Condition>) -> Result<Vec<Condition>, PolicyError> {
        self.at_most("conditions", until.len(), CONDITIONS_MOST)?;
        until.into_iter().map(|condition| self.condition(condition)).collect()
    }

    fn condition(&self, condition: types::Condition) -> Result<Condition, PolicyError> {
        let bound = |bound: types::Bound| {
            if bound.value.is_nan() {
                return Err(self.refuse("a condition compares with something that is no number".to_owned()));
            }
            Ok((signal(bound.signal), bound.value))
        };
        Ok(match condition {
            types::Condition::Above(above) => {
                bound(above).map(|(signal, value)| Condition::Above(signal, value))?
            }
            types::Condition::Below(below) => {
                bound(below).map(|(signal, value)| Condition::Below(signal, value))?
            }
            types::Condition::Text(text) => {
                let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
                self.one_to("bytes in a condition's text", bytes, TEXT_BYTES)?;
                Condition::Text(text)
            }
            types::Condition::Token(tokens) => {
                self.at_most("tokens in a condition", tokens.len(), TOKENS_MOST)?;
                Condition::Token(tokens)
            }
        })
    }

    fn question(&self, question: types::Question) -> Result<Question, PolicyError> {
        let types::Question { models, side, with_held, ask } = question;
        self.at_most("models in a question", models.len(), ROLES_MOST)?;
        self.at_most("bytes of side text", side.len(), SIDE_BYTES)?;
        let models =
            models.into_iter().map(|role| self.role("a question to", role)).collect::<Result<_, _>>()?;
        Ok(Question { models, side, with_held, ask: self.ask(ask)? })
    }

    fn ask(&self, ask: types::Ask) -> Result<Ask, PolicyError> {
        Ok(match ask {
            types::Ask::Candidates(count) => {
                Ask::Candidates(self.one_to("candidates", count, CANDIDATES_MOST)?)
            }
            types::Ask::Last(count) => Ask::Last(self.one_to("last tokens", count, LAST_MOST)?),
            types::Ask::Tokens(tokens) => {
                self.at_most("tokens in a question", tokens.len(), TOKENS_MOST)?;
                Ask::Tokens(tokens)
            }
            types::Ask::Texts(texts) => {
                self.at_most("texts in a question", texts.len(), TOKENS_MOST)?;
                if let Some(long) = texts.iter().find(|text| text.is_empty() || text.len() > TEXT_BYTES) {
                    let bytes = long.len();
                    let why = format!("a text of {bytes} bytes in a question, from 1 to {TEXT_BYTES}");
                    return Err(self.refuse(why));
                }
                Ask::Texts(texts)
            }
            types::Ask::Drafts(request) => Ask::Drafts(self.drafts(request)?),
            types::Ask::Scores => Ask::Scores,
        })
    }

    fn drafts(&self, request: types::DraftRequest) -> Result<DraftRequest, PolicyError> {
        let types::DraftRequest { tokens, until, samples, temperature } = request;
        self.one_to("tokens of a draft", tokens.min(1), 1)?;
        self.one_to("samples", samples, SAMPLES_MOST)?;
        if let Some(temperature) = temperature.filter(|value| !(0.0..=TEMPERATURE_MOST).contains(value)) {
            let why = format!("temperature {temperature} of drafts, from 0 to {TEMPERATURE_MOST}");
            return Err(self.refuse(why));
        }
        Ok(DraftRequest { tokens, until: self.conditions(until)?, samples, temperature })
    }

    fn mixture(&self, mixture: types::Mixture) -> Result<Mixture, PolicyError> {
        let types::Mixture { space, parts, plausible } = mixture;
        self.at_most("parts of a mixture", parts.len(), ROLES_MOST)?;
        let part = |part: types::Part| Ok((self.role("a mixture of", part.role)?, part.weight));
        let parts = parts.into_iter().map(part).collect::<Result<Vec<_>, PolicyError>>()?;
        if parts.is_empty() || parts.iter().any(|(_, weight)| !weight.is_finite()) {
            return Err(self.refuse("a mixture needs parts, and finite weights".to_owned()));
        }
        let plausible = match plausible {
            Some(types::Mask { share, .. }) if !(0.0..=1.0).contains(&share) => {
                return Err(self.refuse(format!("a plausible share of {share}, from 0 to 1")));
            }
            Some(types::Mask { role, share }) => Some((self.role("what is plausible to", role)?, share)),
            None => None,
        };
        let space = match space {
            types::Space::Logits => Space::Logits,
            types::Space::Probs => Space::Probs,
            types::Space::Logprobs => Space::Logprobs,
        };
        Ok(Mixture { space, parts, plausible })
    }

    fn rewrite(&self, rewrite: types::Rewrite, here: Role) -> Result<Rewrite, PolicyError> {
        let types::Rewrite { keep_held, drop, tokens, text, then } = rewrite;
        self.at_most("forced tokens", tokens.len(), FORCED_MOST)?;
        self.at_most("bytes of forced text", text.len(), SIDE_BYTES)?;
        Ok(Rewrite { keep_held, drop: drop as usize, tokens, text, then: self.next(then, here)? })
    }

    fn adoption(&self, adoption: types::Adoption, here: Role) -> Result<Adoption, PolicyError> {
        let types::Adoption { answer, draft, tokens, then } = adoption;
        Ok(Adoption {
            answer: answer as usize,
            draft: draft as usize,
            tokens: tokens as usize,
            then: self.next(then, here)?,
        })
    }

    fn next(&self, next: types::Next, here: Role) -> Result<Next, PolicyError> {
        Ok(match next {
            types::Next::Stay => Next::Stay,
            types::Next::Finish => Next::Finish,
            types::Next::HandOff(to) => Next::Handoff(self.handoff(to, Some(here))?),
        })
    }

    fn check(&self, check: types::Check) -> Result<Check, PolicyError> {
        let types::Check { rule, tokens } = check;
        Ok(Check { rule: self.rule(rule)?, tokens: tokens as usize })
    }

    fn rule(&self, rule: types::Rule) -> Result<Rule, PolicyError> {
        let positive = |what: &str, value: f32| {
            if value >= 0.0 { Ok(value) } else { Err(self.refuse(format!("{what} {value}, at least 0"))) }
        };
        Ok(match rule {
            types::Rule::Exact => Rule::Exact,
            types::Rule::Rejection => Rule::Rejection,
            types::Rule::Typical(types::Typical { epsilon, delta }) => {
                Rule::Typical { epsilon: positive("epsilon", epsilon)?, delta: positive("delta", delta)? }
            }
            types::Rule::MaxLoss(most) => Rule::MaxLoss(positive("max-loss", most)?),
            types::Rule::InTop(count) => {
                self.one_to("tokens to be among", count, CANDIDATES_MOST)?;
                Rule::InTop(count)
            }
        })
    }
}

pub(super) fn signal(signal: types::Signal) -> Signal {
    match signal {
        types::Signal::Entropy => Signal::Entropy,
        types::Signal::EntropyNorm => Signal::EntropyNorm,
        types::Signal::Top1 => Signal::Top1,
        types::Signal::Margin => Signal::Margin,
        types::Signal::Logprob => Signal::Logprob,
        types::Signal::Score0 => Signal::Score(0),
        types::Signal::Score1 => Signal::Score(1),
        types::Signal::Score2 => Signal::Score(2),
        types::Signal::Score3 => Signal::Score(3),
    }
}

const CONDITIONS_MOST: usize = 16;
const TEXT_BYTES: usize = 256;
const TOKENS_MOST: usize = 128;
const CANDIDATES_MOST: usize = 128;
const LAST_MOST: usize = 256;
const SAMPLES_MOST: usize = 64;
const SIDE_BYTES: usize = 16 << 10;
const FORCED_MOST: usize = 4096;
const TEMPERATURE_MOST: f32 = 10.0;
/// Models that one answer may name.
const ROLES_MOST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTE: Context = Context { call: Call::Route, models: 2 };

    fn handed_off(to: u32, tokens: u32) -> Result<Decision, PolicyError> {
        let handoff = types::Handoff { to, tokens, until: Vec::new() };
        decision(types::Decision::HandOff(handoff), Role(0), ROUTE)
    }

    fn refused<T: std::fmt::Debug>(answer: Result<T, PolicyError>) -> String {
        answer.expect_err("it cannot be followed").to_string()
    }

    #[test]
    fn a_handoff_is_followed_or_refused_with_the_role() {
        let visit = Handoff::new(Role(1), NonZeroU32::new(3));
        assert_eq!(handed_off(1, 3).expect("it is followed"), Decision::Handoff(visit));
        let moves = Handoff::new(Role(1), None);
        assert_eq!(handed_off(1, 0).expect("it is followed"), Decision::Handoff(moves));
        assert!(refused(handed_off(2, 1)).contains("a handoff to role 2"));
        assert!(refused(handed_off(u32::MAX, 1)).contains("the roles of this route are 0 to 1"));
        assert!(refused(handed_off(0, 1)).contains("answer stay"));
    }

    #[test]
    fn no_more_is_taken_than_was_offered() {
        assert_eq!(accept(types::Accept::Take(3), 3, ROUTE).expect("all of it"), Accept::Take(3));
        assert!(refused(accept(types::Accept::Take(4), 3, ROUTE)).contains("it takes 4 tokens, but 3"));
    }

    #[test]
    fn what_is_asked_has_bounds_and_the_answer_names_them() {
        let ask = |ask| {
            let question = types::Question { models: vec![1], side: String::new(), with_held: true, ask };
            decision(types::Decision::Consult(question), Role(0), ROUTE)
        };
        assert!(ask(types::Ask::Last(256)).is_ok());
        assert!(refused(ask(types::Ask::Last(257))).contains("257 last tokens, at most 256"));
        assert!(refused(ask(types::Ask::Candidates(0))).contains("0 candidates, at least 1"));
        assert!(refused(ask(types::Ask::Texts(vec![String::new()]))).contains("a text of 0 bytes"));
        let drafts = types::DraftRequest { tokens: 9, until: Vec::new(), samples: 65, temperature: None };
        assert!(refused(ask(types::Ask::Drafts(drafts.clone()))).contains("65 samples, at most 64"));
        let hot = types::DraftRequest { samples: 1, temperature: Some(f32::NAN), ..drafts };
        assert!(refused(ask(types::Ask::Drafts(hot))).contains("temperature NaN"));
    }

    #[test]
    fn a_mixture_needs_finite_weights_of_known_models() {
        let mix = |role, weight| {
            let parts = vec![types::Part { role, weight }];
            let mixture = types::Mixture { space: types::Space::Probs, parts, plausible: None };
            decision(types::Decision::Mix(mixture), Role(0), ROUTE)
        };
        assert!(mix(1, -0.5).is_ok());
        assert!(refused(mix(1, f32::INFINITY)).contains("finite weights"));
        assert!(refused(mix(2, 1.0)).contains("a mixture of role 2"));
    }

    #[test]
    fn a_rule_must_make_sense() {
        let verify = |rule| accept(types::Accept::Verify(types::Check { rule, tokens: 1 }), 1, ROUTE);
        assert!(verify(types::Rule::MaxLoss(0.0)).is_ok());
        assert!(refused(verify(types::Rule::MaxLoss(-1.0))).contains("max-loss -1"));
        assert!(refused(verify(types::Rule::InTop(0))).contains("0 tokens to be among"));
    }
}
