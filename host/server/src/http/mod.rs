//! HTTP: OpenAI's API in, journeys out.
//!
//! The only room that knows what a client sees. A request goes through `listen` and `connection` → `envelope`
//! (request id, span) → `access` (who asks) → `generate` (the handler) → `body` → `parse` → `prepare` (route, arm by `draw`,
//! tokens, grammar by `constrain`) → `submit` → the [`Runtime`], and its answer comes back through `report`, calls of tools in
//! it told from text by `calls`. Nothing here decodes, schedules or decides; status codes
//! are chosen in `error` alone. `page` is what a browser shows; it asks as any client does.

mod access;
mod audit;
mod body;
mod calls;
mod connection;
mod constrain;
mod description;
mod draw;
mod envelope;
mod error;
mod experiments;
mod feedback;
mod generate;
mod keys;
mod listen;
mod loading;
mod models;
mod off_thread;
mod page;
mod parse;
mod policies;
mod prepare;
mod random;
mod report;
mod running;
mod stalled;
mod submit;
mod tokens;
mod traced;
mod usage;
mod watch;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

pub use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, delete, get, post};
use tokio_util::sync::CancellationToken;

pub use listen::{serve, serve_when};
pub(crate) use random::secret;

use crate::config::Config;
use crate::control::Control;
use crate::runtime::Runtime;
use crate::unix;
use error::ApiError;
use running::Running;

/// Bounds of connections and requests.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Connections open at once; more wait in the listener's backlog.
    pub connections_max: usize,
    /// How long a client may take to send a request's headers, and a connection may stay open between requests.
    pub header_timeout: Duration,
    /// How long a client may take to send a request's body.
    pub body_timeout: Duration,
    /// How long a client may take in nothing of its answer.
    pub write_timeout: Duration,
    /// How long a stream may be silent before a comment line keeps it alive.
    pub ping_interval: Duration,
    /// How long running answers may take once a shutdown was asked for.
    pub drain: Duration,
}

impl HttpSettings {
    /// The settings that follow from a configuration.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let server = &config.server;
        let seconds = |seconds: NonZeroU32| Duration::from_secs(u64::from(seconds.get()));
        // Every journey and every waiting request holds a connection; some are left for probes and refusals.
        let busy = server.journeys_max.get().saturating_add(server.queue_max.get());
        Self {
            connections_max: busy.saturating_add(SPARE_CONNECTIONS),
            header_timeout: seconds(server.header_seconds),
            body_timeout: seconds(server.body_seconds),
            write_timeout: seconds(server.write_seconds),
            ping_interval: seconds(server.ping_seconds),
            drain: Duration::from_secs(server.drain_seconds),
        }
    }
}

/// What every handler may use. Cheap to clone.
#[derive(Clone)]
pub struct App {
    runtime: Arc<Runtime>,
    /// Who may ask, and the way to change what is served.
    control: Arc<Control>,
    settings: HttpSettings,
    shutdown: CancellationToken,
    /// Answers being given; the end of a drain waits for them.
    running: Running,
    /// Seconds since 1970 when the server started; models are as old as that.
    started: u64,
}

impl App {
    /// An application over a running system. Once `shutdown` is cancelled, new requests are refused.
    #[must_use]
    pub fn new(control: Arc<Control>, settings: HttpSettings, shutdown: CancellationToken) -> Self {
        let runtime = Arc::clone(control.runtime());
        let (running, started) = (Running::default(), unix::now_s());
        Self { runtime, control, settings, shutdown, running, started }
    }

    /// Whether requests are accepted.
    fn ready(&self) -> bool {
        !self.shutdown.is_cancelled() && self.runtime.ready()
    }
}

/// All routes, in OpenAI's dialect to the last error.
pub fn router(app: App) -> Router {
    let all = routes().into_iter().fold(Router::new(), |router, (path, of)| router.route(path, of));
    let routes = all
        .fallback(unknown_url)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(app.clone(), access::guard))
        .with_state(app);
    // Around the router, not on its routes: it has the last word on all that the router adds to an answer.
    Router::new().fallback_service(routes).layer(from_fn(envelope::wrap))
}

/// Every path that is served, as the router writes it. What can be asked of each is told by `openapi.json`.
#[must_use]
pub fn paths() -> Vec<&'static str> {
    routes().into_iter().map(|(path, _)| path).collect()
}

/// A path and its methods.
type Served = (&'static str, MethodRouter<App>);

fn routes() -> Vec<Served> {
    let mut routes: Vec<Served> = vec![
        ("/", get(page::index)),
        ("/page/{file}", get(page::file)),
        ("/openapi.json", get(description::show)),
        ("/v1/models", get(models::list)),
        ("/v1/models/{*id}", get(models::retrieve)),
        ("/v1/chat/completions", post(generate::chat)),
        ("/v1/completions", post(generate::text)),
        ("/tokenize", post(tokens::tokenize)),
        ("/detokenize", post(tokens::detokenize)),
        ("/tokenizer_info", get(tokens::info)),
        ("/v1/feedback", post(feedback::feedback)),
        ("/v1/usage", get(usage::usage)),
        ("/health", get(watch::health)),
        ("/ready", get(watch::ready)),
        ("/metrics", get(watch::metrics)),
        ("/admin/scheduler", get(watch::scheduler)),
        ("/admin/policies", get(watch::policies)),
        ("/admin/experiments", get(experiments::list)),
        (
            "/admin/experiments/{name}",
            get(experiments::show).put(experiments::put).delete(experiments::delete),
        ),
        ("/admin/experiments/{name}/{action}", post(experiments::act)),
        ("/admin/config", get(watch::config)),
        ("/admin/tenants/{name}/keys", get(keys::list).post(keys::make)),
        ("/admin/tenants/{name}/keys/{id}", delete(keys::revoke)),
        ("/admin/tenants/{name}/keys/{id}/rotate", post(keys::rotate)),
        ("/admin/audit", get(audit::entries)),
        ("/admin/audit/verify", get(audit::verify)),
    ];
    routes.extend(policies::routes());
    routes
}

async fn unknown_url(request: axum::extract::Request) -> ApiError {
    ApiError::unknown_url(request.method().as_str(), request.uri().path())
}

async fn wrong_method(request: axum::extract::Request) -> ApiError {
    ApiError::wrong_method(request.method().as_str(), request.uri().path())
}

/// Connections beyond those that wait for an answer.
const SPARE_CONNECTIONS: usize = 256;
