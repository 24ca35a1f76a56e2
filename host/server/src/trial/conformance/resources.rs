//! Cases about what a policy takes.

use std::collections::BTreeMap;
use std::sync::Arc;

use journey::{Accept, Decision, Handoff, Offer, Parcel, Role, Step};
use policy::{Limits, PolicyError, Revision, Session};

use super::journeys::{begin, given};
use crate::trial::{Decider, Given, Trip, steps};

/// What the calls of a few journeys take, against what one may.
pub(super) fn fuel(revision: &Arc<Revision>, limits: &Limits) -> Result<String, String> {
    let settings = BTreeMap::new();
    let mut spent = Vec::new();
    for seed in 0..JOURNEYS {
        let given = given(revision, &settings, seed);
        let metered = Metered { session: begin(revision, &given)?, spent: Vec::new() };
        let mut trip = Trip::new(revision, &given, metered).map_err(|error| error.to_string())?;
        while trip.advance().map_err(|fault| fault.to_string())? {}
        spent.extend(trip.into_decider().spent);
    }
    if spent.is_empty() {
        return Ok("no guard fired, so no call was made".to_owned());
    }
    spent.sort_unstable();
    let (median, most) = (spent[spent.len() / 2], spent[spent.len() - 1]);
    let allowed = limits.fuel_per_call;
    let found = format!("p50 {median}, max {most} of {allowed} ({} calls)", spent.len());
    // What these journeys did not show must find room, too.
    if most > allowed / 2 { Err(format!("{found}: more than half")) } else { Ok(found) }
}

/// Sessions that come and go in one instance leave nothing behind.
pub(super) fn memory(revision: &Arc<Revision>, limits: &Limits) -> Result<String, String> {
    let settings = BTreeMap::new();
    // Keeps the instance there while the others come and go.
    let given = Given { tenant: MEMORY, ..given(revision, &settings, 0) };
    let keeper = begin(revision, &given)?;
    let mut warm = 0;
    for number in 0..SESSIONS {
        let mut session = begin(revision, &Given { seed: number, ..given })?;
        session.route(3, &steps::usual(Role::ENTRY)).map_err(|error| format!("session {number}: {error}"))?;
        drop(session);
        if number + 1 == SESSIONS / 10 {
            warm = keeper.memory_bytes().unwrap_or_default();
        }
    }
    let end = keeper.memory_bytes().unwrap_or_default();
    let grown = end.saturating_sub(warm);
    let found = format!("{} KiB, {} more than after {}", end >> 10, grown >> 10, SESSIONS / 10);
    // An instance is given up after as many sessions as these; until then what leaks must find room.
    let allowed = limits.memory_bytes / 16;
    if grown > allowed { Err(format!("{found} sessions: it leaks")) } else { Ok(found) }
}

/// Notes the fuel of each call.
struct Metered {
    session: Session,
    spent: Vec<u64>,
}

impl Metered {
    fn noted<T>(&mut self, answer: Result<T, PolicyError>) -> Result<T, PolicyError> {
        self.spent.extend(self.session.fuel());
        answer
    }
}

impl Decider for Metered {
    fn enter(&mut self, position: u64) -> Result<Role, PolicyError> {
        let answer = self.session.enter(position);
        self.noted(answer)
    }

    fn route(&mut self, position: u64, step: &Step) -> Result<Decision, PolicyError> {
        let answer = self.session.route(position, step);
        self.noted(answer)
    }

    fn send(&mut self, position: u64, handoff: &Handoff) -> Result<Parcel, PolicyError> {
        self.session.send(position, handoff)
    }

    fn receive(&mut self, position: u64, offer: &Offer) -> Result<Accept, PolicyError> {
        let answer = self.session.receive(position, offer);
        self.noted(answer)
    }
}

const JOURNEYS: u64 = 4;
const SESSIONS: u64 = 10_000;
/// A tenant of its own.
const MEMORY: u64 = 9;
