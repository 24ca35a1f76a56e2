//! The typed tree, its defaults and its cross-checks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::{ConfigError, Scheduling};
use crate::models::ModelSource;

/// Everything the server needs to start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Listening, bounds and life cycle.
    pub server: Server,
    /// Limits of every policy.
    pub sandbox: Sandbox,
    /// When models run.
    pub scheduler: Scheduling,
    /// Models by name.
    pub models: BTreeMap<String, Model>,
    /// Routes by name. No route has the name of a model.
    pub routes: BTreeMap<String, Route>,
}

/// `[server]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Address to listen on; port 0 takes a free one. Default 127.0.0.1:8080.
    pub listen: SocketAddr,
    /// Journeys alive at once. Default 256.
    pub journeys_max: NonZeroUsize,
    /// Requests waiting for a place. Default 1024.
    pub queue_max: NonZeroUsize,
    /// Largest request body in bytes. Default 4 MiB.
    pub body_bytes_max: NonZeroUsize,
    /// Seconds that running answers may take after SIGTERM. Default 30.
    pub drain_seconds: u64,
    /// How models that have work at the same time share the processor's cores: `join`, `split` or `turns`. Default `join`.
    pub cores: engine::CoreSharing,
    /// Whether models that do not fit into memory are refused. Default true.
    pub memory_check: bool,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            journeys_max: count(256),
            queue_max: count(1024),
            body_bytes_max: count(4 << 20),
            drain_seconds: 30,
            cores: engine::CoreSharing::default(),
            memory_check: true,
        }
    }
}

/// `[sandbox]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sandbox {
    /// Linear memory of one journey's instance, in MiB. Default 64.
    pub memory_mib: NonZeroU32,
    /// Wasm instructions of one call of `route`, `send` or `receive`. Default 2,000,000.
    pub fuel_per_call: u64,
    /// Wall-clock milliseconds of one call. Default 50.
    pub deadline_ms: NonZeroU32,
}

impl Default for Sandbox {
    fn default() -> Self {
        let ms = NonZeroU32::new(50).expect("50 is not 0");
        Self {
            memory_mib: NonZeroU32::new(64).expect("64 is not 0"),
            fuel_per_call: 2_000_000,
            deadline_ms: ms,
        }
    }
}

impl Sandbox {
    /// Wall-clock time of one call.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(u64::from(self.deadline_ms.get()))
    }
}

/// `[models.NAME]`
#[derive(Clone, Debug)]
pub struct Model {
    /// Where its files are.
    pub source: ModelSource,
    /// Bounds of one step: `rows_max` journeys (default 32), `tokens_max` tokens (default 256).
    pub limits: scheduler::Limits,
    /// `threads`: how many may compute a step. Default: what `server.cores` gives.
    pub threads: Option<NonZeroUsize>,
    /// `device`: where it runs, `cpu`, `cuda` or `cuda:N`. Default `cpu`.
    pub device: engine::Device,
    /// `kv`: how keys and values are kept, `auto`, `f16` or `f32`. Default `auto`: f16 for quantised weights, f32 for
    /// others; on a GPU what it computes in, bf16.
    pub kv: engine::KvType,
    /// `kv_mib`: memory for keys and values, in MiB. Default 1024.
    pub kv_mib: NonZeroU32,
}

/// `[routes.NAME]`
#[derive(Clone, Debug)]
pub struct Route {
    /// Models by role; at least one, none twice.
    pub models: Vec<String>,
    /// Who decides.
    pub policy: PolicySource,
    /// The role that goes on alone when the policy fails.
    pub fallback: journey::Role,
    /// Settings of the policy.
    pub settings: BTreeMap<String, f64>,
}

/// Where a route's policy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicySource {
    /// `builtin:NAME`: inside the binary.
    Builtin(String),
    /// A component file that is reloaded when it changes.
    File(PathBuf),
}

impl Model {
    /// Most bytes of keys and values.
    #[must_use]
    pub fn kv_bytes(&self) -> u64 {
        u64::from(self.kv_mib.get()) << 20
    }
}

