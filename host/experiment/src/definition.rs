//! What a person writes about an experiment, and its checks.
//!
//! Weights are whole basis points, 10,000 to the whole, so that every replica computes the same layout.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::guardrail::{Guardrail, Statistic};
use crate::metric::Metric;

/// The whole, in basis points.
pub const WHOLE_BP: u16 = 10_000;
/// Most arms that answer.
pub const ARMS_MAX: usize = 16;

/// An experiment on a route, as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Its name; part of the hash, so experiments with one seed are independent all the same. Where it is written in a
    /// place that names it, it may be left out there.
    #[serde(default)]
    pub name: String,
    /// The route whose requests take part.
    pub route: String,
    /// Key of the hash that assigns arms; at least [`SEED_BYTES_MIN`] bytes. Who knows it can tell arms in advance.
    pub seed: String,
    /// What keeps its arm. Default: each request is on its own.
    #[serde(default)]
    pub sticky: Sticky,
    /// The arms that answer, the control first; weights add up to [`WHOLE_BP`].
    pub arms: Vec<Arm>,
    /// Arms that see copies of requests and never answer.
    #[serde(default)]
    pub shadows: Vec<Arm>,
    /// What may be concluded, and how surely.
    #[serde(default)]
    pub evidence: Evidence,
    /// Limits whose crossing rolls the experiment back.
    #[serde(default)]
    pub guardrails: Vec<Guardrail>,
}

/// What serves a part of the route's requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Its name, unique in the experiment.
    pub name: String,
    /// Part of the keys, in basis points. For a shadow: part of the requests that are copied to it.
    pub weight_bp: u16,
    /// The most that `weight_bp` may grow to while the experiment runs, in basis points. Default: treatments share the
    /// whole equally, so a single one may grow to all. No meaning for the control and for shadows.
    #[serde(default)]
    pub ceiling_bp: Option<u16>,
    /// The policy, as a route names one. Default: the route's.
    #[serde(default)]
    pub policy: Option<String>,
    /// The policy revision by its SHA-256 in hexadecimal. Default: the one that the policy has in force.
    #[serde(default)]
    pub revision: Option<String>,
    /// Models by role. Default: the route's.
    #[serde(default)]
    pub models: Vec<String>,
    /// Settings that differ from the route's; with a `policy` of its own, from that policy's defaults.
    #[serde(default)]
    pub settings: BTreeMap<String, f64>,
}

/// What keeps its arm over requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sticky {
    /// Nothing; the key is the request's id.
    #[default]
    Request,
    /// The tenant.
    Tenant,
    /// The `user` of the request, within its tenant.
    User,
    /// The value of this HTTP header, within its tenant.
    Header(String),
    /// The beginning of a chat, up to its first message of a user, within its tenant: a chat that goes on keeps its arm.
    Conversation,
}

/// What may be concluded, and how surely.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Evidence {
    /// Metrics on which arms are compared. They share `alpha`; the others are shown without a verdict. Default: errors.
    pub metrics: BTreeSet<Metric>,
    /// Chance that any of the experiment's verdicts is wrong where the arms are alike, however often one looks.
    /// Default 0.05.
    pub alpha: f64,
    /// Chance that any guardrail fires without cause. Default 0.05.
    pub guard_alpha: f64,
    /// Chance of a false alarm about the sample ratio. Default 0.001.
    pub ratio_alpha: f64,
    /// Answers over both arms at which intervals are to be tightest. They are valid at any number. Default 5,000.
    pub horizon: u32,
    /// Answers of each arm before intervals that rest on a limit theorem are shown. Default 300: times have long tails,
    /// and with 100 a tenth of the keys treated is wrong twice as often (`examples/false_positives.rs`).
    pub answers_min: u32,
}

impl Default for Evidence {
    fn default() -> Self {
        Self {
            metrics: BTreeSet::from([Metric::Errors]),
            alpha: 0.05,
            guard_alpha: 0.05,
            ratio_alpha: 0.001,
            horizon: 5_000,
            answers_min: 300,
        }
    }
}

/// A definition that cannot be followed. The message names the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    /// A key has a value that makes no sense.
    #[error("{key} {problem}")]
    Value {
        /// The key, as a path.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Weights of arms that answer.
    #[error("the weights of the arms add up to {0} basis points, not {WHOLE_BP}")]
    Weights(u32),
    /// Room for treatments.
    #[error("the ceilings of the treatments add up to {0} basis points, more than {WHOLE_BP}")]
    Ceilings(u32),
}

