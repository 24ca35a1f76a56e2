//! The engine that compiles components, and what it compiles them to.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::bindings::{Router, RouterPre};
use super::compiled;
use super::instance::Instance;
use super::logs::LogQuota;
use super::state::{Owner, State};
use super::ticker::Ticker;
use super::world;
use crate::digest::Digest;
use crate::error::PolicyError;
use crate::host::Compilations;
use crate::limits::Limits;

/// What all policies of a host share. Revisions and sessions keep it alive.
pub(crate) struct Runtime {
    pub(super) engine: Engine,
    linker: Linker<State>,
    pub(crate) limits: Limits,
    counts: Counts,
    /// Drives the deadlines as long as anything can run.
    _ticker: Ticker,
}

/// Machine code of a component.
pub(crate) struct Compiled(Component);

/// A compiled and linked component, ready to be instantiated in microseconds.
pub(crate) struct Template {
    pub(super) pre: RouterPre<State>,
    pub(super) logs: Arc<LogQuota>,
}

/// See [`Compilations`].
#[derive(Default)]
struct Counts {
    compiled: AtomicU64,
    recalled: AtomicU64,
}

impl Compiled {
    /// In a form that [`Runtime::recall`] takes.
    pub(crate) fn artifact(&self) -> Result<Vec<u8>, PolicyError> {
        self.0.serialize().map_err(|source| PolicyError::Compile { source })
    }
}

impl Runtime {
    pub(crate) fn new(limits: Limits) -> Result<Self, PolicyError> {
        let runtime = |what: &str| {
            let what = what.to_owned();
            move |source| PolicyError::Runtime { what, source }
        };
        let sessions = limits.sessions;
        let engine = Engine::new(&config(&limits)).map_err(runtime(&format!(
            "setting up the policy runtime for {sessions} sessions (fewer need less address space)"
        )))?;
        let mut linker = Linker::new(&engine);
        // The whole of what a guest can reach: `host`. There is no WASI here to be configured or to escape from.
        Router::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)
            .map_err(runtime("linking the imports of a policy"))?;
        let ticker = Ticker::start(engine.clone())?;
        Ok(Self { engine, linker, limits, counts: Counts::default(), _ticker: ticker })
    }

    /// Names what this engine's code fits.
    pub(crate) fn identity(&self) -> Digest {
        compiled::identity(&self.engine)
    }

    /// Compiles the bytes of a component on all cores.
    pub(crate) fn compile(&self, bytes: &[u8]) -> Result<Compiled, PolicyError> {
        self.counts.compiled.fetch_add(1, Ordering::Relaxed);
        let compiled = Component::from_binary(&self.engine, bytes);
        compiled.map(Compiled).map_err(|source| PolicyError::Compile { source })
    }

    /// Takes what another process has compiled.
    pub(crate) fn adopt(&self, artifact: &[u8]) -> Result<Compiled, PolicyError> {
        self.counts.compiled.fetch_add(1, Ordering::Relaxed);
        compiled::load(&self.engine, artifact).map(Compiled)
    }

    /// Takes what was compiled before.
    pub(crate) fn recall(&self, artifact: &[u8]) -> Result<Compiled, PolicyError> {
        let component = compiled::load(&self.engine, artifact)?;
        self.counts.recalled.fetch_add(1, Ordering::Relaxed);
        Ok(Compiled(component))
    }

    /// Links a component. Nothing of it runs yet.
    pub(crate) fn link(&self, Compiled(component): &Compiled) -> Result<Template, PolicyError> {
        world::check_names(&self.engine, component)?;
        let linked = self.linker.instantiate_pre(component).and_then(RouterPre::new);
        let pre = linked.map_err(|source| world::mismatch(&source))?;
        Ok(Template { pre, logs: Arc::new(LogQuota::new(Instant::now())) })
    }

    /// How components were had so far.
    pub(crate) fn compilations(&self) -> Compilations {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Compilations { compiled: load(&self.counts.compiled), recalled: load(&self.counts.recalled) }
    }

    /// Brings a template to life for the first time. Only now are the types of its functions compared with `wit/`.
    pub(crate) fn try_out(&self, template: &Template, owner: Owner) -> Result<Instance, PolicyError> {
        self.instantiate(template, owner).map_err(|error| match error {
            PolicyError::Runtime { source, .. } if !source.is::<io::Error>() => world::mismatch(&source),
            other => other,
        })
    }

    /// Brings a template to life.
    pub(crate) fn instantiate(&self, template: &Template, owner: Owner) -> Result<Instance, PolicyError> {
        Instance::new(self, template, owner)
    }
}

fn config(limits: &Limits) -> Config {
    let mut config = compiled::config();
    config.max_wasm_stack(limits.stack_bytes);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));
    config
}

fn pool(limits: &Limits) -> PoolingAllocationConfig {
    let instances = limits.sessions.saturating_add(IDLE_MOST + REHEARSALS);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances);
    pool.total_core_instances(instances.saturating_mul(CORE_INSTANCES_MEAN));
    pool.total_memories(instances.saturating_mul(MEMORIES_MEAN));
    pool.total_tables(instances.saturating_mul(MEMORIES_MEAN));
    pool.max_core_instances_per_component(CORE_INSTANCES_MOST as u32);
    pool.max_memories_per_component(MEMORIES_MOST as u32);
    pool.max_tables_per_component(CORE_INSTANCES_MOST as u32);
    pool.max_component_instance_size(INSTANCE_BYTES);
    pool.max_core_instance_size(INSTANCE_BYTES);
    pool.table_elements(limits.table_elements);
    pool.max_memory_size(limits.memory_bytes);
    // Where the kernel tells which pages were written, a used slot is cleaned by copying those instead of being
    // remapped: half the time of starting a session.
    pool.pagemap_scan(Enabled::Auto);
    if PoolingAllocationConfig::is_pagemap_scan_available() {
        pool.linear_memory_keep_resident(RESIDENT_BYTES);
        pool.table_keep_resident(RESIDENT_BYTES);
    }
    pool
}

/// Instances that may wait for sessions, all policies and tenants together.
pub(crate) const IDLE_MOST: u32 = 32;
/// Instances beyond those: components that are being loaded, one at a time, never wait for a session to end; and
/// instances that other threads are about to drop still have their place.
const REHEARSALS: u32 = 8;
/// Most core modules in one component. Compiled guests have 3, Python's runtime 38: a stub for each interface of WASI.
pub(super) const CORE_INSTANCES_MOST: usize = 64;
/// Most memories in one component. Compiled guests have 1, a JavaScript runtime up to 3.
pub(super) const MEMORIES_MOST: usize = 4;
/// Core modules per session that the whole pool is sized for.
const CORE_INSTANCES_MEAN: u32 = 16;
/// Memories, and tables, per session that the whole pool is sized for.
const MEMORIES_MEAN: u32 = 2;
/// wasmtime's own records of an instance; large runtimes have thousands of functions.
const INSTANCE_BYTES: usize = 4 << 20;
/// Most of a slot that stays mapped for the next session.
const RESIDENT_BYTES: usize = 128 << 10;
