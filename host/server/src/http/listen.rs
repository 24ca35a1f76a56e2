//! Connections: taken in, bounded, and ended.
//!
//! They are taken in from the beginning, so that it can be asked whether the server lives while it loads, and during a drain,
//! so that clients and load balancers are told (503) instead of being turned away; only when the last answer has ended does the
//! listener close.

use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::connection::converse;
use super::stalled::Bodies;
use super::{App, HttpSettings, loading, router};
use crate::control::Control;
use crate::experiments::keeper;

/// Serves until `shutdown` is cancelled and every running answer has ended, for which there is `settings.drain`.
///
/// Requests that wait in line are answered too. At the deadline the runtime is stopped, so that every stream still ends
/// with a word. Call [`Runtime::shut_down`](crate::runtime::Runtime::shut_down) when this returns.
pub async fn serve(
    listener: TcpListener,
    control: Arc<Control>,
    settings: HttpSettings,
    shutdown: CancellationToken,
) {
    serve_when(listener, ready(Some(control)), settings, shutdown).await;
}

/// As [`serve`], once what is served is loaded; until then nobody is kept waiting. Returns at once if nothing comes of that.
pub async fn serve_when(
    listener: TcpListener,
    loaded: impl Future<Output = Option<Arc<Control>>>,
    settings: HttpSettings,
    shutdown: CancellationToken,
) {
    let mut connections = Connections::new(settings.clone());
    tokio::pin!(loaded);
    let control = loop {
        tokio::select! {
            // First of all: where everything is loaded, nobody is told that it is not.
            biased;
            loaded = &mut loaded => match loaded {
                Some(control) => break control,
                None => return,
            },
            () = shutdown.cancelled() => return,
            () = connections.turn(&listener) => {}
        }
    };
    // After the last answer, so that it is saved too.
    let stop = CancellationToken::new();
    let keeping = tokio::spawn(keeper::keep(Arc::clone(&control), stop.clone()));
    let app = App::new(control, settings, shutdown);
    connections.doors.open(&app);
    let drained = drained(&app);
    tokio::pin!(drained);
    loop {
        tokio::select! {
            () = &mut drained => break,
            () = connections.turn(&listener) => {}
        }
    }
    drop(listener);
    connections.close().await;
    stop.cancel();
    if let Err(error) = keeping.await {
        tracing::error!(%error, "the keeper of experiments panicked");
    }
}

/// Who answers: as long as nobody else does, one who says that the server loads.
struct Doors {
    loading: TowerToHyperService<Router>,
    loaded: OnceLock<TowerToHyperService<Router>>,
}

impl Doors {
    fn open(&self, app: &App) {
        self.loaded.get_or_init(|| TowerToHyperService::new(router(app.clone())));
    }

    fn answers(&self) -> TowerToHyperService<Router> {
        self.loaded.get().unwrap_or(&self.loading).clone()
    }
}

struct Connections {
    settings: Arc<HttpSettings>,
    doors: Arc<Doors>,
    open: JoinSet<()>,
    bodies: Bodies,
    /// When to look for answers that nobody takes in.
    glances: Interval,
    closing: CancellationToken,
}

impl Connections {
    fn new(settings: HttpSettings) -> Self {
        let mut glances = tokio::time::interval((settings.write_timeout / 4).max(LEAST_GLANCE));
        glances.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let loading = TowerToHyperService::new(loading::router());
        Self {
            settings: Arc::new(settings),
            doors: Arc::new(Doors { loading, loaded: OnceLock::new() }),
            open: JoinSet::new(),
            bodies: Bodies::new(),
            glances,
            closing: CancellationToken::new(),
        }
    }

    /// The next thing that happens: somebody comes, somebody goes, or it is time to look who holds things up.
    async fn turn(&mut self, listener: &TcpListener) {
        tokio::select! {
            Some(ended) = self.open.join_next() => log_end(ended),
            _ = self.glances.tick() => self.bodies.end_stalled(self.settings.write_timeout),
            accepted = listener.accept(), if self.open.len() < self.settings.connections_max => {
                self.take_in(accepted).await;
            }
        }
    }

    async fn take_in(&mut self, accepted: io::Result<(TcpStream, SocketAddr)>) {
        match accepted {
            Ok((stream, _)) => {
                let doors = Arc::clone(&self.doors);
                let shared = (Arc::clone(&self.settings), self.bodies.clone());
                let closing = self.closing.clone();
                self.open.spawn(converse(stream, move || doors.answers(), shared, closing));
            }
            Err(error) => {
                // Usually there is no file descriptor left; one comes back when a connection ends.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }

    /// Lets every connection finish what it is sending, then cuts off those that do not read.
    async fn close(mut self) {
        self.closing.cancel();
        let all = async {
            while let Some(ended) = self.open.join_next().await {
                log_end(ended);
            }
        };
        if tokio::time::timeout(CLOSING, all).await.is_err() {
            tracing::warn!(open = self.open.len(), "connections that do not close are cut off");
            self.open.shutdown().await;
        }
    }
}

/// Ends when a shutdown was asked for and no answer is left, or its time is up.
async fn drained(app: &App) {
    app.shutdown.cancelled().await;
    tracing::info!("shutting down; new requests are refused");
    if tokio::time::timeout(app.settings.drain, app.running.none()).await.is_err() {
        app.runtime.shut_down(Duration::ZERO).await;
    }
}

fn log_end(ended: Result<(), JoinError>) {
    match ended {
        Err(error) if error.is_panic() => tracing::error!(%error, "a connection's task panicked"),
        _ => {}
    }
}

/// How long connections may take to send what they hold once nothing new comes.
const CLOSING: Duration = Duration::from_secs(5);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const LEAST_GLANCE: Duration = Duration::from_millis(5);
