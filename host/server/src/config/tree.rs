//! The typed tree, its defaults and its cross-checks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;

use experiment::Definition;
use scheduler::conductor::Bounds;
use serde::{Deserialize, Serialize};

use super::tables::{File, UPLOADED};
use super::{ConfigError, Registry, Scheduling, Sim, Tracing, Uploads};
use crate::models::ModelSource;
use crate::registry::{OCI, Pinned, Reference};

/// Everything the server needs to start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Listening, bounds and life cycle.
    pub server: Server,
    /// Limits of every policy.
    pub sandbox: Sandbox,
    /// What tenants may upload.
    pub uploads: Uploads,
    /// How policies come from registries.
    pub registry: Registry,
    /// When models run.
    pub scheduler: Scheduling,
    /// Where traces go.
    pub tracing: Tracing,
    /// Models by name.
    pub models: BTreeMap<String, Model>,
    /// Routes by name. No route has the name of a model.
    pub routes: BTreeMap<String, Route>,
    /// Experiments by name, each on a route of its own.
    pub experiments: BTreeMap<String, Definition>,
    /// Who may ask, by name. Without any, everybody may.
    pub tenants: BTreeMap<String, tenant::Table>,
    /// The same as it is written, with all defaults.
    pub(crate) written: serde_json::Value,
}

/// What the command line says in the place of a file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `server.listen`
    pub listen: Option<SocketAddr>,
    /// `server.data_dir`
    pub data_dir: Option<PathBuf>,
    /// See [`Uploads::program`].
    pub program: Option<PathBuf>,
}

/// `[server]`
#[derive(Clone, Debug, Deserialize, Serialize)]
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
    /// Seconds that a client may take to send a request's headers, and that a connection may stay open between requests.
    /// Default 30.
    pub header_seconds: NonZeroU32,
    /// Seconds that a client may take to send a request's body. Default 30.
    pub body_seconds: NonZeroU32,
    /// Seconds after which a client that takes in nothing of its answer has left. Default 30.
    pub write_seconds: NonZeroU32,
    /// Seconds of silence after which a stream gets a comment line, which keeps proxies from closing it. Default 15.
    pub ping_seconds: NonZeroU32,
    /// How models that have work at the same time share the processor's cores: `join`, `split` or `turns`. Default `join`.
    pub cores: engine::CoreSharing,
    /// Whether models that do not fit into memory are refused. Default true.
    pub memory_check: bool,
    /// Folder for what is kept over restarts: uploaded policies, experiments, keys, the audit log. Default: nothing is kept,
    /// and what would have to be is refused.
    pub data_dir: Option<PathBuf>,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            journeys_max: count(256),
            queue_max: count(1024),
            body_bytes_max: count(4 << 20),
            drain_seconds: 30,
            header_seconds: seconds(30),
            body_seconds: seconds(30),
            write_seconds: seconds(30),
            ping_seconds: seconds(15),
            cores: engine::CoreSharing::default(),
            memory_check: true,
            data_dir: None,
        }
    }
}

/// `[sandbox]`
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sandbox {
    /// Linear memory of one journey's instance, in MiB. Default 64.
    pub memory_mib: NonZeroU32,
    /// Wasm instructions of one call of `route`, `send` or `receive`. Default 2,000,000.
    pub fuel_per_call: u64,
    /// Milliseconds of the processor for one call; waiting for one is not counted. Default 50.
    pub deadline_ms: NonZeroU32,
    /// Microseconds that a call may take inside the decode loop's step; a policy that takes longer is called in a lane of its
    /// own. 0: every policy is. Default 100.
    pub in_step_us: u32,
    /// Threads that call slow policies, at the lowest priority. Default 2.
    pub lane_threads: NonZeroUsize,
    /// Who shares an instance of a policy, and so its memory: the journeys of one `tenant`, or nobody: one instance per
    /// `journey`. Default `tenant`.
    pub isolation: Isolation,
    /// Folder for compiled policies, which then start in a millisecond. Nobody else may write in it. Default: `compiled` in
    /// `server.data_dir`; without that, none is kept.
    pub cache: Option<PathBuf>,
}

/// Who shares an instance of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// The journeys of one tenant.
    Tenant,
    /// Nobody.
    Journey,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            memory_mib: NonZeroU32::new(64).expect("64 is not 0"),
            fuel_per_call: 2_000_000,
            deadline_ms: NonZeroU32::new(50).expect("50 is not 0"),
            in_step_us: 100,
            lane_threads: count(2),
            isolation: Isolation::Tenant,
            cache: None,
        }
    }
}

impl Sandbox {
    /// Time of one call inside a step.
    #[must_use]
    pub fn in_step(&self) -> Duration {
        Duration::from_micros(u64::from(self.in_step_us))
    }

    /// Processor time of one call.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(u64::from(self.deadline_ms.get()))
    }
}

/// `[models.NAME]`
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Where its files are.
    pub source: ModelSource,
    /// Bounds of one step: `rows_max` journeys (default 32), `tokens_max` tokens (default 256).
    pub limits: scheduler::Limits,
    /// `threads`: how many may compute a step. Default: what `server.cores` gives.
    pub threads: Option<NonZeroUsize>,
    /// `device`: where it runs, `cpu`, `cuda` or `cuda:N`. Default `cpu`.
    pub device: engine::Device,
    /// `[models.NAME.sim]`: its steps only take time.
    pub sim: Option<Sim>,
    /// `kv`: how keys and values are kept, `auto`, `f16` or `f32`. Default `auto`: f16 for quantised weights, f32 for
    /// others; on a GPU what it computes in, bf16.
    pub kv: engine::KvType,
    /// `kv_mib`: memory for keys and values, in MiB. Default: a part of what weights leave free, the same number of tokens
    /// for every model; on a GPU 1024.
    pub kv_mib: Option<NonZeroU32>,
    /// `price_per_token`: what a token costs that it makes, in any one currency; what it reads costs nothing. Default 0.
    pub price_per_token: f64,
    /// `[models.NAME.heads]`: graph files of the model's heads by name; see `examples/heads`. A policy that needs a head
    /// names it.
    pub heads: BTreeMap<String, HeadSource>,
}

