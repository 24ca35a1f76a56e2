//! A small client: one connection per request.

use std::collections::VecDeque;
use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::HeaderMap;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// A whole response.
#[derive(Debug)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body as text.
    pub text: String,
}

impl Reply {
    /// The body as JSON.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {:?}", self.text))
    }

    /// A header's value; empty if it is not there.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("ASCII"))
    }

    async fn read(response: Response<Incoming>) -> Self {
        let (parts, body) = response.into_parts();
        Self::whole(parts.status.as_u16(), parts.headers, body).await
    }

    async fn whole(status: u16, headers: HeaderMap, body: Incoming) -> Self {
        let body = body.collect().await.expect("a whole body").to_bytes();
        let text = String::from_utf8(body.to_vec()).expect("UTF-8");
        Self { status, headers, text }
    }
}

/// A stream of server-sent events. Dropping it closes the connection.
#[derive(Debug)]
pub struct Events {
    /// HTTP status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    body: Incoming,
    buffer: Vec<u8>,
    ready: VecDeque<String>,
    /// Comment lines seen so far.
    pub comments: Vec<String>,
}

impl Events {
    /// `POST path` with a JSON body, with an API key or without.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn open(address: SocketAddr, key: Option<&str>, path: &str, body: &Value) -> Self {
        let response = send(address, with_key(request("POST", path, body.to_string()), key)).await;
        let (parts, body) = response.into_parts();
        let status = parts.status.as_u16();
        let headers = parts.headers;
        Self { status, headers, body, buffer: Vec::new(), ready: VecDeque::new(), comments: Vec::new() }
    }

    /// The data of the next event; `None` when the stream has ended.
    ///
    /// # Panics
    /// If the stream breaks or is no event stream.
    pub async fn next(&mut self) -> Option<String> {
        while self.ready.is_empty() {
            let frame = self.body.frame().await?.expect("the stream goes on");
            let Ok(data) = frame.into_data() else { continue };
            self.buffer.extend_from_slice(&data);
            while let Some(end) = self.buffer.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
                self.take(std::str::from_utf8(&event).expect("UTF-8").trim_end());
            }
        }
        self.ready.pop_front()
    }

    /// The whole response, where there is no stream because the request was refused.
    pub async fn refusal(self) -> Reply {
        Reply::whole(self.status, self.headers, self.body).await
    }

    /// All data until the stream ends.
    pub async fn rest(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(data) = self.next().await {
            all.push(data);
        }
        all
    }

    /// All chunks of an answer that ends well, `[DONE]` left out.
    ///
    /// # Panics
    /// If it ends otherwise.
    pub async fn chunks(&mut self) -> Vec<Value> {
        let mut all = self.rest().await;
        assert_eq!(all.pop().as_deref(), Some("[DONE]"), "after {all:?}");
        all.iter().map(|data| serde_json::from_str(data).expect("JSON")).collect()
    }

    fn take(&mut self, event: &str) {
        match (event.strip_prefix("data: "), event.strip_prefix(':')) {
            (Some(data), _) => self.ready.push_back(data.to_owned()),
            (_, Some(comment)) => self.comments.push(comment.trim().to_owned()),
            _ => panic!("neither data nor comment: {event:?}"),
        }
    }
}

/// A connection to speak any bytes on.
///
/// # Panics
/// If the server does not listen.
pub async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("the server listens")
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Reply {
    Reply::read(send(address, request("GET", path, Vec::new())).await).await
}

/// Any method and body, with an API key or without.
///
/// # Panics
/// If the server does not answer.
pub async fn ask(address: SocketAddr, key: Option<&str>, (method, path): (&str, &str), body: &str) -> Reply {
    Reply::read(send(address, with_key(request(method, path, body), key)).await).await
}

pub(crate) async fn post_with(
    address: SocketAddr,
    headers: &[(&'static str, &str)],
    (path, body): (&str, &Value),
) -> Reply {
    let mut request = request("POST", path, body.to_string());
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().expect("a header's value"));
    }
    Reply::read(send(address, request).await).await
}

fn with_key(mut request: Request<Full<Bytes>>, key: Option<&str>) -> Request<Full<Bytes>> {
    if let Some(key) = key {
        let bearer = format!("Bearer {key}").parse().expect("a header's value");
        request.headers_mut().insert("authorization", bearer);
    }
    request
}

/// `PUT path` with the parts of a form.
///
/// # Panics
/// If the server does not answer.
pub async fn form(address: SocketAddr, key: Option<&str>, path: &str, parts: &[(&str, &[u8])]) -> Reply {
    const BOUNDARY: &str = "a-boundary-of-tests";
    let mut body = Vec::new();
    for (name, bytes) in parts {
        let head = format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n");
        body.extend_from_slice(&[head.as_bytes(), bytes, b"\r\n"].concat());
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    let mut request = with_key(request("PUT", path, body), key);
    let kind = format!("multipart/form-data; boundary={BOUNDARY}").parse().expect("a header's value");
    request.headers_mut().insert("content-type", kind);
    Reply::read(send(address, request).await).await
}

pub(crate) async fn post(address: SocketAddr, path: &str, body: impl Into<Vec<u8>>) -> Reply {
    Reply::read(send(address, request("POST", path, body)).await).await
}

fn request(method: &str, path: &str, body: impl Into<Vec<u8>>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Full::new(body.into().into()))
        .expect("a valid request")
}

async fn send(address: SocketAddr, request: Request<Full<Bytes>>) -> Response<Incoming> {
    let stream = TokioIo::new(connect(address).await);
    let (mut sender, connection) = http1::handshake(stream).await.expect("a connection");
    tokio::spawn(async move {
        // It ends with an error when a test breaks off, which is what such a test wants.
        drop(connection.await);
    });
    sender.send_request(request).await.expect("a response")
}
