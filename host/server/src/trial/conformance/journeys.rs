//! Cases about what is decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use journey::{Decision, Parcel, Role};
use policy::{Limits, Revision, Session};

use crate::trial::compare::settings;
use crate::trial::{Given, Heard, Said, Trip, models_most, session, steps};

type Settings = BTreeMap<String, f64>;

/// Every call in the order of the interface, under the default settings and at every parameter's limits.
pub(super) fn whole(revision: &Arc<Revision>, _: &Limits) -> Result<String, String> {
    let (mut tokens, mut calls) = (0, 0);
    let defaults = Settings::new();
    let least = Given { models: *revision.descriptor().models.start(), ..given(revision, &defaults, SEED) };
    let settings = settings(&revision.descriptor().parameters);
    let most = settings.iter().map(|settings| given(revision, settings, SEED));
    for given in [least].into_iter().chain(most) {
        let mut trip = trip(revision, &given)?;
        while trip.advance().map_err(|fault| {
            let (settings, models) = (given.settings, given.models);
            format!("{models} models, {settings:?}, token {}: {fault}", trip.tokens())
        })? {}
        tokens += trip.tokens();
        calls += trip.heard.len();
    }
    Ok(format!("{tokens} tokens, {calls} calls"))
}

/// Two sessions of the same journey.
pub(super) fn again(revision: &Arc<Revision>, _: &Limits) -> Result<String, String> {
    let defaults = Settings::new();
    let mut calls = 0;
    for seed in 0..JOURNEYS {
        let given = given(revision, &defaults, seed);
        let first = heard(revision, &given)?;
        let second = heard(revision, &Given { tenant: ALONE + 1, ..given })?;
        same(&first, &second)?;
        calls += first.len();
    }
    Ok(format!("{calls} calls twice"))
}

/// At one position a role hands off once: after that the token is somebody else's.
pub(super) fn progress(revision: &Arc<Revision>, _: &Limits) -> Result<String, String> {
    let mut handoffs = 0;
    for settings in settings(&revision.descriptor().parameters) {
        let heard = heard(revision, &given(revision, &settings, SEED))?;
        let dropping: Vec<(usize, Role)> = dropping(&heard).collect();
        handoffs += dropping.len();
        for (number, left) in dropping.iter().enumerate() {
            if dropping[..number].contains(left) {
                let (committed, role) = left;
                return Err(format!(
                    "{role} hands off twice with {committed} tokens committed, under {settings:?}"
                ));
            }
        }
    }
    Ok(format!("{handoffs} handoffs that drop the held token"))
}

/// Handoffs that commit nothing: the tokens committed, and who left.
fn dropping(heard: &[Heard]) -> impl Iterator<Item = (usize, Role)> {
    heard.windows(2).filter_map(|pair| match (&pair[0].said, &pair[1].said) {
        (Said::Route(Decision::Handoff(_)), Said::Send(Parcel { keep_held: false })) => {
            Some((pair[0].committed, pair[0].here))
        }
        _ => None,
    })
}

/// Two journeys in one instance, a step of each in turn, against each alone.
pub(super) fn interleaved(revision: &Arc<Revision>, _: &Limits) -> Result<String, String> {
    let (defaults, mut calls) = (Settings::new(), 0);
    let others = settings(&revision.descriptor().parameters);
    let other = others.last().unwrap_or(&defaults);
    for seed in 0..JOURNEYS {
        let givens = [given(revision, &defaults, seed), given(revision, other, seed + 1)];
        let alone = [heard(revision, &givens[0])?, heard(revision, &givens[1])?];
        let together = givens.map(|given| trip(revision, &Given { tenant: TOGETHER, ..given }));
        let [one, two] = together;
        let (mut one, mut two) = (one?, two?);
        let (mut one_goes, mut two_goes) = (true, true);
        while one_goes || two_goes {
            one_goes = one_goes && one.advance().map_err(|fault| fault.to_string())?;
            two_goes = two_goes && two.advance().map_err(|fault| fault.to_string())?;
        }
        same(&alone[0], &one.heard)?;
        same(&alone[1], &two.heard)?;
        calls += one.heard.len() + two.heard.len();
    }
    Ok(format!("{calls} calls"))
}

/// Each in a session of its own, so that one failure hides no other.
pub(super) fn extreme(revision: &Arc<Revision>, _: &Limits) -> Result<String, String> {
    let defaults = Settings::new();
    let mut count = 0;
    let mut fresh = || {
        count += 1;
        begin(revision, &given(revision, &defaults, SEED))
    };
    for role in (0..models_most(revision)).map(|role| Role(role as u16)) {
        let heads = revision.descriptor().needs.get(role.index()).map_or(0, |need| need.heads.len());
        for (name, step) in steps::extreme(role, heads) {
            let mut session = fresh()?;
            let decision =
                session.route(u64::from(step.index), &step).map_err(|error| format!("{name}: {error}"))?;
            if let Decision::Handoff(handoff) = decision {
                session.send(u64::from(step.index), &handoff).map_err(|error| format!("{name}: {error}"))?;
            }
        }
        if revision.descriptor().receives {
            for offer in steps::offers(role) {
                let (mut session, tokens) = (fresh()?, offer.tokens.len());
                session
                    .receive(0, &offer)
                    .map_err(|error| format!("an offer of {tokens} tokens: {error}"))?;
            }
        }
    }
    Ok(format!("{count} of them"))
}

/// The most models, alone in an instance.
pub(super) fn given<'a>(revision: &Revision, settings: &'a Settings, seed: u64) -> Given<'a> {
    Given { settings, models: models_most(revision), seed, tenant: ALONE }
}

pub(super) fn begin(revision: &Arc<Revision>, given: &Given<'_>) -> Result<Session, String> {
    session(revision, given).map_err(|error| error.to_string())
}

fn trip(revision: &Arc<Revision>, given: &Given<'_>) -> Result<Trip<Session>, String> {
    Trip::new(revision, given, begin(revision, given)?).map_err(|error| error.to_string())
}

fn heard(revision: &Arc<Revision>, given: &Given<'_>) -> Result<Vec<Heard>, String> {
    trip(revision, given)?.finish().map_err(|fault| fault.to_string())
}

fn same(one: &[Heard], other: &[Heard]) -> Result<(), String> {
    if let Some((one, other)) = one.iter().zip(other).find(|(one, other)| one != other) {
        return Err(format!("at position {}: {:?}, then {:?}", one.position, one.said, other.said));
    }
    if one.len() != other.len() {
        return Err(format!("{} calls, then {}", one.len(), other.len()));
    }
    Ok(())
}

const SEED: u64 = 1;
const JOURNEYS: u64 = 4;
/// Tenants: whoever is alone is in an instance that no other session is in at the same time.
const ALONE: u64 = 1;
const TOGETHER: u64 = 3;
