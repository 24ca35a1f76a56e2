//! What a decode loop sleeps by.
//!
//! A loop waits for several things at once: messages in its inbox, steps of other models, a time. Whoever brings one of
//! them rings; a ring that comes while the loop is awake is not lost, the next wait returns at once.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

/// Rung by many, heard by one.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    /// Wakes the loop, or keeps it from falling asleep.
    pub(in crate::runtime) fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.heard.notify_one();
    }

    /// Sleeps until it is rung, at most so long.
    pub(in crate::runtime) fn wait(&self, at_most: Option<Duration>) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let is_silent = |rung: &mut bool| !*rung;
        let mut rung = match at_most {
            None => self.heard.wait_while(rung, is_silent).unwrap_or_else(PoisonError::into_inner),
            Some(at_most) => {
                let woken = self.heard.wait_timeout_while(rung, at_most, is_silent);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        *rung = false;
    }
}

/// A channel into a decode loop: its messages ring.
#[derive(Debug)]
pub(in crate::runtime) struct Inbox<T> {
    messages: mpsc::Sender<T>,
    bell: Arc<Bell>,
}

impl<T> Clone for Inbox<T> {
    fn clone(&self) -> Self {
        Self { messages: self.messages.clone(), bell: Arc::clone(&self.bell) }
    }
}

impl<T> Inbox<T> {
    /// A channel for `capacity` messages.
    pub(in crate::runtime) fn new(capacity: usize, bell: Arc<Bell>) -> (Self, mpsc::Receiver<T>) {
        let (messages, receiver) = mpsc::channel(capacity);
        (Self { messages, bell }, receiver)
    }

    /// Puts a message in without waiting; the loop hears of it when [`Inbox::ring`] is called.
    ///
    /// # Errors
    /// When the loop has ended, or is full.
    pub(in crate::runtime) fn put(&self, message: T) -> Result<(), mpsc::error::TrySendError<T>> {
        self.messages.try_send(message)
    }

    /// Wakes the loop.
    pub(in crate::runtime) fn ring(&self) {
        self.bell.ring();
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When the loop has ended.
    pub(in crate::runtime) async fn send(&self, message: T) -> Result<(), mpsc::error::SendError<T>> {
        self.messages.send(message).await?;
        self.bell.ring();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_before_the_wait_is_heard_and_heard_once() {
        let bell = Bell::default();
        bell.ring();
        bell.ring();
        bell.wait(None);
        let begun = std::time::Instant::now();
        bell.wait(Some(Duration::from_millis(20)));
        assert!(begun.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_ring_wakes_who_sleeps() {
        let bell = Arc::new(Bell::default());
        let sleeper = Arc::clone(&bell);
        let thread = std::thread::spawn(move || sleeper.wait(None));
        bell.ring();
        thread.join().unwrap();
    }
}
