//! What the real registry of `tests/registry` does not do by itself: tokens, redirects, and answers that are wrong on purpose.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use store::Digest;

use super::{Artifact, Client, Layer, Reference, RegistryError};
use crate::config::Registry;

/// Answers each path with what is written for it, and keeps who was sent along. It ends with the process.
struct Scripted {
    host: String,
    asked: Arc<Mutex<Vec<String>>>,
}

/// Status line and headers, and the body.
type Answers = BTreeMap<String, (String, Vec<u8>)>;

impl Scripted {
    /// What is answered may depend on the address, and without a token everything below `/v2/` is refused.
    fn start(answers: impl FnOnce(&str) -> Answers, guarded: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (answers, asked) = (answers(&host), Arc::<Mutex<Vec<String>>>::default());
        let (kept, of) = (Arc::clone(&asked), host.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
                let path = lines.next().unwrap_or_default().split(' ').nth(1).unwrap_or_default().to_owned();
                let sent = lines.take_while(|line| !line.is_empty());
                let sent = sent.filter_map(|line| Some(line.strip_prefix("authorization: ")?.to_owned()));
                let sent = sent.last().unwrap_or_default();
                kept.lock().unwrap().push(format!("{path} {sent}"));
                let refused = (
                    format!(
                        "401 No\r\nwww-authenticate: Bearer realm=\"http://{of}/token\",service=\"s\",scope=\"repository:p:pull\""
                    ),
                    Vec::new(),
                );
                let is_refused = guarded && path.starts_with("/v2/") && sent != "Bearer t0ken";
                let absent = ("404 Not Found".to_owned(), Vec::new());
                let (head, body) = if is_refused { &refused } else { answers.get(&path).unwrap_or(&absent) };
                let length = body.len();
                write!(stream, "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n")
                    .unwrap();
                stream.write_all(body).unwrap();
            }
        });
        Self { host, asked }
    }

    fn client(&self, settings: &Registry) -> Client {
        Client::new(&Reference::parse(&format!("oci://{}/p", self.host)).unwrap(), settings).unwrap()
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn ok(body: &[u8]) -> (String, Vec<u8>) {
    ("200 OK".to_owned(), body.to_vec())
}

#[test]
fn a_token_is_fetched_with_what_is_known_and_goes_to_nobody_else() {
    let (component, folder) = (b"a component", tempfile::tempdir().unwrap());
    let manifest = Artifact::of(component, ("p", ""), None).manifest;
    let blob = format!("/v2/p/blobs/sha256:{}", Digest::of(component));
    let elsewhere = Scripted::start(|_| BTreeMap::from([("/stored".to_owned(), ok(component))]), false);
    let redirect = format!("307 Elsewhere\r\nlocation: http://{}/stored", elsewhere.host);
    let answers = |_: &str| {
        BTreeMap::from([
            ("/v2/p/manifests/latest".to_owned(), ok(&manifest)),
            ("/token?service=s&scope=repository%3Ap%3Apull".to_owned(), ok(br#"{"access_token": "t0ken"}"#)),
            (blob.clone(), (redirect, Vec::new())),
        ])
    };
    let registry = Scripted::start(answers, true);
    let file = folder.path().join("config.json");
    std::fs::write(&file, format!("{{\"auths\": {{\"{}\": {{\"auth\": \"dTpw\"}}}}}}", registry.host))
        .unwrap();
    let mut client = registry.client(&Registry { auth_file: Some(file), ..Registry::default() });
    let (got, digest) = client.manifest().unwrap();
    assert_eq!((&got, digest), (&manifest, Digest::of(&manifest)));
    assert_eq!(client.component(&Layer::of(&got).unwrap(), 100).unwrap(), component);
    assert_eq!(
        registry.asked(),
        [
            "/v2/p/manifests/latest ".to_owned(),
            "/token?service=s&scope=repository%3Ap%3Apull Basic dTpw".to_owned(),
            "/v2/p/manifests/latest Bearer t0ken".to_owned(),
            format!("{blob} Bearer t0ken"),
        ]
    );
    assert_eq!(elsewhere.asked(), ["/stored "]);
}

#[test]
fn what_is_too_large_or_something_else_is_not_taken() {
    let component = vec![7; 1000];
    let layer = |digest: Digest, bytes: u64| Layer { digest, bytes, signature: None };
    let (digest, other) = (Digest::of(&component), Digest::of(b"other"));
    let path = |digest: Digest| format!("/v2/p/blobs/sha256:{digest}");
    let answers = |_: &str| BTreeMap::from([(path(digest), ok(&component)), (path(other), ok(&component))]);
    let registry = Scripted::start(answers, false);
    let mut client = registry.client(&Registry::default());
    let mut get = |digest, bytes, most| client.component(&layer(digest, bytes), most);
    assert_eq!(get(digest, 1000, 1000).unwrap(), component);
    let refused = get(digest, 1000, 999).unwrap_err();
    assert!(
        refused.to_string().ends_with("than the 999 bytes that are taken (uploads.bytes_max)"),
        "{refused}"
    );
    let sent = registry.asked().len();
    assert!(matches!(get(digest, 2000, 1000), Err(RegistryError::TooLarge { .. })));
    assert_eq!(registry.asked().len(), sent, "what says that it is too large is not asked for");
    assert!(
        matches!(get(digest, 10, 999), Err(RegistryError::TooLarge { .. })),
        "whatever its manifest says"
    );
    let damaged = get(other, 1000, 1000).unwrap_err().to_string();
    assert!(damaged.contains(&format!("its SHA-256 is {digest}, not {other}")), "{damaged}");
    let absent = get(Digest::of(b"absent"), 1, 1000).unwrap_err().to_string();
    assert!(absent.contains("answers 404 to its component"), "{absent}");
}