impl Definition {
    /// Whether it can be followed.
    ///
    /// # Errors
    /// [`DefinitionError`], naming the key.
    pub fn check(&self) -> Result<(), DefinitionError> {
        require(is_name(&self.name), "name", NAME_RULE)?;
        require(!self.route.is_empty(), "route", "is empty")?;
        let problem = format!("is shorter than {SEED_BYTES_MIN} bytes, so arms can be guessed");
        require(self.seed.len() >= SEED_BYTES_MIN, "seed", &problem)?;
        require(self.sticky != Sticky::Header(String::new()), "sticky.header", "is empty")?;
        require(self.arms.len() >= 2, "arms", "needs a control and at least one treatment")?;
        let many = self.arms.len().max(self.shadows.len()) > ARMS_MAX;
        require(!many, "arms", &format!("has more than {ARMS_MAX}"))?;
        let mut names = BTreeSet::new();
        for arm in self.arms.iter().chain(&self.shadows) {
            arm.check()?;
            require(names.insert(&arm.name), "arms.name", &format!("{:?} is there twice", arm.name))?;
        }
        self.check_weights()?;
        self.evidence.check()?;
        self.guardrails.iter().try_for_each(check_guardrail)
    }

    /// The largest weight that each arm may have, the control's entry being the whole.
    ///
    /// Treatments without a ceiling share equally what those with one leave.
    #[must_use]
    pub fn ceilings_bp(&self) -> Vec<u16> {
        let treatments = self.arms.get(1..).unwrap_or_default();
        let taken: u32 = treatments.iter().filter_map(|arm| arm.ceiling_bp.map(u32::from)).sum();
        let open = treatments.iter().filter(|arm| arm.ceiling_bp.is_none()).count().max(1) as u32;
        let share = (u32::from(WHOLE_BP).saturating_sub(taken) / open) as u16;
        let ceilings = treatments.iter().map(|arm| arm.ceiling_bp.unwrap_or(share));
        std::iter::once(WHOLE_BP).chain(ceilings).collect()
    }

    fn check_weights(&self) -> Result<(), DefinitionError> {
        let sum: u32 = self.arms.iter().map(|arm| u32::from(arm.weight_bp)).sum();
        if sum != u32::from(WHOLE_BP) {
            return Err(DefinitionError::Weights(sum));
        }
        let ceilings = self.ceilings_bp();
        let room: u32 = ceilings.iter().skip(1).map(|&ceiling| u32::from(ceiling)).sum();
        if room > u32::from(WHOLE_BP) {
            return Err(DefinitionError::Ceilings(room));
        }
        for (arm, ceiling) in self.arms.iter().zip(ceilings) {
            let problem = format!("{} is above the arm's ceiling {ceiling}", arm.weight_bp);
            require(arm.weight_bp <= ceiling, &format!("arms.{}.weight_bp", arm.name), &problem)?;
        }
        Ok(())
    }
}

impl Arm {
    /// An arm that serves what the route would, with this part of the keys.
    #[must_use]
    pub fn plain(name: &str, weight_bp: u16) -> Self {
        Self {
            name: name.to_owned(),
            weight_bp,
            ceiling_bp: None,
            policy: None,
            revision: None,
            models: Vec::new(),
            settings: BTreeMap::new(),
        }
    }

    /// Whether it serves what the route would.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.policy.is_none() && self.revision.is_none() && self.models.is_empty() && self.settings.is_empty()
    }

    fn check(&self) -> Result<(), DefinitionError> {
        require(is_name(&self.name), "arms.name", NAME_RULE)?;
        require(
            self.weight_bp <= WHOLE_BP,
            &format!("arms.{}.weight_bp", self.name),
            "is more than the whole",
        )?;
        let digest = |text: &String| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let revision = self.revision.as_ref().is_none_or(digest);
        require(revision, &format!("arms.{}.revision", self.name), "is not 64 hexadecimal digits")?;
        let one = self.policy.is_none() || self.revision.is_none();
        require(
            one,
            &format!("arms.{}.policy", self.name),
            "cannot stand beside revision; give one of them",
        )?;
        let finite = self.settings.values().all(|value| value.is_finite());
        require(finite, &format!("arms.{}.settings", self.name), "holds a number that is not finite")
    }
}

impl Evidence {
    fn check(&self) -> Result<(), DefinitionError> {
        let levels =
            [("alpha", self.alpha), ("guard_alpha", self.guard_alpha), ("ratio_alpha", self.ratio_alpha)];
        for (key, level) in levels {
            let key = format!("evidence.{key}");
            require(level > 0.0 && level <= ALPHA_MAX, &key, &format!("{level} is not in (0, {ALPHA_MAX}]"))?;
        }
        require(self.horizon >= 100, "evidence.horizon", "is below 100")?;
        require(self.answers_min >= 20, "evidence.answers_min", "is below 20, too few for a limit theorem")
    }
}

