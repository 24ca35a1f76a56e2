//! What was acknowledged, and what a server tells of it.

use std::collections::{BTreeMap, BTreeSet};

use experiment::{Experiment, State as Stage};
use serde_json::Value;
use store::policy_history::PolicyHistory;

/// What was acknowledged, by name. The rules of its steps are the server's own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    pub(crate) policies: BTreeMap<String, PolicyHistory>,
    pub(crate) experiments: BTreeMap<String, Experiment>,
}

/// What of it a client is told.
#[derive(Debug, PartialEq)]
pub(crate) struct Told {
    /// Of each policy the active revision and all of them, the newest first.
    policies: BTreeMap<String, (String, Vec<String>)>,
    experiments: BTreeMap<String, ToldExperiment>,
}

#[derive(Debug, PartialEq)]
struct ToldExperiment {
    stage: String,
    reason: Option<String>,
    phase: u64,
    weights_bp: Vec<u64>,
    /// The uploaded revision that the treatment serves, by the beginning that arms are shown with.
    revision: Option<String>,
}

impl State {
    pub(crate) fn told(&self) -> Told {
        let policy = |history: &PolicyHistory| {
            let revisions = history.revisions.iter().rev().map(|uploaded| uploaded.digest.to_string());
            (history.serving().expect("active").to_string(), revisions.collect())
        };
        Told {
            policies: self.policies.iter().map(|(name, history)| (name.clone(), policy(history))).collect(),
            experiments: self.experiments.iter().map(|(name, there)| (name.clone(), told(there))).collect(),
        }
    }

    /// The uploaded revisions that a policy or an experiment names.
    pub(crate) fn revisions(&self) -> BTreeSet<String> {
        let of_policies = self.policies.values().flat_map(|history| &history.revisions);
        let of_policies = of_policies.map(|uploaded| uploaded.digest.to_string());
        let arms = self.experiments.values().flat_map(|there| &there.definition.arms);
        of_policies.chain(arms.filter_map(|arm| arm.revision.clone())).collect()
    }
}

fn told(there: &Experiment) -> ToldExperiment {
    let arms = &there.definition.arms;
    let (reason, serves) = match &there.state {
        Stage::Running => (None, true),
        Stage::Paused { reason } | Stage::Promoted { reason, .. } => (Some(reason), true),
        Stage::RolledBack { reason } => (Some(reason), false),
    };
    ToldExperiment {
        stage: there.state.name().to_owned(),
        reason: reason.cloned(),
        phase: u64::from(there.phase),
        weights_bp: arms.iter().map(|arm| u64::from(arm.weight_bp)).collect(),
        revision: arms[1].revision.as_ref().filter(|_| serves).map(|digits| digits[..SHOWN].to_owned()),
    }
}

impl Told {
    /// Of the two lists. What is there is also in force.
    pub(crate) fn of_server(policies: &Value, experiments: &Value) -> Self {
        let policies = list(&policies["data"]).iter().map(|policy| {
            assert_eq!(policy.get("broken"), None, "{policy}");
            let revisions = list(&policy["revisions"]).iter().map(|of| text(&of["revision"]));
            (text(&policy["name"]), (text(&policy["active"]), revisions.collect()))
        });
        let experiments = list(&experiments["experiments"]).iter().map(|told| {
            assert_eq!(told["problem"], Value::Null, "{told}");
            let arms = list(&told["arms"]);
            // What serves as the route does has the route's revision.
            let own = arms[1]["revision"].as_str().filter(|own| arms[0]["revision"] != **own);
            let experiment = ToldExperiment {
                stage: text(&told["state"]),
                reason: told["reason"].as_str().map(str::to_owned),
                phase: number(&told["phase"]),
                weights_bp: arms.iter().map(|arm| number(&arm["weight_bp"])).collect(),
                revision: own.map(str::to_owned),
            };
            (text(&told["name"]), experiment)
        });
        Self { policies: policies.collect(), experiments: experiments.collect() }
    }
}

/// Digits of a revision.
const SHOWN: usize = 12;

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}
