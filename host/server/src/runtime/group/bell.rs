//! What a decode loop sleeps by.
//!
//! A loop waits for several things at once: messages in its inbox, steps of other models, a time. Whoever brings one of
//! them rings; a ring that comes while the loop is awake is not lost, the next wait returns at once.
//!
//! Falling asleep and being woken costs about 12 us, more than everything else of a hop from model to model. Where no
//! model computes on the cores of this machine a loop therefore stays awake for a moment first. Whoever stays awake about
//! as long as that costs never pays more than twice what the better choice would have been, without knowing what comes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

/// Rung by many, heard by one.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Bell {
    rung: AtomicBool,
    /// Whether the loop sleeps. Held while it falls asleep, so that no ring falls between its last look and its sleep.
    asleep: Mutex<bool>,
    heard: Condvar,
    /// Whether the loop looks for a ring for a moment before it falls asleep.
    watchful: AtomicBool,
}

impl Bell {
    /// Whether its loop stays awake for a moment before it sleeps: for machines with cores to spare.
    pub(in crate::runtime) fn set_watchful(&self, watchful: bool) {
        self.watchful.store(watchful, Ordering::Relaxed);
    }

    /// Wakes the loop, or keeps it from falling asleep.
    pub(in crate::runtime) fn ring(&self) {
        self.rung.store(true, Ordering::SeqCst);
        if *self.asleep.lock().unwrap_or_else(PoisonError::into_inner) {
            self.heard.notify_one();
        }
    }

    /// Sleeps until it is rung, at most so long.
    pub(in crate::runtime) fn wait(&self, at_most: Option<Duration>) {
        let watch = if self.watchful.load(Ordering::Relaxed) { AWAKE } else { Duration::ZERO };
        let awake = at_most.map_or(watch, |at_most| at_most.min(watch));
        if !self.is_rung_within(awake) {
            self.sleep(at_most.map(|at_most| at_most.saturating_sub(awake)));
        }
        self.rung.store(false, Ordering::SeqCst);
    }

    fn is_rung_within(&self, awake: Duration) -> bool {
        if awake.is_zero() {
            return self.rung.load(Ordering::SeqCst);
        }
        let begun = Instant::now();
        loop {
            if self.rung.load(Ordering::SeqCst) {
                return true;
            }
            if begun.elapsed() >= awake {
                return false;
            }
            std::hint::spin_loop();
        }
    }

    fn sleep(&self, at_most: Option<Duration>) {
        let mut asleep = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        *asleep = true;
        let is_silent = |_: &mut bool| !self.rung.load(Ordering::SeqCst);
        let mut asleep = match at_most {
            None => self.heard.wait_while(asleep, is_silent).unwrap_or_else(PoisonError::into_inner),
            Some(at_most) => {
                let woken = self.heard.wait_timeout_while(asleep, at_most, is_silent);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        *asleep = false;
    }
}

/// Twice and a half of what a sleep and a wake cost where it was measured (2 cores, EPYC Zen 4).
const AWAKE: Duration = Duration::from_micros(30);

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
        for bell in bells() {
            bell.ring();
            bell.ring();
            bell.wait(None);
            let begun = Instant::now();
            bell.wait(Some(Duration::from_millis(20)));
            assert!(begun.elapsed() >= Duration::from_millis(20));
        }
    }

    /// A ring that is lost leaves one of the two asleep for ever.
    #[test]
    fn no_ring_is_lost_however_it_meets_the_sleep() {
        for pair in bells().into_iter().zip(bells()) {
            let bells = Arc::new(<[Bell; 2]>::from(pair));
            let others = Arc::clone(&bells);
            let thread = std::thread::spawn(move || {
                for _ in 0..ROUNDS {
                    others[1].wait(None);
                    others[0].ring();
                }
            });
            for _ in 0..ROUNDS {
                bells[1].ring();
                bells[0].wait(None);
            }
            thread.join().unwrap();
        }
    }

    /// One that sleeps at once and one that watches.
    fn bells() -> [Bell; 2] {
        let bells = [Bell::default(), Bell::default()];
        bells[1].set_watchful(true);
        bells
    }

    const ROUNDS: u32 = 20_000;
}
