//! The file as written, and its checks table by table.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::telemetry::TelemetryTable;
use super::tree::count;
use super::{
    ConfigError, HeadSource, Model, PolicySource, Registry, Route, Sandbox, Scheduling, Server, Sim, Uploads,
};
use crate::models::ModelSource;

/// The file as written.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) server: Server,
    #[serde(default)]
    pub(super) sandbox: Sandbox,
    #[serde(default)]
    pub(super) uploads: Uploads,
    #[serde(default)]
    pub(super) registry: Registry,
    #[serde(default)]
    pub(super) scheduler: Scheduling,
    #[serde(default)]
    pub(super) telemetry: TelemetryTable,
    #[serde(default)]
    pub(super) models: BTreeMap<String, ModelTable>,
    #[serde(default)]
    pub(super) routes: BTreeMap<String, RouteTable>,
    #[serde(default)]
    pub(super) experiments: BTreeMap<String, experiment::Definition>,
    pub(super) tenants: Option<BTreeMap<String, tenant::Table>>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelTable {
    files: String,
    #[serde(default = "rows_max")]
    rows_max: NonZeroUsize,
    #[serde(default = "tokens_max")]
    tokens_max: NonZeroUsize,
    threads: Option<NonZeroUsize>,
    device: Option<String>,
    sim: Option<Sim>,
    #[serde(default)]
    kv: engine::KvType,
    kv_mib: Option<NonZeroU32>,
    #[serde(default)]
    price_per_token: f64,
    #[serde(default)]
    heads: BTreeMap<String, String>,
}

impl ModelTable {
    pub(super) fn check(self, name: &str, folder: &Path) -> Result<Model, ConfigError> {
        check_name("models", name)?;
        let source = ModelSource::parse(&self.files, folder)
            .map_err(|error| ConfigError::value(format!("models.{name}.files"), error.to_string()))?;
        let limits = scheduler::Limits { rows_max: self.rows_max, tokens_max: self.tokens_max };
        if self.threads.is_some_and(|threads| threads.get() > THREADS_MAX) {
            let key = format!("models.{name}.threads");
            return Err(ConfigError::value(key, format!("is too many; at most {THREADS_MAX}")));
        }
        let device = self.device.map_or(Ok(engine::Device::Cpu), |device| check_device(name, &device))?;
        let sim = self.sim.map(|sim| sim.check(name)).transpose()?;
        if !(self.price_per_token >= 0.0 && self.price_per_token.is_finite()) {
            let key = format!("models.{name}.price_per_token");
            return Err(ConfigError::value(key, "is not a number of at least 0"));
        }
        let Self { threads, kv, kv_mib, price_per_token, .. } = self;
        let source_of = |given: String| match given.strip_prefix("embedded:") {
            Some(embedded) => HeadSource::Embedded(embedded.to_owned()),
            None => HeadSource::Path(folder.join(given)),
        };
        let heads = self.heads.into_iter().map(|(head, given)| (head, source_of(given))).collect();
        Ok(Model { source, limits, threads, device, sim, kv, kv_mib, price_per_token, heads })
    }
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RouteTable {
    models: Vec<String>,
    policy: String,
    fallback: Option<String>,
    slo_tpot_ms: Option<f64>,
    slo_itl_ms: Option<f64>,
    #[serde(default)]
    translate: bool,
    #[serde(default)]
    settings: BTreeMap<String, f64>,
}

impl RouteTable {
    pub(super) fn check(
        self,
        name: &str,
        folder: &Path,
        models: &BTreeMap<String, Model>,
    ) -> Result<Route, ConfigError> {
        check_name("routes", name)?;
        let key = |field: &str| format!("routes.{name:?}.{field}");
        if models.contains_key(name) {
            return Err(ConfigError::value(
                format!("routes.{name:?}"),
                "a model has this name; rename one of them",
            ));
        }
        if self.models.is_empty() {
            return Err(ConfigError::value(key("models"), "a route needs at least one model"));
        }
        for (ix, model) in self.models.iter().enumerate() {
            if !models.contains_key(model) {
                let known: Vec<&str> = models.keys().map(String::as_str).collect();
                let problem = format!("there is no model {model:?}; the models are {}", known.join(", "));
                return Err(ConfigError::value(key("models"), problem));
            }
            if self.models[..ix].contains(model) {
                let problem =
                    format!("{model:?} stands twice; give the same files a second name under [models]");
                return Err(ConfigError::value(key("models"), problem));
            }
        }
        let role = |fallback: &String| {
            let place = self.models.iter().position(|model| model == fallback);
            place.map(|place| journey::Role(place as u16)).ok_or_else(|| {
                let problem =
                    format!("{fallback:?} is not one of the route's models {}", self.models.join(", "));
                ConfigError::value(key("fallback"), problem)
            })
        };
        let fallback = self.fallback.as_ref().map(role).transpose()?;
        let policy = PolicySource::parse(&self.policy, folder)
            .map_err(|problem| ConfigError::value(key("policy"), problem))?;
        let Self { models, slo_tpot_ms, slo_itl_ms, translate, settings, .. } = self;
        Ok(Route { models, policy, fallback, slo_tpot_ms, slo_itl_ms, translate, settings })
    }
}

/// A device that this binary can use.
fn check_device(model: &str, device: &str) -> Result<engine::Device, ConfigError> {
    let refused = |problem| ConfigError::value(format!("models.{model}.device"), problem);
    let parsed: engine::Device = device.parse().map_err(|wrong| refused(format!("{device:?} {wrong}")))?;
    parsed.check_built().map_err(|error| refused(error.to_string()))
}

/// `@` separates a route's name from settings in a request, and [`OWN`] begins the names of uploaded policies.
pub(super) fn check_name(table: &str, name: &str) -> Result<(), ConfigError> {
    if name.starts_with(OWN) {
        let problem =
            format!("the name {name:?} begins with {OWN:?}, as what tenants upload; choose another");
        return Err(ConfigError::value(table, problem));
    }
    if name.is_empty() || name.contains('@') || name.chars().any(char::is_control) {
        return Err(ConfigError::value(
            table,
            format!("the name {name:?} is empty or contains '@' or control characters"),
        ));
    }
    Ok(())
}

/// How the name of a tenant's own policy begins in `model`.
pub const OWN: &str = "own/";

/// How `policy` begins where it names what a tenant uploaded.
pub const UPLOADED: &str = "uploaded:";

/// Nobody computes with more; a mistyped number must not start them.
const THREADS_MAX: usize = 1024;

fn rows_max() -> NonZeroUsize {
    count(32)
}

fn tokens_max() -> NonZeroUsize {
    count(256)
}
