//! Work on a large body, where it holds nobody up.

use super::error::ApiError;

/// Does what a body of so many bytes asks for: here if that is quick, or else on a thread that may block. Parsing and
/// tokenising a large body takes long enough to hold up other connections.
pub(super) async fn off_thread<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if bytes <= INLINE_BYTES_MAX {
        return work();
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => {
            tracing::error!(%error, "preparing a request panicked; please report this");
            Err(ApiError::server("the server failed at this request; its log says more"))
        }
    }
}

/// Bodies up to here are prepared in well under a millisecond.
const INLINE_BYTES_MAX: usize = 16 << 10;
