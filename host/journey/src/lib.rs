//! One request's life across models, as pure rules.
//!
//! A [`Journey`] is told what happened (tokens were fed, a token was sampled, the policy decided) and answers what
//! must happen next ([`Effect`]). It performs nothing: no clock, no randomness of its own, no I/O. The loops of the
//! server perform effects; the engine and the policy host speak the vocabulary of [`step`] and [`decision`].
//!
//! Reading order follows a request: [`request`], [`adjust`] → [`step`], [`distribution`] → [`decision`] → [`journey`],
//! [`history`] → [`outcome`], [`text`].

pub mod adjust;
pub mod decision;
pub mod distribution;
pub mod history;
pub mod ids;
pub mod journey;
pub mod outcome;
pub mod random;
pub mod request;
pub mod step;
pub mod text;

pub use adjust::{Adjust, Adjustments, TokenMask};
pub use decision::{Accept, Decision, Handoff, Offer, Parcel};
pub use distribution::Distribution;
pub use history::{Seen, Tally};
pub use ids::{JourneyId, Role};
pub use journey::Journey;
pub use outcome::{Consult, Effect, FinishReason, Made, Proposal, Refused};
pub use request::{Ends, Request, Routing, Sampling};
pub use step::{Candidate, Draw, Sampled, Signals, Step};
pub use text::Vocabulary;
