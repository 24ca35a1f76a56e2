//! What comes over HTTP, given to the server's own router without a socket in between.

use std::path::Path;
use std::sync::Arc;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokenrouter::config::Config;
use tokenrouter::control::Control;
use tokenrouter::http::{App, HttpSettings, Router, router};
use tokenrouter::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::Target;
use super::corpus::{self, Seed};

/// A server whose models answer in no time.
struct Served {
    tokio: tokio::runtime::Runtime,
    router: TowerToHyperService<Router>,
    /// What is kept while it is here.
    _folder: tempfile::TempDir,
}

impl Served {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let tokio = tokio.expect("a tokio runtime");
        let mut config = Config::parse(CONFIG, Path::new("")).expect("valid");
        config.server.data_dir = Some(folder.path().to_owned());
        let _in_tokio = tokio.enter();
        let runtime = Arc::new(Runtime::start(&config, &mut ()).expect("it starts"));
        let control = Arc::new(Control::new(runtime, &config).expect("it can be changed"));
        let app = App::new(control, HttpSettings::new(&config), CancellationToken::new());
        let router = TowerToHyperService::new(router(app));
        drop(_in_tokio);
        Self { tokio, router, _folder: folder }
    }

    /// Asks; whatever comes is an answer or a refusal of this request, in the form that clients know.
    fn ask(&self, request: Request<Full<Bytes>>) {
        let (status, json) = self.tokio.block_on(async {
            let answer = self.router.call(request).await.expect("the router answers");
            let (parts, body) = answer.into_parts();
            let kind = parts.headers.get("content-type").map(|kind| kind.as_bytes().to_vec());
            let body = body.collect().await.expect("a whole answer").to_bytes();
            let is_json = kind.is_some_and(|kind| kind == b"application/json");
            (parts.status.as_u16(), is_json.then(|| serde_json::from_slice::<Value>(&body).expect("JSON")))
        });
        assert!(status < 500, "{status}: {json:?}");
        if status >= 400 {
            let error = &json.as_ref().expect("a refusal is JSON")["error"];
            assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
        }
    }
}

/// Any request: a line with method and path, and the body.
pub(crate) struct Requests(Served);

impl Requests {
    pub(crate) fn new() -> Self {
        Self(Served::new())
    }
}

impl Target for Requests {
    fn seeds(&self) -> Vec<Seed> {
        corpus::of("http")
    }

    fn read(&mut self, _: &Seed, input: &[u8]) {
        let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
        let line = String::from_utf8_lossy(&input[..end]);
        let (method, path) = line.split_once(' ').unwrap_or(("POST", &line));
        let body = input.get(end + 1..).unwrap_or_default().to_vec();
        let request = Request::builder().method(method).uri(path).body(Full::new(Bytes::from(body)));
        // What is no request never comes as far as the router.
        if let Ok(request) = request {
            self.0.ask(request);
        }
    }
}

/// The body of an upload: a form with a manifest and a component that may not be served.
pub(crate) struct Uploads(Served);

impl Uploads {
    pub(crate) fn new() -> Self {
        Self(Served::new())
    }
}

impl Target for Uploads {
    fn seeds(&self) -> Vec<Seed> {
        corpus::of("manifest")
    }

    fn read(&mut self, _: &Seed, input: &[u8]) {
        let part = |name: &str| format!("--b\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n");
        let (manifest, component) = (part("manifest"), part("component"));
        let form =
            [manifest.as_bytes(), input, b"\r\n", component.as_bytes(), input, b"\r\n--b--\r\n"].concat();
        for body in [form, input.to_vec()] {
            let request =
                Request::put("/v1/policies/mine").header("content-type", "multipart/form-data; boundary=b");
            self.0.ask(request.body(Full::new(body.into())).expect("a request"));
        }
    }
}

/// Nothing that is uploaded is on the list, so nothing is compiled.
const CONFIG: &str = r#"
[server]
journeys_max = 8
[uploads]
allow = ["0000000000000000000000000000000000000000000000000000000000000000"]
[models.small]
files = "embedded:small"
sim = {}
[models.large]
files = "embedded:large"
sim = {}
[routes."pair/entropy"]
models = ["small", "large"]
policy = "builtin:entropy"
"#;
