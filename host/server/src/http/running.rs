//! How many answers are being given, so that a drain knows when the last one has ended, and a connection when it is idle.

use tokio::sync::watch;

/// The count. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Running(watch::Sender<usize>);

/// One answer; counted until it is dropped.
#[derive(Debug)]
pub(super) struct RunningAnswer(watch::Sender<usize>);

impl Default for Running {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Running {
    /// Counts one answer.
    pub(super) fn begin(&self) -> RunningAnswer {
        self.0.send_modify(|count| *count += 1);
        RunningAnswer(self.0.clone())
    }

    /// Waits until there is none.
    pub(super) async fn none(&self) {
        self.until(|count| count == 0).await;
    }

    /// Waits until there is one.
    pub(super) async fn some(&self) {
        self.until(|count| count > 0).await;
    }

    async fn until(&self, is_so: impl Fn(usize) -> bool) {
        let mut count = self.0.subscribe();
        // It fails only when every sender is gone, and this one is not.
        if count.wait_for(|count| is_so(*count)).await.is_err() {
            tracing::debug!("nobody counts answers any more");
        }
    }
}

impl Drop for RunningAnswer {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_drain_waits_for_the_last_answer() {
        let running = Running::default();
        running.none().await;
        let (first, second) = (running.begin(), running.begin());
        drop(first);
        let waiting = tokio::spawn({
            let running = running.clone();
            async move { running.none().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.unwrap();
    }
}
