//! Short ways to write the values of the interface.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::{
    Accept, Adoption, Answer, Ask, Bound, Candidate, Check, Condition, Decision, Descriptor, Draft,
    DraftRequest, Found, Guard, Handoff, Limit, Mask, Mixture, Need, Next, Offer, Parameter, Parcel, Part,
    Question, Rewrite, Role, Rule, Signal, Space, Start, Trigger,
};

impl Descriptor {
    /// A policy for routes of two models, without parameters, that sees only scalars and accepts what visits bring.
    #[must_use]
    pub fn new(name: &str, doc: &str) -> Self {
        Self {
            name: name.to_string(),
            doc: doc.to_string(),
            parameters: Vec::new(),
            models_least: 2,
            models_most: 2,
            needs: Vec::new(),
            guards: Vec::new(),
            candidates: 0,
            tail: 0,
            prompt: 0,
            enters: false,
            sends: false,
            receives: false,
            distributions: false,
            holdback: 0,
            fallback: None,
        }
    }

    /// Adds a parameter.
    #[must_use]
    pub fn parameter(mut self, parameter: Parameter) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// How many models a route with this policy may have.
    #[must_use]
    pub fn models(mut self, count: RangeInclusive<u32>) -> Self {
        self.models_least = *count.start();
        self.models_most = *count.end();
        self
    }

    /// How many of the most probable tokens each step shall show; at most 128.
    #[must_use]
    pub fn candidates(mut self, count: u32) -> Self {
        self.candidates = count;
        self
    }

    /// What the model in the next role must have: heads by name.
    #[must_use]
    pub fn need(mut self, name: &str, doc: &str, heads: &[&str]) -> Self {
        let heads = heads.iter().map(|head| head.to_string()).collect();
        self.needs.push(Need { name: name.to_string(), doc: doc.to_string(), heads, context_least: 0 });
        self
    }

    /// Lets `route` be asked about a role's tokens only where this, or another guard of the role, fires.
    #[must_use]
    pub fn guard(mut self, role: Role, fires: Trigger) -> Self {
        self.guards.push(Guard { role, fires });
        self
    }

    /// How many bytes of the answer's end each step shall show; at most 4096.
    #[must_use]
    pub fn tail(mut self, bytes: u32) -> Self {
        self.tail = bytes;
        self
    }

    /// How many bytes of the prompt's end a session begins with; at most 65536.
    #[must_use]
    pub fn prompt(mut self, bytes: u32) -> Self {
        self.prompt = bytes;
        self
    }

    /// Asks for [`Session::enter`](crate::Session::enter) at the beginning.
    #[must_use]
    pub fn enters(mut self) -> Self {
        self.enters = true;
        self
    }

    /// Asks for [`Session::send`](crate::Session::send) at each handoff.
    #[must_use]
    pub fn sends(mut self) -> Self {
        self.sends = true;
        self
    }

    /// Has distributions kept, for [`Accept::Verify`] by rejection and for [`Decision::Mix`].
    #[must_use]
    pub fn distributions(mut self) -> Self {
        self.distributions = true;
        self
    }

    /// How many committed tokens the client does not see until others follow; they can be dropped.
    #[must_use]
    pub fn holdback(mut self, tokens: u32) -> Self {
        self.holdback = tokens;
        self
    }

    /// Asks for [`Session::receive`](crate::Session::receive) after each bounded visit.
    #[must_use]
    pub fn receives(mut self) -> Self {
        self.receives = true;
        self
    }
}

impl Trigger {
    /// Fires where the signal is above the parameter.
    #[must_use]
    pub fn above(signal: Signal, parameter: &str) -> Self {
        Self::Above(Limit { signal, parameter: parameter.to_string() })
    }

    /// Fires where the signal is below the parameter.
    #[must_use]
    pub fn below(signal: Signal, parameter: &str) -> Self {
        Self::Below(Limit { signal, parameter: parameter.to_string() })
    }

    /// Fires where the held token completes a text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_string())
    }

    /// Fires at the first token after a text, and at the first of the answer.
    #[must_use]
    pub fn after_text(text: &str) -> Self {
        Self::AfterText(text.to_string())
    }
}

impl Condition {
    /// Holds where the signal is above a value.
    #[must_use]
    pub fn above(signal: Signal, value: f32) -> Self {
        Self::Above(Bound { signal, value })
    }

    /// Holds where the signal is below a value.
    #[must_use]
    pub fn below(signal: Signal, value: f32) -> Self {
        Self::Below(Bound { signal, value })
    }

    /// Holds where what was made since the beginning contains a text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_string())
    }
}

impl Handoff {
    /// To the model `to`: for that many tokens and then back, or with 0 to stay there.
    #[must_use]
    pub fn new(to: Role, tokens: u32) -> Self {
        Self { to, tokens, until: Vec::new() }
    }

    /// Back also after a token for which this holds.
    #[must_use]
    pub fn until(mut self, condition: Condition) -> Self {
        self.until.push(condition);
        self
    }
}

impl Question {
    /// To one model, about what follows the answer and the held token.
    #[must_use]
    pub fn to(model: Role, ask: Ask) -> Self {
        Self { models: [model].into(), side: String::new(), with_held: true, ask }
    }