/// Where a head's graph is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeadSource {
    /// `embedded:NAME`: inside the binary.
    Embedded(String),
    /// A file, with the weights that it names beside it.
    Path(PathBuf),
}

/// `[routes.NAME]`
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Models by role; at least one, none twice.
    pub models: Vec<String>,
    /// Who decides.
    pub policy: PolicySource,
    /// The role that goes on alone when the policy fails. Default: what the policy says, or the entry model.
    pub fallback: Option<journey::Role>,
    /// `slo_tpot_ms`, `slo_itl_ms`: as under `[scheduler]`, for answers of this route.
    pub slo_tpot_ms: Option<f64>,
    /// See `slo_tpot_ms`.
    pub slo_itl_ms: Option<f64>,
    /// Whether its models may have different tokenizers: each then reads and writes the answer's bytes in tokens of its own.
    /// Default false: a mismatch is refused.
    pub translate: bool,
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
    /// `uploaded:TENANT/NAME`: the active revision of what a tenant uploaded.
    Uploaded {
        /// The tenant.
        tenant: String,
        /// The policy's name.
        name: String,
    },
    /// `oci://HOST/REPOSITORY[:TAG]@sha256:DIGEST`: a component in a registry.
    Oci(Pinned),
}

impl PolicySource {
    /// What a `policy` key says: `builtin:NAME`, `uploaded:TENANT/NAME`, `oci://...@sha256:DIGEST`, or a file relative to this
    /// folder.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(written: &str, folder: &Path) -> Result<Self, String> {
        if let Some(builtin) = written.strip_prefix("builtin:") {
            return Ok(Self::Builtin(builtin.to_owned()));
        }
        if written.starts_with(OCI) {
            return Reference::parse(written)?.pinned().map(Self::Oci);
        }
        let Some(uploaded) = written.strip_prefix(UPLOADED) else {
            return Ok(Self::File(folder.join(written)));
        };
        // A tenant's name may have slashes, a policy's has none.
        match uploaded.rsplit_once('/') {
            Some((tenant, name)) if !tenant.is_empty() && !name.is_empty() => {
                Ok(Self::Uploaded { tenant: tenant.to_owned(), name: name.to_owned() })
            }
            _ => Err(format!("{written:?} is not of the form {UPLOADED}TENANT/NAME")),
        }
    }
}

impl Route {
    /// What is promised to its answers.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        super::scheduling::bounds(self.slo_tpot_ms, self.slo_itl_ms)
    }
}

impl Model {
    /// Most bytes of keys and values, where the configuration says it.
    #[must_use]
    pub fn kv_bytes(&self) -> Option<u64> {
        self.kv_mib.map(|mib| u64::from(mib.get()) << 20)
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

    /// This one with what the command line says in its place.
    #[must_use]
    pub fn with(mut self, overrides: &Overrides) -> Self {
        if let Some(listen) = overrides.listen {
            self.server.listen = listen;
            self.written["server"]["listen"] = listen.to_string().into();
        }
        if let Some(data_dir) = &overrides.data_dir {
            self.server.data_dir = Some(data_dir.clone());
            self.written["server"]["data_dir"] = data_dir.display().to_string().into();
        }
        if let Some(program) = &overrides.program {
            self.uploads.program = Some(program.clone());
        }
        self
    }

    /// Checks a configuration given as text. Paths in it are relative to `folder`.
    ///
    /// # Errors
    /// [`ConfigError`], naming the key.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, ConfigError> {
        let file: File = toml::from_str(text)?;
        let written = serde_json::to_value(&file).expect("tables of keys are JSON");
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
        let routes: BTreeMap<String, Route> = routes.collect::<Result<_, _>>()?;
        let scheduler = file.scheduler.check(models.keys().map(String::as_str))?;
        for (name, route) in &routes {
            let bounds = [("slo_tpot_ms", route.slo_tpot_ms), ("slo_itl_ms", route.slo_itl_ms)];
            scheduler.check_bounds(&format!("routes.{name:?}"), bounds)?;
        }
        let experiments = super::experiments::check(file.experiments, folder, &routes)?;
        let tenants =
            file.tenants.map(|tenants| super::tenants::check(tenants, &models, &routes)).transpose()?;
        let tenants = tenants.unwrap_or_default();
        let mut sandbox = file.sandbox;
        sandbox.cache = sandbox.cache.map(|cache| folder.join(cache));
        let mut server = file.server;
        server.data_dir = server.data_dir.map(|data_dir| folder.join(data_dir));
        let mut registry = file.registry;
        registry.auth_file = registry.auth_file.map(|file| folder.join(file));
        let uploads = file.uploads.check()?;
        let tracing = file.telemetry.check(super::telemetry::environment)?;
        Ok(Self {
            server,
            sandbox,
            uploads,
            registry,
            scheduler,
            tracing,
            models,
            routes,
            experiments,
            tenants,
            written,
        })
    }
}

/// A default that is not 0.
fn seconds(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).expect("defaults are not 0")
}

/// A default that is not 0.
pub(super) fn count(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).expect("defaults are not 0")
}
