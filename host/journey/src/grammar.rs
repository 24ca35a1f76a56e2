//! What an answer must look like: a grammar that says which tokens may follow.
//!
//! Only the two traits are here. The grammar's state belongs to the journey, which moves it along with its tokens, so
//! it is of no matter which model draws; how a grammar is compiled is not a journey's business.

use std::fmt;

use crate::adjust::TokenMask;

/// A compiled grammar, shared by all answers that must follow it.
pub trait Grammar: fmt::Debug + Send + Sync {
    /// Its state before the first token of an answer.
    fn begin(&self) -> Box<dyn Matcher>;
}

/// How far one answer has come in its grammar.
pub trait Matcher: fmt::Debug + Send {
    /// Takes the next token; `false`, and nothing has changed, if it cannot follow.
    fn take(&mut self, token: u32) -> bool;

    /// Forgets the last so many tokens that it took.
    fn rewind(&mut self, count: usize);

    /// Says which tokens may follow. Tokens that end an answer are not among them.
    fn allow(&mut self, mask: &mut TokenMask);

    /// Whether the answer may end here, or must.
    fn standing(&mut self) -> Standing;
}

/// Where an answer stands in its grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// More must follow.
    Open,
    /// It may end here.
    Accepting,
    /// It is whole, and nothing can follow.
    Complete,
    /// Going on took more than the grammar's limits allow.
    Failed,
}
