//! llguidance's matcher as a journey takes it along.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use journey::{Standing, TokenMask};
use llguidance::Matcher;

/// A grammar whose answers have not begun.
pub(crate) struct Compiled {
    /// Only ever copied.
    fresh: Mutex<Matcher>,
}

/// One answer's place in it.
struct Place(Matcher);

impl Compiled {
    pub(crate) fn new(fresh: Matcher) -> Self {
        Self { fresh: Mutex::new(fresh) }
    }
}

impl journey::Grammar for Compiled {
    fn begin(&self) -> Box<dyn journey::Matcher> {
        let fresh = self.fresh.lock().unwrap_or_else(PoisonError::into_inner);
        // A lexer of its own: answers on several threads wait for no lock of each other.
        Box::new(Place(fresh.deep_clone()))
    }
}

impl journey::Matcher for Place {
    fn take(&mut self, token: u32) -> bool {
        // What is whole takes nothing more, and would call it an error.
        !self.0.is_stopped() && self.0.try_consume_tokens(&[token]).is_ok_and(|taken| taken == 1)
    }

    fn rewind(&mut self, count: usize) {
        if self.0.rollback(count).is_err() {
            // It is in an error state from now on, which `standing` tells.
        }
    }

    fn allow(&mut self, mask: &mut TokenMask) {
        mask.clear();
        if self.0.is_stopped() {
            return;
        }
        if let Ok(allowed) = self.0.compute_mask() {
            mask.set_words(allowed.as_slice());
        }
    }

    fn standing(&mut self) -> Standing {
        if self.0.is_error() {
            return Standing::Failed;
        }
        if self.0.is_stopped() {
            return if self.0.stop_reason().is_ok() { Standing::Complete } else { Standing::Failed };
        }
        match self.0.is_accepting() {
            Ok(true) => Standing::Accepting,
            Ok(false) => Standing::Open,
            Err(_) => Standing::Failed,
        }
    }
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compiled")
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Place")
    }
}
