//! Steps in a file, one JSON object a line, and the decisions that they lead to.
//!
//! A line is a step of `wit/types.wit` (`{"index": 3, "entropy": 2.1, ...}`; what is left out is that of a sure token), or
//! `{"offer": {...}}` after a visit. `expect` beside it is what the answer must have.

use journey::{
    Accept, Candidate, Check, Decision, Ended, Handoff, Offer, Role, Rules, Sampled, Signals, Step, Trigger,
};
use policy::{Revision, Session};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Fault;

/// A line of a file of steps.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Line {
    /// The position being decided, which keys `uniform`; without it, the index.
    position: Option<u64>,
    index: u32,
    run: u32,
    role: u16,
    token: u32,
    at_eos: bool,
    /// Without it, the host's own look at the guards.
    fired: Option<u32>,
    logprob: f32,
    entropy: f32,
    top1: f32,
    margin: f32,
    scores: Vec<f32>,
    candidates: Vec<Shown>,
    tail: String,
    offer: Option<Brought>,
    expect: Map<String, Value>,
}

/// A candidate.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    token: u32,
    logit: f32,
    prob: f32,
}

/// What a visit brought.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Brought {
    source: u16,
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    text: String,
}

/// A line that is no step.
#[derive(Debug, thiserror::Error)]
#[error("line {number} is neither a step nor an offer")]
pub struct LineError {
    number: usize,
    source: serde_json::Error,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            position: None,
            index: 0,
            run: 0,
            role: 0,
            token: 0,
            at_eos: false,
            fired: None,
            logprob: -0.01,
            entropy: 0.01,
            top1: 0.99,
            margin: 0.98,
            scores: Vec::new(),
            candidates: Vec::new(),
            tail: String::new(),
            offer: None,
            expect: Map::new(),
        }
    }
}

impl Line {
    /// All lines of a file; empty ones and those that begin with `#` are left out.
    ///
    /// # Errors
    /// [`LineError`] of the first that cannot be read.
    pub fn parse(text: &str) -> Result<Vec<Self>, LineError> {
        let told = |(_, line): &(usize, &str)| !line.trim().is_empty() && !line.starts_with('#');
        let parse = |(index, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|source| LineError { number: index + 1, source })
        };
        text.lines().enumerate().filter(told).map(parse).collect()
    }

    /// What the answer lacks of what was expected.
    #[must_use]
    pub fn missed(&self, answer: &Value) -> Option<String> {
        let missed = |(key, value): (&String, &Value)| {
            let found = answer.get(key).unwrap_or(&Value::Null);
            (found != value).then(|| format!("{key} is {found}, expected {value}"))
        };
        self.expect.iter().find_map(missed)
    }

    /// Whether a policy would be asked this on a route of so many models.
    #[must_use]
    pub fn is_for(&self, revision: &Revision, models: usize) -> bool {
        match &self.offer {
            Some(brought) => revision.descriptor().receives && usize::from(brought.source) < models,
            None => usize::from(self.role) < models,
        }
    }

    fn step(&self, fired: Option<u32>) -> Step {
        let shown = |shown: &Shown| Candidate { token: shown.token, logit: shown.logit, prob: shown.prob };
        Step {
            index: self.index,
            run: self.run,
            role: Role(self.role),
            at_eos: self.at_eos,
            fired,
            sampled: Sampled {
                token: self.token,
                logprob: self.logprob,
                signals: Signals { entropy: self.entropy, top1: self.top1, margin: self.margin },
                candidates: self.candidates.iter().map(shown).collect(),
                scores: self.scores.clone(),
                ..Sampled::default()
            },
            tail: self.tail.clone(),
            answers: Vec::new(),
        }
    }

    /// Whether the host would ask about this step, and the guard that fires.
    fn asks(&self, rules: &Rules) -> Option<Option<u32>> {
        if self.fired.is_some() || rules.guards_of(Role(self.role)).next().is_none() {
            return Some(self.fired);
        }
        let step = self.step(None);
        let fires = |trigger: &Trigger| match trigger {
            Trigger::Above(signal, value) => signal.of(&step.sampled, VOCABULARY) > *value,
            Trigger::Below(signal, value) => signal.of(&step.sampled, VOCABULARY) < *value,
            Trigger::Text(_) => false,
            Trigger::AfterText(text) => self.index == 0 || self.tail.ends_with(text.as_str()),
            Trigger::Start => self.index == 0,
            Trigger::End => self.at_eos,
        };
        rules.guards_of(Role(self.role)).find(|(_, trigger)| fires(trigger)).map(|(index, _)| Some(index))
    }
}

