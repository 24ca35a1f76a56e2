//! Names of things that cross the walls between crates.

use std::fmt;

/// One journey, unique within a running server. The engine keys its KV by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JourneyId(pub u64);

impl fmt::Display for JourneyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "journey-{}", self.0)
    }
}

/// A model's place in a route: its index in the route's `models` list. Role 0 is the entry model.
///
/// A role is not a model: `small` may be role 0 of one route and role 1 of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Role(pub u16);

impl Role {
    /// The role in which every journey begins.
    pub const ENTRY: Self = Self(0);

    /// The role as an index into per-role arrays.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "role {}", self.0)
    }
}
