//! Changes that can be made, drawn at random: one place for each kind. What each leads to say the crates that the server
//! asks, too.

use std::collections::BTreeMap;

use experiment::definition::{Arm, Evidence, Sticky, WHOLE_BP};
use experiment::{Action, Definition, Experiment, State as Stage};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use store::Digest;
use store::policy_history::{Activation, Manifest, PolicyHistory, Uploaded};
use tokenrouter::runtime::builtin_policies;

use super::running::Body;
use super::state::State;

/// A change, and the state that it leads to.
pub(crate) struct Change {
    kind: &'static str,
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: Body,
    pub(crate) next: State,
}

/// Where changes come from.
pub(crate) struct Changes {
    pub(crate) rng: StdRng,
    /// Of the next component or reason: none is there twice.
    number: u32,
    /// How many of each kind were acknowledged.
    counts: BTreeMap<&'static str, u32>,
}

impl Change {
    /// About how long it takes.
    pub(crate) fn takes_us(&self) -> u64 {
        if self.kind == "upload" { UPLOAD_US } else { OTHER_US }
    }
}

impl Changes {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: StdRng::seed_from_u64(seed), number: 0, counts: BTreeMap::new() }
    }

    /// Something that can be done in this state.
    pub(crate) fn change(&mut self, state: &State) -> Change {
        self.number += 1;
        if self.rng.random_range(0..3) == 0 { self.of_policy(state) } else { self.of_experiment(state) }
    }

    /// A change was acknowledged.
    pub(crate) fn count(&mut self, change: &Change) {
        *self.counts.entry(change.kind).or_default() += 1;
    }

    /// How many of each kind were acknowledged.
    pub(crate) fn told(&self) -> String {
        let each = self.counts.iter().map(|(kind, count)| format!("{kind} {count}"));
        each.collect::<Vec<_>>().join(", ")
    }

    fn of_policy(&mut self, state: &State) -> Change {
        let name = format!("p{}", self.rng.random_range(0..3));
        let path = format!("/v1/policies/{name}");
        let there = state.policies.get(&name).cloned();
        let draw = self.rng.random_range(0..10);
        let to = |next: Option<PolicyHistory>| {
            let mut state = state.clone();
            put(&mut state.policies, &name, next);
            state
        };
        match there {
            Some(there) if draw < 2 && there.active.len() > 1 => {
                let next = to(Some(there.roll_back().expect("a way back")));
                post("roll back a policy", path + "/rollback", Body::none(), next)
            }
            Some(there) if draw < 4 => {
                let digest = there.revisions[self.rng.random_range(0..there.revisions.len())].digest;
                let stays = there.serving() == Some(digest);
                let next =
                    if stays { there } else { there.activate(activation(digest)).expect("it is there") };
                post("activate", path + "/activate", Body::json(&json!({"revision": digest})), to(Some(next)))
            }
            Some(_) if draw < 5 => {
                let (kind, method, body) = ("delete a policy", "DELETE", Body::none());
                Change { kind, method, path, body, next: to(None) }
            }
            there => {
                let component = component(self.number);
                let digest = Digest::of(&component);
                let kept = there.unwrap_or_default().keep(REVISIONS_MAX - 1).0;
                let kept = kept.upload(uploaded(digest)).expect("room");
                let next = to(Some(kept.activate(activation(digest)).expect("it is there")));
                let (kind, method, body) = ("upload", "PUT", Body::upload(&component));
                Change { kind, method, path, body, next }
            }
        }
    }

    fn of_experiment(&mut self, state: &State) -> Change {
        let route = ROUTES[self.rng.random_range(0..ROUTES.len())];
        let name = format!("of-{route}");
        let path = format!("/admin/experiments/{name}");
        let there = state.experiments.get(&name);
        let to = |next: Option<Experiment>| {
            let mut state = state.clone();
            put(&mut state.experiments, &name, next);
            state
        };
        let ended = there
            .is_none_or(|there| matches!(there.state, Stage::Promoted { .. } | Stage::RolledBack { .. }));
        let draw = self.rng.random_range(0..10);
        match there {
            Some(_) if ended && draw < 3 => {
                let (kind, method, body) = ("delete an experiment", "DELETE", Body::none());
                Change { kind, method, path, body, next: to(None) }
            }
            Some(there) if let Some((action, next)) = self.action(there).filter(|_| !ended || draw < 6) => {
                let (kind, step, body) = asked(&action);
                post(kind, format!("{path}/{step}"), body, to(Some(next)))
            }
            // Over one that has ended it begins anew, in other words.
            _ => {
                let definition = self.definition(&name, route, state);
                let body = Body::json(&serde_json::to_value(&definition).expect("JSON"));
                let (created, _) = Experiment::create(definition).expect("sound");
                Change { kind: "create", method: "PUT", path, body, next: to(Some(created)) }
            }
        }
    }

    /// One of the actions that this experiment allows, if there is any, and what it leads to.
    fn action(&mut self, there: &Experiment) -> Option<(Action, Experiment)> {
        let reason = || format!("reason {}", self.number);
        let arm = there.definition.arms[usize::from(self.number.is_multiple_of(2))].name.clone();
        let weights_bp = BTreeMap::from([("new".to_owned(), self.rng.random_range(0..=WHOLE_BP))]);
        let weights = Action::SetWeights { weights_bp };
        let actions = [
            weights.clone(),
            weights,
            Action::Pause { reason: reason() },
            Action::Resume,
            Action::Promote { arm, reason: reason() },
            Action::RollBack { reason: reason() },
        ];
        let mut fitting: Vec<_> = actions
            .into_iter()
            .filter_map(|action| Some((action.clone(), there.apply(&action).ok()?.0)))
            .collect();
        let drawn = self.rng.random_range(0..fitting.len().max(1));
        (drawn < fitting.len()).then(|| fitting.swap_remove(drawn))
    }

    /// Its treatment is an uploaded revision, if there is any.
    fn definition(&mut self, name: &str, route: &str, state: &State) -> Definition {
        let uploaded: Vec<Digest> = state
            .policies
            .values()
            .flat_map(|history| &history.revisions)
            .map(|uploaded| uploaded.digest)
            .collect();
        let drawn = self.rng.random_range(0..=uploaded.len());
        let weight_bp = self.rng.random_range(0..=WHOLE_BP);
        let revision = uploaded.get(drawn).map(Digest::to_string);
        Definition {
            name: name.to_owned(),
            route: route.to_owned(),
            seed: format!("a seed of its own, {}", self.number),
            sticky: Sticky::User,
            arms: vec![
                Arm::plain("control", WHOLE_BP - weight_bp),
                Arm { revision, ..Arm::plain("new", weight_bp) },
            ],
            shadows: Vec::new(),
            evidence: Evidence::default(),
            guardrails: Vec::new(),
        }
    }
}

