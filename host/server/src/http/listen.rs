//! Connections: taken in, bounded, and ended.
//!
//! During a drain connections are still taken in, so that clients and load balancers are told (503) instead of being
//! turned away; only when the last answer has ended does the listener close.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::{App, HttpSettings, router};
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
    // After the last answer, so that it is saved too.
    let stop = CancellationToken::new();
    let keeping = tokio::spawn(keeper::keep(Arc::clone(&control), stop.clone()));
    let app = App::new(control, settings, shutdown);
    let mut connections = Connections::new(&app);
    let drained = drained(&app);
    tokio::pin!(drained);
    loop {
        tokio::select! {
            () = &mut drained => break,
            Some(ended) = connections.open.join_next() => log_end(ended),
            accepted = listener.accept(), if connections.have_room() => connections.take_in(accepted).await,
        }
    }
    drop(listener);
    connections.close().await;
    stop.cancel();
    if let Err(error) = keeping.await {
        tracing::error!(%error, "the keeper of experiments panicked");
    }
}

struct Connections {
    app: App,
    service: TowerToHyperService<Router>,
    open: JoinSet<()>,
    graceful: GracefulShutdown,
}

impl Connections {
    fn new(app: &App) -> Self {
        Self {
            app: app.clone(),
            service: TowerToHyperService::new(router(app.clone())),
            open: JoinSet::new(),
            graceful: GracefulShutdown::new(),
        }
    }

    async fn take_in(&mut self, accepted: io::Result<(TcpStream, std::net::SocketAddr)>) {
        match accepted {
            Ok((stream, _)) => {
                let service = self.service.clone();
                self.open.spawn(converse(
                    stream,
                    service,
                    self.app.settings.clone(),
                    self.graceful.watcher(),
                ));
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
        if tokio::time::timeout(CLOSING, self.graceful.shutdown()).await.is_err() {
            tracing::warn!("connections that do not close are cut off");
            self.open.abort_all();
        }
        while let Some(ended) = self.open.join_next().await {
            log_end(ended);
        }
    }

    fn have_room(&self) -> bool {
        self.open.len() < self.app.settings.connections_max
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

async fn converse(
    stream: TcpStream,
    service: TowerToHyperService<Router>,
    settings: HttpSettings,
    watcher: Watcher,
) {
    // A token is a small write, and it must not wait for the next one.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let spoke = Arc::new(Notify::new());
    let service = service_fn({
        let spoke = Arc::clone(&spoke);
        move |request| {
            spoke.notify_one();
            service.call(request)
        }
    });
    let builder = protocol(&settings);
    let connection = watcher.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned());
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection broke");
            }
        }
        () = never_speaks(&spoke, settings.header_timeout) => tracing::debug!("a connection said nothing"),
    }
}

/// Ends if no request comes in time. hyper's own limit begins only when it knows which protocol is spoken.
async fn never_speaks(spoke: &Notify, limit: Duration) {
    if tokio::time::timeout(limit, spoke.notified()).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// HTTP/1.1, and HTTP/2 by prior knowledge.
fn protocol(settings: &HttpSettings) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(settings.header_timeout);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(settings.header_timeout)
        .keep_alive_timeout(settings.header_timeout)
        .max_concurrent_streams(STREAMS_MAX);
    builder
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
/// Requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 256;