impl Config {
    /// Reads and checks a file. Paths in it are relative to its folder.
    ///
    /// # Errors
    /// [`ConfigError`], naming the file or key.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, path.parent().unwrap_or_else(|| Path::new("")))
    }

    /// The embedded pair with a route for each built-in policy.
    ///
    /// # Panics
    /// Never: a test parses the same text.
    #[must_use]
    pub fn embedded() -> Self {
        Self::parse(super::EMBEDDED, Path::new("")).expect("the embedded configuration is valid")
    }

    /// Checks a configuration given as text. Paths in it are relative to `folder`.
    ///
    /// # Errors
    /// [`ConfigError`], naming the key.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text)?;
        if file.models.is_empty() {
            return Err(ConfigError::value("models", "no model is given; add one, as [models.small]"));
        }
        let models =
            file.models.into_iter().map(|(name, model)| model.check(&name, folder).map(|m| (name, m)));
        let models: BTreeMap<String, Model> = models.collect::<Result<_, _>>()?;
        let routes = file
            .routes
            .into_iter()
            .map(|(name, route)| route.check(&name, folder, &models).map(|r| (name, r)));
        let routes = routes.collect::<Result<_, _>>()?;
        let scheduler = file.scheduler.check()?;
        Ok(Self { server: file.server, sandbox: file.sandbox, scheduler, models, routes })
    }
}

/// The file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    server: Server,
    #[serde(default)]
    sandbox: Sandbox,
    #[serde(default)]
    scheduler: Scheduling,
    #[serde(default)]
    models: BTreeMap<String, ModelTable>,
    #[serde(default)]
    routes: BTreeMap<String, RouteTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelTable {
    files: String,
    #[serde(default = "rows_max")]
    rows_max: NonZeroUsize,
    #[serde(default = "tokens_max")]
    tokens_max: NonZeroUsize,
    threads: Option<NonZeroUsize>,
    device: Option<String>,
    #[serde(default)]
    kv: engine::KvType,
    #[serde(default = "kv_mib")]
    kv_mib: NonZeroU32,
}