/// An action as the API takes it: what it is called here, the end of its path, and its body.
fn asked(action: &Action) -> (&'static str, &'static str, Body) {
    let (kind, step, body) = match action {
        Action::Pause { reason } => ("pause", "pause", json!({ "reason": reason })),
        Action::Resume => ("resume", "resume", json!({})),
        Action::SetWeights { weights_bp } => ("weights", "weights", json!({ "weights_bp": weights_bp })),
        Action::Promote { arm, reason } => ("promote", "promote", json!({"arm": arm, "reason": reason})),
        Action::RollBack { reason } => ("roll back an experiment", "rollback", json!({ "reason": reason })),
    };
    (kind, step, Body::json(&body))
}

fn post(kind: &'static str, path: String, body: Body, next: State) -> Change {
    Change { kind, method: "POST", path, body, next }
}

fn put<T>(all: &mut BTreeMap<String, T>, name: &str, next: Option<T>) {
    match next {
        Some(next) => all.insert(name.to_owned(), next),
        None => all.remove(name),
    };
}

/// A component of its own: a custom section tells it from the others.
fn component(number: u32) -> Vec<u8> {
    let policies = builtin_policies();
    let (_, pinned) = policies.iter().find(|(name, _)| *name == "pinned").expect("built in");
    let section = [&[0, 9, 4][..], b"mark", &number.to_le_bytes()].concat();
    [pinned, &section[..]].concat()
}

fn uploaded(digest: Digest) -> Uploaded {
    let (by, policy, doc) = (String::new(), String::new(), String::new());
    Uploaded { digest, at_unix_ms: 0, by, bytes: 0, policy, doc, manifest: Manifest::default() }
}

fn activation(digest: Digest) -> Activation {
    Activation { digest, at_unix_ms: 0, by: String::new(), reason: String::new() }
}

/// Of the configuration; each has an experiment.
const ROUTES: [&str; 2] = ["pair", "twin"];
/// `uploads.revisions_max` of the configuration.
const REVISIONS_MAX: usize = 4;
/// About what an upload takes, and any other change.
const UPLOAD_US: u64 = 1_000_000;
const OTHER_US: u64 = 40_000;
