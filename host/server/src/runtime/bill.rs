//! What a request used, told once, when it is over.
//!
//! A bill travels with its request from the moment it is submitted: whoever lets go of the request, for whatever reason,
//! drops the bill, and that tells it. So no way out can be forgotten, and what is told is what was made, not what the client
//! has read.

use std::fmt;

/// Tokens of one request. Whoever pays is told when it is settled, or dropped.
#[derive(Default)]
pub struct Bill {
    tokens: u64,
    payer: Option<Box<dyn FnOnce(u64) + Send>>,
}

impl Bill {
    /// A bill of which this is told how many tokens were used: those of the prompt, once there is a journey, and those of the
    /// answer.
    #[must_use]
    pub fn to(payer: impl FnOnce(u64) + Send + 'static) -> Self {
        Self { tokens: 0, payer: Some(Box::new(payer)) }
    }

    /// So many tokens more.
    pub(super) fn add(&mut self, tokens: usize) {
        self.tokens = self.tokens.saturating_add(tokens as u64);
    }

    /// The request is over.
    pub(super) fn settle(&mut self) {
        if let Some(payer) = self.payer.take() {
            payer(self.tokens);
        }
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        self.settle();
    }
}

impl fmt::Debug for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bill({} tokens)", self.tokens)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_bill_is_told_once_however_its_request_ends() {
        let (told, tells) = mpsc::channel();
        let bill = || {
            let told = told.clone();
            let mut bill = Bill::to(move |tokens| told.send(tokens).unwrap());
            bill.add(5);
            bill
        };
        drop(bill());
        let mut settled = bill();
        settled.add(2);
        settled.settle();
        drop(settled);
        drop(Bill::default());
        assert_eq!(tells.try_iter().collect::<Vec<_>>(), [5, 7]);
    }
}