/// Asks a session about a line; the answer as JSON.
///
/// # Errors
/// What the policy did wrong.
pub fn asked(session: &mut Session, rules: &Rules, line: &Line) -> Result<Value, Fault> {
    let position = line.position.unwrap_or_else(|| u64::from(line.index));
    if let Some(brought) = &line.offer {
        let offer = Offer {
            from: Role(brought.source),
            tokens: brought.tokens.clone(),
            logprobs: brought.logprobs.clone(),
            text: brought.text.clone(),
            why: Ended::Length,
            answers: Vec::new(),
        };
        return Ok(accepted(&session.receive(position, &offer)?));
    }
    let Some(fired) = line.asks(rules) else {
        return Ok(json!({ "index": line.index, "asked": false, "decision": "stay" }));
    };
    let decision = session.route(position, &line.step(fired))?;
    let mut answer = shown(&decision);
    answer["index"] = json!(line.index);
    answer["asked"] = json!(true);
    if let Decision::Handoff(handoff) = &decision {
        answer["keep_held"] = json!(session.send(position, handoff)?.keep_held);
    }
    Ok(answer)
}

/// An answer of `receive` as JSON.
#[must_use]
pub fn accepted(accept: &Accept) -> Value {
    match accept {
        Accept::Take(take) => json!({ "accept": "take", "take": take }),
        Accept::Verify(Check { rule, tokens }) => {
            json!({ "accept": "verify", "rule": format!("{rule:?}"), "tokens": tokens })
        }
        Accept::Consult(question) => json!({ "accept": "consult", "question": format!("{question:?}") }),
    }
}

/// An answer of `route` as JSON.
#[must_use]
pub fn shown(decision: &Decision) -> Value {
    match decision {
        Decision::Stay => json!({ "decision": "stay" }),
        Decision::Finish => json!({ "decision": "finish" }),
        Decision::Handoff(Handoff { to, run, until }) => json!({
            "decision": "hand-off",
            "to": to.0,
            "tokens": run.map_or(0, std::num::NonZeroU32::get),
            "until": until.iter().map(|condition| format!("{condition:?}")).collect::<Vec<_>>(),
        }),
        Decision::Consult(question) => json!({ "decision": "consult", "question": format!("{question:?}") }),
        Decision::Mix(mixture) => json!({ "decision": "mix", "mixture": format!("{mixture:?}") }),
        Decision::Rewrite(rewrite) => json!({ "decision": "rewrite", "rewrite": format!("{rewrite:?}") }),
        Decision::Adopt(adoption) => json!({ "decision": "adopt", "adoption": format!("{adoption:?}") }),
    }
}

/// Of the models that a file of steps comes from; only `entropy-norm` depends on it.
const VOCABULARY: usize = super::toy::VOCABULARY as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_step_is_named() {
        let error = Line::parse("# steps\n{\"index\": 1}\n{\"entropie\": 1}\n").expect_err("misspelt");
        assert_eq!(error.to_string(), "line 3 is neither a step nor an offer");
        assert_eq!(Line::parse("# steps\n\n{\"index\": 1}\n").expect("a step").len(), 1);
    }

    #[test]
    fn what_was_expected_and_did_not_come_is_shown() {
        let lines = Line::parse("{\"expect\": {\"decision\": \"stay\"}}").expect("a step");
        assert_eq!(lines[0].missed(&json!({ "decision": "stay", "index": 0 })), None);
        let missed = lines[0].missed(&json!({ "decision": "finish" })).expect("it differs");
        assert_eq!(missed, "decision is \"finish\", expected \"stay\"");
    }
}
