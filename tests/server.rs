//! A server in this process, on threads of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;
use tokenrouter::config::{Config, EMBEDDED};
use tokenrouter::control::Control;
use tokenrouter::http::{HttpSettings, serve};
use tokenrouter::runtime::Runtime;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::client::{Events, Reply, ask, form, get, post, post_with};

/// A running server. Dropping it shuts it down and waits for its end.
pub struct Server {
    address: SocketAddr,
    control: Arc<Control>,
    shutdown: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// The embedded configuration, in one server that all tests of the process share.
    #[must_use]
    pub fn embedded() -> &'static Self {
        static SHARED: LazyLock<Server> = LazyLock::new(|| Server::start(EMBEDDED));
        &SHARED
    }

    /// A server with this configuration, on a free port; it is ready when this returns.
    ///
    /// # Panics
    /// If it cannot start.
    #[must_use]
    pub fn start(config: &str) -> Self {
        Self::start_with(config, |_| {})
    }

    /// Like [`Self::start`], with other HTTP settings than those that follow from the configuration.
    ///
    /// # Panics
    /// If it cannot start.
    #[must_use]
    pub fn start_with(config: &str, change: impl FnOnce(&mut HttpSettings)) -> Self {
        let mut config = Config::parse(config, Path::new("")).expect("a valid configuration");
        config.uploads.program = Some(binary());
        let mut settings = HttpSettings::new(&config);
        change(&mut settings);
        let shutdown = CancellationToken::new();
        let (started, when_started) = oneshot::channel();
        let stop = shutdown.clone();
        // A thread of its own: a test may be async, and a runtime cannot be dropped within another one.
        let thread = thread::spawn(move || {
            let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            threads.expect("a tokio runtime").block_on(run(config, settings, stop, started));
        });
        let (address, control) = thread::scope(|scope| scope.spawn(|| when_started.blocking_recv()).join())
            .expect("no panic")
            .expect("the server starts");
        Self { address, control, shutdown, thread: Some(thread) }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What runs behind HTTP.
    #[must_use]
    pub fn runtime(&self) -> &Arc<Runtime> {
        self.control.runtime()
    }

    /// Who may ask, and how to change what is served.
    #[must_use]
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Asks for a shutdown, as SIGTERM does, and does not wait.
    pub fn begin_shutdown(&self) {
        self.shutdown.cancel();
    }

    /// `GET path`
    pub async fn get(&self, path: &str) -> Reply {
        get(self.address, path).await
    }

    /// `POST path` with a JSON body.
    pub async fn post(&self, path: &str, body: &Value) -> Reply {
        post(self.address, path, body.to_string()).await
    }

    /// `POST path` with a JSON body and an API key.
    pub async fn post_as(&self, key: &str, path: &str, body: &Value) -> Reply {
        self.ask(Some(key), "POST", path, &body.to_string()).await
    }

    /// `POST path` with a JSON body and headers.
    pub async fn post_with(&self, headers: &[(&'static str, &str)], path: &str, body: &Value) -> Reply {
        post_with(self.address, headers, (path, body)).await
    }

    /// Any method and body, with an API key or without.
    pub async fn ask(&self, key: Option<&str>, method: &str, path: &str, body: &str) -> Reply {
        ask(self.address, key, (method, path), body).await
    }

    /// Uploads a component with its manifest.
    pub async fn upload(&self, key: Option<&str>, name: &str, component: &[u8], manifest: &str) -> Reply {
        let parts: [(&str, &[u8]); 2] = [("manifest", manifest.as_bytes()), ("component", component)];
        self.put_form(key, &format!("/v1/policies/{name}"), &parts).await
    }

    /// `PUT path` with the parts of a form.
    pub async fn put_form(&self, key: Option<&str>, path: &str, parts: &[(&str, &[u8])]) -> Reply {
        form(self.address, key, path, parts).await
    }

    /// `POST path` with any body.
    pub async fn post_raw(&self, path: &str, body: impl Into<Vec<u8>>) -> Reply {
        post(self.address, path, body).await
    }

    /// `POST path` with `"stream": true` added to the body.
    ///
    /// # Panics
    /// If the body is no object.
    pub async fn stream(&self, path: &str, body: &Value) -> Events {
        self.stream_as(None, path, body).await
    }

    /// As [`Self::stream`], with an API key or without.
    ///
    /// # Panics
    /// If the body is no object.
    pub async fn stream_as(&self, key: Option<&str>, path: &str, body: &Value) -> Events {
        let mut body = body.clone();
        body["stream"] = Value::Bool(true);
        Events::open(self.address, key, path, &body).await
    }
}

/// The program `tokenrouter`, which is built beside the tests by whoever builds the whole workspace.
///
/// # Panics
/// If this is no executable of the workspace.
#[must_use]
pub fn binary() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    // target/PROFILE/deps/all-0123 and target/PROFILE/tokenrouter
    let profile = test.parent().and_then(Path::parent).expect("it is in target/");
    profile.join("tokenrouter")
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.cancel();
        let ended = self.thread.take().map(JoinHandle::join);
        if !thread::panicking() {
            ended.expect("joined once").expect("the server's thread does not panic");
        }
    }
}

async fn run(
    config: Config,
    settings: HttpSettings,
    stop: CancellationToken,
    started: oneshot::Sender<(SocketAddr, Arc<Control>)>,
) {
    let runtime = Arc::new(Runtime::start(&config, &mut ()).unwrap_or_else(|error| panic!("{error}")));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let control = Control::new(Arc::clone(&runtime), &config).unwrap_or_else(|error| panic!("{error}"));
    let control = Arc::new(control);
    assert!(started.send((address, Arc::clone(&control))).is_ok(), "the test waits");
    serve(listener, control, settings, stop).await;
    runtime.shut_down(Duration::ZERO).await;
}
