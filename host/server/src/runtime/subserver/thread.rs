//! The thread of a decode loop: a step is pure computation, and nobody's tasks are to wait for it.

use std::any::Any;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::sync::oneshot;

use super::decode_loop::DecodeLoop;

/// What a panic said.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// Runs a decode loop on a named thread; the future ends with the thread.
pub(super) fn on_its_thread(
    name: &str,
    mut decode: DecodeLoop,
    alive: Arc<AtomicBool>,
) -> io::Result<impl Future<Output = ()> + use<>> {
    let (ended, when_ended) = oneshot::channel::<()>();
    let handle = thread::Builder::new().name(format!("decode-{name}")).spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| decode.run()));
        alive.store(false, Ordering::Release);
        drop(ended);
        if let Err(panic) = outcome {
            tracing::error!(message = panic_message(panic.as_ref()), "a decode loop panicked");
        }
    })?;
    Ok(async move {
        // The sender is never used: its drop is the signal.
        drop(when_ended.await);
        if handle.join().is_err() {
            tracing::error!("a decode thread could not be joined");
        }
    })
}