fn check_guardrail(guardrail: &Guardrail) -> Result<(), DefinitionError> {
    let quantile = guardrail.of == Statistic::P99;
    let kept = !quantile || guardrail.metric.has_quantiles();
    require(kept, "guardrails.of", &format!("p99 of {} is not kept", guardrail.metric))?;
    require(guardrail.limit.is_sound(), "guardrails.limit", "is not finite, or a margin is below 0")
}

/// Names stand in headers, labels and paths.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    (1..=NAME_BYTES_MAX).contains(&bytes.len())
        && plain(bytes[0])
        && bytes.iter().all(|&byte| plain(byte) || b"-_.".contains(&byte))
}

fn require(holds: bool, key: &str, problem: &str) -> Result<(), DefinitionError> {
    if holds {
        return Ok(());
    }
    Err(DefinitionError::Value { key: key.to_owned(), problem: problem.to_owned() })
}

const NAME_RULE: &str = "is not 1 to 64 of a-z 0-9 - _ . with a letter or digit first";
const NAME_BYTES_MAX: usize = 64;
/// Shortest seed, in bytes.
pub const SEED_BYTES_MIN: usize = 16;
/// Above a half an interval says nothing, and the tuning of the sequences has no meaning.
const ALPHA_MAX: f64 = 0.5;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A control and treatments with these weights; the control has the rest.
    pub(crate) fn with_weights(treatments: &[u16]) -> Definition {
        let control = WHOLE_BP - treatments.iter().sum::<u16>();
        let arms = std::iter::once(Arm::plain("control", control));
        let named =
            treatments.iter().enumerate().map(|(i, &weight)| Arm::plain(&format!("t{}", i + 1), weight));
        Definition {
            name: "test".to_owned(),
            route: "pair".to_owned(),
            seed: "0123456789abcdef".to_owned(),
            sticky: Sticky::User,
            arms: arms.chain(named).collect(),
            shadows: Vec::new(),
            evidence: Evidence::default(),
            guardrails: Vec::new(),
        }
    }

    #[test]
    fn a_table_of_a_file_is_a_definition() {
        let text = r#"
            name = "share"
            route = "pair/entropy"
            seed = "a seed of 16 bytes or more"
            sticky = { header = "x-session" }
            arms = [
                { name = "control", weight_bp = 9000 },
                { name = "large", weight_bp = 1000, ceiling_bp = 5000, settings = { llm_share = 0.2 } },
            ]
            shadows = [{ name = "next", weight_bp = 100 }]
            [evidence]
            metrics = ["errors", "ttft_s"]
            [[guardrails]]
            metric = "errors"
            of = "mean"
            limit = { worse_by = 0.05 }
        "#;
        let definition: Definition = toml::from_str(text).unwrap();
        definition.check().unwrap();
        assert_eq!(definition.ceilings_bp(), [10_000, 5_000]);
        let json = serde_json::to_string(&definition).unwrap();
        assert_eq!(serde_json::from_str::<Definition>(&json).unwrap(), definition);
    }

    #[test]
    fn what_cannot_be_followed_is_refused_by_key() {
        let refused = |change: &dyn Fn(&mut Definition), message: &str| {
            let mut definition = with_weights(&[1000, 1000]);
            change(&mut definition);
            let error = definition.check().unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        };
        refused(&|d| d.name = "A/B".to_owned(), "name is not 1 to 64 of a-z");
        refused(&|d| d.arms[1].name = "-t".to_owned(), "arms.name is not");
        refused(
            &|d| {
                d.arms[1].policy = Some("builtin:margin".to_owned());
                d.arms[1].revision = Some("ab".repeat(32));
            },
            "arms.t1.policy cannot stand beside revision",
        );
        refused(&|d| d.seed = "short".to_owned(), "seed is shorter");
        refused(&|d| d.arms.truncate(1), "arms needs a control");
        refused(&|d| d.arms[1].weight_bp = 1001, "10001 basis points");
        refused(&|d| d.arms[2].name = "t1".to_owned(), "is there twice");
        refused(&|d| d.arms[1].ceiling_bp = Some(999), "arms.t1.weight_bp 1000 is above");
        refused(
            &|d| d.arms[1].ceiling_bp = Some(9500),
            "arms.t2.weight_bp 1000 is above the arm's ceiling 500",
        );
        refused(&|d| d.arms[2].revision = Some("ab".to_owned()), "arms.t2.revision");
        refused(&|d| d.evidence.alpha = 0.0, "evidence.alpha");
        for arm in 1..3 {
            let both = |d: &mut Definition| {
                d.arms[arm].ceiling_bp = Some(9000);
                d.arms[3 - arm].ceiling_bp = Some(1001);
            };
            refused(&both, "ceilings of the treatments add up to 10001");
        }
    }
}
