//! A whole server in this process, on a free port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::RoutingError;
use crate::config::Config;
use crate::control::Control;
use crate::http::{self, HttpSettings};
use crate::runtime::{Route, Runtime, StartError};

pub(in crate::bench) struct Served {
    runtime: Arc<Runtime>,
    address: SocketAddr,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

/// Steps and their rows so far, by role.
pub(super) type Steps = Vec<(u64, u64)>;

/// All of a server but HTTP. Loading takes long, so not on a thread that others wait for.
pub(in crate::bench) async fn started(config: Config) -> Result<Runtime, RoutingError> {
    let started = tokio::task::spawn_blocking(move || Runtime::start(&config, &mut ())).await?;
    Ok(started.map_err(|error: StartError| Box::new(error))?)
}

impl Served {
    pub(in crate::bench) async fn start(config: Config) -> Result<Self, RoutingError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let mut settings = HttpSettings::new(&config);
        // Nobody waits for answers that were broken off at the end of a run.
        settings.drain = Duration::ZERO;
        // The benchmark asks without a key, and leaves nothing behind.
        let mut open = config.clone();
        (open.tenants, open.server.data_dir) = Default::default();
        let runtime = Arc::new(started(config).await?);
        let shutdown = CancellationToken::new();
        let control = Arc::new(Control::new(Arc::clone(&runtime), &open)?);
        let serving = http::serve(listener, control, settings, shutdown.clone());
        let serving = tokio::spawn(serving);
        Ok(Self { runtime, address, shutdown, serving })
    }

    pub(in crate::bench) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    pub(in crate::bench) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn steps(&self, route: &Route) -> Steps {
        let catalog = self.runtime.catalog();
        route.models.iter().map(|model| catalog.models[model].meter.steps()).collect()
    }

    /// Rows per step since then, by role.
    pub(super) fn batches(&self, route: &Route, since: &Steps) -> Vec<f64> {
        let rows = |((steps, rows), (steps_before, rows_before)): ((u64, u64), &(u64, u64))| {
            (rows - rows_before) as f64 / (steps - steps_before).max(1) as f64
        };
        self.steps(route).into_iter().zip(since).map(rows).collect()
    }

    pub(in crate::bench) async fn stop(self) {
        self.shutdown.cancel();
        if let Err(error) = self.serving.await {
            tracing::error!(%error, "the server of the benchmark ended badly");
        }
        self.runtime.shut_down(Duration::ZERO).await;
    }
}
