//! A client's end of HTTP: one connection, one request after the other.

use std::net::SocketAddr;

use engine::EngineError;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::control::ControlError;
use crate::runtime::{NoSuchRoute, StartError};

/// Why the benchmark cannot run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoutingError {
    /// The server does not start.
    #[error(transparent)]
    Start(#[from] Box<StartError>),
    /// The server does not start.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The route is not there.
    #[error(transparent)]
    Route(#[from] NoSuchRoute),
    /// The configuration has not the route that is measured.
    #[error("the configuration has no route {0:?}")]
    NoRoute(&'static str),
    /// A question cannot be written in tokens.
    #[error("writing a question in tokens")]
    Prompt(#[from] EngineError),
    /// No connection.
    #[error("cannot connect to the server of the benchmark")]
    Connect(#[from] std::io::Error),
    /// The connection broke.
    #[error("the connection to the server of the benchmark broke")]
    Http(#[from] hyper::Error),
    /// The server answered with something else.
    #[error("the server of the benchmark answered {status}: {text}")]
    Answer {
        /// HTTP status.
        status: u16,
        /// What came.
        text: String,
    },
    /// A dispatcher goes between two models.
    #[error("the route {route:?} has {models} models; std-serving goes between 2")]
    NotAPair {
        /// Its name.
        route: String,
        /// How many models it has.
        models: usize,
    },
    /// A task of the benchmark panicked.
    #[error("a client of the benchmark broke off")]
    Client(#[from] tokio::task::JoinError),
}

/// An open connection.
pub(in crate::bench) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Moves the bytes; ends with this.
    _mover: JoinSet<()>,
}

impl Connection {
    pub(in crate::bench) async fn open(address: SocketAddr) -> Result<Self, RoutingError> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        let mut mover = JoinSet::new();
        mover.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection of the benchmark ended");
            }
        });
        Ok(Self { sender, _mover: mover })
    }

    /// Sends a JSON body; the answer's body once its head has come.
    pub(super) async fn post(&mut self, path: &str, body: &Value) -> Result<Incoming, RoutingError> {
        let bytes = Bytes::from(body.to_string());
        let request = Request::post(path)
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(bytes))
            .expect("a valid request");
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let (status, body) = (response.status(), response.into_body());
        if status.is_success() {
            return Ok(body);
        }
        let text = String::from_utf8_lossy(&body.collect().await?.to_bytes()).into_owned();
        Err(RoutingError::Answer { status: status.as_u16(), text })
    }

    /// Sends a JSON body; the whole answer.
    pub(in crate::bench) async fn ask(&mut self, path: &str, body: &Value) -> Result<Bytes, RoutingError> {
        Ok(self.post(path, body).await?.collect().await?.to_bytes())
    }
}

/// The data of server-sent events.
pub(super) struct Events {
    body: Incoming,
    buffer: Vec<u8>,
    /// How much of the buffer has been given out.
    used: usize,
}

impl Events {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, buffer: Vec::new(), used: 0 }
    }

    /// The data of the next event that has any; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<&[u8]>, RoutingError> {
        loop {
            let rest = &self.buffer[self.used..];
            if let Some(length) = rest.windows(2).position(|two| two == b"\n\n") {
                let event = self.used..self.used + length;
                self.used = event.end + 2;
                if self.buffer[event.clone()].starts_with(DATA) {
                    return Ok(Some(&self.buffer[event.start + DATA.len()..event.end]));
                }
                continue;
            }
            self.buffer.drain(..self.used);
            self.used = 0;
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(data) = frame?.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }
}

const DATA: &[u8] = b"data: ";
