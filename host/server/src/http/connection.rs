//! One connection: what it may send, for how long it may be silent, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

use super::HttpSettings;
use super::running::Running;
use super::stalled::Bodies;

/// Speaks with a client until one of both ends it, or nothing was asked for too long. Once `closing` is cancelled, what
/// is being answered is answered, and nothing else.
pub(super) async fn converse(
    stream: TcpStream,
    answers: impl Fn() -> TowerToHyperService<Router>,
    (settings, bodies): (Arc<HttpSettings>, Bodies),
    closing: CancellationToken,
) {
    let running = Running::default();
    let service = service_fn(|request| {
        let (answer, answers, bodies) = (running.begin(), answers(), bodies.clone());
        async move {
            Ok::<_, std::convert::Infallible>(
                answers.call(request).await?.map(|body| bodies.watch(body, answer)),
            )
        }
    });
    let builder = protocol(&settings);
    let connection = builder.serve_connection(TokioIo::new(Box::pin(patient(stream, &settings))), service);
    tokio::pin!(connection);
    let over = async {
        tokio::select! {
            () = closing.cancelled() => {}
            () = idle(&running, settings.header_timeout) => tracing::debug!("a connection on which nothing is asked"),
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = over => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection broke");
    }
}

/// A stream that fails when the other end takes nothing in for too long, and of which little is on its way.
fn patient(stream: TcpStream, settings: &HttpSettings) -> TimeoutStream<TcpStream> {
    // A token is a small write, and it must not wait for the next one.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    // By itself the system would let megabytes wait for one slow reader.
    if let Err(error) = SockRef::from(&stream).set_send_buffer_size(SEND_BYTES) {
        tracing::debug!(%error, "cannot set SO_SNDBUF");
    }
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(settings.write_timeout));
    stream
}

/// Ends when nothing has been asked or answered for so long. hyper's own limit is for HTTP/1.1, once it is known to be spoken.
async fn idle(running: &Running, limit: Duration) {
    loop {
        running.none().await;
        if tokio::time::timeout(limit, running.some()).await.is_err() {
            return;
        }
    }
}

/// HTTP/1.1, and HTTP/2 by prior knowledge.
fn protocol(settings: &HttpSettings) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout)
        .max_buf_size(HEADER_BYTES_MAX);
    // Streams that are opened and reset in a flood are bounded by h2's own limits, which end the connection.
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(settings.header_timeout)
        .keep_alive_timeout(settings.header_timeout)
        .max_header_list_size(HEADER_BYTES_MAX as u32)
        .max_send_buf_size(HEADER_BYTES_MAX)
        .max_concurrent_streams(STREAMS_MAX);
    builder
}

/// Requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 256;
/// Bytes of a request's headers; with HTTP/1.1 also what of an answer waits in the process for a slow reader.
const HEADER_BYTES_MAX: usize = 64 << 10;
/// Bytes of an answer that wait in the system for a slow reader.
const SEND_BYTES: usize = 256 << 10;
