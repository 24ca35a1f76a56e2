//! Whether two components are the same policy: asked the same, they must say the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use journey::{Accept, Decision, Handoff, Offer, Parcel, Role, Step};
use policy::{Parameter, PolicyError, Revision, Session};

use super::{Decider, Fault, Given, Trip, models_most, session};

/// How far two components agree.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Tokens of the answers that both decided about.
    pub tokens: usize,
    /// Calls that both answered.
    pub calls: usize,
    /// Handoffs among the answers.
    pub handoffs: usize,
    /// What they disagree about, at most [`DIFFERENCES_MOST`].
    pub differences: Vec<String>,
}

/// Leads both through the same journeys, with the default settings and with every parameter at other values. The first
/// answer is followed where they differ.
///
/// # Errors
/// [`Fault`] of the first component; what the second one does wrong is a difference.
pub fn compare(one: &Arc<Revision>, other: &Arc<Revision>) -> Result<Comparison, Fault> {
    let mut found = Comparison::default();
    if one.descriptor() != other.descriptor() {
        let (one, other) = (one.descriptor(), other.descriptor());
        found.differences.push(format!("descriptor: {one:?}\n  against {other:?}"));
        return Ok(found);
    }
    for settings in settings(&one.descriptor().parameters) {
        for seed in 1..=JOURNEYS {
            let given = Given { settings: &settings, models: models_most(one), seed, tenant: 0 };
            let pair = Pair::new(session(one, &given)?, session(other, &given));
            let mut trip = Trip::new(one, &given, pair)?;
            while trip.advance()? {}
            found.tokens += trip.tokens();
            found.handoffs += trip.handoffs();
            let pair = trip.into_decider();
            found.calls += pair.calls;
            found.differences.extend(pair.apart.map(|apart| format!("{settings:?}, seed {seed}: {apart}")));
            if found.differences.len() >= DIFFERENCES_MOST {
                return Ok(found);
            }
        }
    }
    Ok(found)
}

/// The defaults, then one parameter after the other at its least, at twice its default, and at its most.
pub(super) fn settings(parameters: &[Parameter]) -> Vec<BTreeMap<String, f64>> {
    let mut all = vec![BTreeMap::new()];
    for parameter in parameters {
        let (least, most) = (*parameter.range.start(), *parameter.range.end());
        for value in [least, (2.0 * parameter.default).clamp(least, most), most] {
            if value != parameter.default && parameter.allows(value) {
                all.push(BTreeMap::from([(parameter.key.clone(), value)]));
            }
        }
    }
    all
}

/// Two sessions that are asked the same.
struct Pair {
    one: Session,
    /// `None` once it has gone another way.
    other: Option<Session>,
    /// The first difference.
    apart: Option<String>,
    calls: usize,
}

impl Pair {
    fn new(one: Session, other: Result<Session, PolicyError>) -> Self {
        let apart = other.as_ref().err().map(|error| format!("the second does not begin: {error}"));
        Self { one, other: other.ok(), apart, calls: 0 }
    }

    fn both<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: &str,
        position: u64,
        ask: impl Fn(&mut Session) -> Result<T, PolicyError>,
    ) -> Result<T, PolicyError> {
        let said = ask(&mut self.one)?;
        let Some(other) = &mut self.other else { return Ok(said) };
        self.calls += 1;
        let differs = match ask(other) {
            Ok(twin) if twin == said => return Ok(said),
            Ok(twin) => format!("{twin:?}"),
            Err(error) => error.to_string(),
        };
        self.apart = Some(format!("{what} at position {position}: {said:?} against {differs}"));
        self.other = None;
        Ok(said)
    }
}

impl Decider for Pair {
    fn enter(&mut self, position: u64) -> Result<Role, PolicyError> {
        self.both("enter", position, |session| session.enter(position))
    }

    fn route(&mut self, position: u64, step: &Step) -> Result<Decision, PolicyError> {
        self.both("route", position, |session| session.route(position, step))
    }

    fn send(&mut self, position: u64, handoff: &Handoff) -> Result<Parcel, PolicyError> {
        self.both("send", position, |session| session.send(position, handoff))
    }

    fn receive(&mut self, position: u64, offer: &Offer) -> Result<Accept, PolicyError> {
        self.both("receive", position, |session| session.receive(position, offer))
    }
}

/// Differences after which a comparison ends.
pub const DIFFERENCES_MOST: usize = 8;
/// Journeys for each setting.
const JOURNEYS: u64 = 3;