impl ModelTable {
    fn check(self, name: &str, folder: &Path) -> Result<Model, ConfigError> {
        check_name("models", name)?;
        let source = ModelSource::parse(&self.files, folder)
            .map_err(|error| ConfigError::value(format!("models.{name}.files"), error.to_string()))?;
        let limits = scheduler::Limits { rows_max: self.rows_max, tokens_max: self.tokens_max };
        if self.threads.is_some_and(|threads| threads.get() > THREADS_MAX) {
            let key = format!("models.{name}.threads");
            return Err(ConfigError::value(key, format!("is too many; at most {THREADS_MAX}")));
        }
        let device = self.device.map_or(Ok(engine::Device::Cpu), |device| check_device(name, &device))?;
        let Self { threads, kv, kv_mib, .. } = self;
        Ok(Model { source, limits, threads, device, kv, kv_mib })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteTable {
    models: Vec<String>,
    policy: String,
    fallback: Option<String>,
    #[serde(default)]
    settings: BTreeMap<String, f64>,
}

impl RouteTable {
    fn check(
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
        let fallback = self.fallback.as_ref().unwrap_or(&self.models[0]);
        let Some(fallback) = self.models.iter().position(|model| model == fallback) else {
            let problem = format!("{fallback:?} is not one of the route's models {}", self.models.join(", "));
            return Err(ConfigError::value(key("fallback"), problem));
        };
        let policy = match self.policy.strip_prefix("builtin:") {
            Some(builtin) => PolicySource::Builtin(builtin.to_owned()),
            None => PolicySource::File(folder.join(self.policy)),
        };
        let fallback = journey::Role(fallback as u16);
        Ok(Route { models: self.models, policy, fallback, settings: self.settings })
    }
}

/// A device that this binary can use.
fn check_device(model: &str, device: &str) -> Result<engine::Device, ConfigError> {
    let refused = |problem| ConfigError::value(format!("models.{model}.device"), problem);
    let parsed: engine::Device = device.parse().map_err(|wrong| refused(format!("{device:?} {wrong}")))?;
    parsed.check_built().map_err(|error| refused(error.to_string()))
}

/// `@` separates a route's name from settings in a request.
fn check_name(table: &str, name: &str) -> Result<(), ConfigError> {
    if name.is_empty() || name.contains('@') || name.chars().any(char::is_control) {
        return Err(ConfigError::value(
            table,
            format!("the name {name:?} is empty or contains '@' or control characters"),
        ));
    }
    Ok(())
}

fn kv_mib() -> NonZeroU32 {
    NonZeroU32::new(1024).expect("1024 is not 0")
}

/// Nobody computes with more; a mistyped number must not start them.
const THREADS_MAX: usize = 1024;

fn rows_max() -> NonZeroUsize {
    count(32)
}

fn tokens_max() -> NonZeroUsize {
    count(256)
}

fn count(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).expect("defaults are not 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        Config::parse(text, Path::new("")).expect_err("must be refused").to_string()
    }

    const PAIR: &str = "[models.a]\nfiles = \"x\"\n[models.b]\nfiles = \"y\"\n";

    #[test]
    fn the_embedded_configuration_shows_the_defaults() {
        let shown = Config::embedded();
        let bare = Config::parse("[models.small]\nfiles = \"embedded:small\"", Path::new("")).expect("valid");
        assert_eq!(format!("{:?}", shown.server), format!("{:?}", bare.server));
        assert_eq!(format!("{:?}", shown.sandbox), format!("{:?}", bare.sandbox));
        assert_eq!(format!("{:?}", shown.models["small"]), format!("{:?}", bare.models["small"]));
        assert_eq!(shown.routes["pair/pinned"].settings["role"], 1.0);
    }

    #[test]
    fn an_unknown_key_is_named() {
        assert!(problem("[server]\nlisten_on = \"x\"").contains("listen_on"));
        assert!(
            problem(&format!("{PAIR}[routes.r]\nmodels = [\"a\"]\npolicy = \"p\"\nfalback = \"a\""))
                .contains("falback")
        );
    }

    #[test]
    fn a_route_must_name_models_that_exist_once_each() {
        let route = |models: &str, more: &str| {
            format!("{PAIR}[routes.\"r/x\"]\npolicy = \"p\"\nmodels = {models}\n{more}")
        };
        assert!(
            problem(&route("[]", "")).contains("routes.\"r/x\".models: a route needs at least one model")
        );
        assert!(problem(&route("[\"c\"]", "")).contains("no model \"c\"; the models are a, b"));
        assert!(problem(&route("[\"a\", \"a\"]", "")).contains("stands twice"));
        assert!(problem(&route("[\"a\"]", "fallback = \"b\"")).contains("routes.\"r/x\".fallback"));
    }

    #[test]
    fn names_cannot_collide_or_hold_the_separator() {
        assert!(
            problem(&format!("{PAIR}[routes.a]\nmodels = [\"a\"]\npolicy = \"p\""))
                .contains("a model has this name")
        );
        assert!(problem("[models.\"a@b\"]\nfiles = \"x\"").contains("contains '@'"));
        assert!(problem("").contains("no model is given"));
    }

    #[test]
    fn a_device_is_known_and_built_in() {
        let with = |device: &str| format!("[models.a]\nfiles = \"x\"\ndevice = \"{device}\"");
        let model = |device| Config::parse(&with(device), Path::new("")).expect("valid").models["a"].device;
        assert_eq!(model("cpu"), engine::Device::Cpu);
        assert!(problem(&with("gpu")).contains("models.a.device: \"gpu\" is no device"));
        if cfg!(feature = "cuda") {
            assert_eq!(model("cuda:1"), engine::Device::Cuda(1));
        } else {
            let problem = problem(&with("cuda"));
            assert!(
                problem.starts_with("models.a.device: ") && problem.contains("--features cuda"),
                "{problem}"
            );
        }
    }

    #[test]
    fn paths_are_relative_to_the_file() {
        let text = format!("{PAIR}[routes.r]\nmodels = [\"a\"]\npolicy = \"mine.wasm\"");
        let config = Config::parse(&text, Path::new("etc")).expect("valid");
        assert_eq!(config.models["a"].source, ModelSource::Path(PathBuf::from("etc/x")));
        assert_eq!(config.routes["r"].policy, PolicySource::File(PathBuf::from("etc/mine.wasm")));
    }
}