    /// With a text that follows the answer for this question only.
    #[must_use]
    pub fn side(mut self, text: &str) -> Self {
        self.side = text.to_string();
        self
    }

    /// About what follows the answer alone, without the held token or what was offered.
    #[must_use]
    pub fn without_held(mut self) -> Self {
        self.with_held = false;
        self
    }
}

impl DraftRequest {
    /// One continuation of at most so many tokens, drawn as the answer would be.
    #[must_use]
    pub fn new(tokens: u32) -> Self {
        Self { tokens, until: Vec::new(), samples: 1, temperature: None }
    }
}

impl Answer {
    /// The log-probabilities that were asked for; none if something else was.
    #[must_use]
    pub fn logprobs(&self) -> &[f32] {
        if let Found::Logprobs(logprobs) = &self.found { logprobs } else { &[] }
    }

    /// The most probable tokens that were asked for; none if something else was.
    #[must_use]
    pub fn candidates(&self) -> Vec<Candidate> {
        if let Found::Candidates(candidates) = &self.found { candidates.all() } else { Vec::new() }
    }

    /// What the heads say, if that was asked for.
    #[must_use]
    pub fn scores(&self) -> &[f32] {
        if let Found::Scores(scores) = &self.found { scores } else { &[] }
    }

    /// The continuations that were asked for; none if something else was.
    #[must_use]
    pub fn drafts(&self) -> &[Draft] {
        if let Found::Drafts(drafts) = &self.found { drafts } else { &[] }
    }
}

impl Mixture {
    /// Of these models with these weights; everything is plausible.
    #[must_use]
    pub fn new(space: Space, parts: &[(Role, f32)]) -> Self {
        let parts = parts.iter().map(|&(role, weight)| Part { role, weight }).collect();
        Self { space, parts, plausible: None }
    }

    /// Without the tokens that a model finds less probable than `share` times its most probable one.
    #[must_use]
    pub fn plausible(mut self, role: Role, share: f32) -> Self {
        self.plausible = Some(Mask { role, share });
        self
    }
}

impl Rewrite {
    /// Drops the held token and so many before it.
    #[must_use]
    pub fn drop_last(tokens: u32, then: Next) -> Self {
        Self { keep_held: false, drop: tokens, tokens: Vec::new(), text: String::new(), then }
    }
}

impl Adoption {
    /// All of a draft of the first answer.
    #[must_use]
    pub fn whole(draft: u32, then: Next) -> Self {
        Self { answer: 0, draft, tokens: u32::MAX, then }
    }
}

impl Parameter {
    /// Any number of the range.
    #[must_use]
    pub fn number(key: &str, default: f64, range: RangeInclusive<f64>, doc: &str) -> Self {
        Self {
            key: key.to_string(),
            default,
            least: *range.start(),
            most: *range.end(),
            whole: false,
            doc: doc.to_string(),
        }
    }

    /// A whole number of the range.
    #[must_use]
    pub fn count(key: &str, default: u32, range: RangeInclusive<u32>, doc: &str) -> Self {
        let range = f64::from(*range.start())..=f64::from(*range.end());
        Self { whole: true, ..Self::number(key, f64::from(default), range, doc) }
    }
}

impl Start {
    /// The value of a declared parameter.
    ///
    /// # Panics
    /// When the policy did not declare `key`; the host gives a value for every parameter that it did.
    #[must_use]
    pub fn number(&self, key: &str) -> f64 {
        self.settings.value(key).expect("the parameter is declared in the descriptor")
    }

    /// The value of a parameter that was declared by [`Parameter::count`].
    ///
    /// # Panics
    /// As [`Self::number`].
    #[must_use]
    pub fn count(&self, key: &str) -> u32 {
        self.number(key) as u32
    }

    /// Positions after the prompt that every model of the route can hold. A question beyond them is answered with
    /// [`Found::Nothing`]: the answer, the offer and the side text must leave one of them free.
    #[must_use]
    pub fn room(&self) -> u32 {
        self.context.saturating_sub(self.prompt_tokens)
    }
}

impl Decision {
    /// To the model `to`: for that many tokens and then back, or with 0 to stay there.
    #[must_use]
    pub fn hand_off(to: Role, tokens: u32) -> Self {
        Self::HandOff(Handoff::new(to, tokens))
    }
}

impl Parcel {
    /// The held token is dropped; the target decides its position.
    pub const DROP_HELD: Self = Self { keep_held: false };

    /// The held token is committed before the journey leaves.
    pub const KEEP_HELD: Self = Self { keep_held: true };
}

impl Check {
    /// Of all that was offered.
    #[must_use]
    pub fn all(rule: Rule) -> Self {
        Self { rule, tokens: u32::MAX }
    }
}

impl Accept {
    /// What the judge keeps of everything that was offered.
    #[must_use]
    pub fn verify(rule: Rule) -> Self {
        Self::Verify(Check::all(rule))
    }

    /// Takes everything that was offered.
    #[must_use]
    pub fn all(offer: &Offer) -> Self {
        Self::Take(offer.tokens.len() as u32)
    }
}
