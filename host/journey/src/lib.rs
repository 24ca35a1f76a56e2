//! One request's life across models, as pure rules.
//!
//! A [`Journey`] is told what happened (tokens were fed, a token was sampled, the policy decided) and answers what
//! must happen next ([`Effect`]). It performs nothing: no clock, no randomness of its own, no I/O. The loops of the
//! server perform effects; the engine and the policy host speak the vocabulary of [`step`] and [`decision`].
//!
//! Reading order follows a request: [`request`], [`adjust`], [`grammar`] → [`step`], [`distribution`] → [`watch`],
//! [`decision`], [`question`] → [`journey`], [`history`] → [`outcome`], [`text`].

pub mod adjust;
pub mod decision;
pub mod distribution;
pub mod grammar;
pub mod history;
pub mod ids;
pub mod journey;
pub mod outcome;
pub mod question;
pub mod random;
pub mod request;
pub mod step;
pub mod text;
pub mod watch;

pub use adjust::{Adjust, Adjustments, TokenMask};
pub use decision::{Accept, Adoption, Check, Decision, Handoff, Mixture, Next, Offer, Parcel, Rewrite, Rule};
pub use distribution::{Distribution, Space};
pub use grammar::{Grammar, Matcher, Standing};
pub use history::{Seen, Tally};
pub use ids::{JourneyId, Role};
pub use journey::Journey;
pub use outcome::{Considered, Consult, Effect, FinishReason, Fired, Made, Proposal, Refused};
pub use question::{Answer, Ask, Draft, DraftRequest, Ended, Found, Judgement, Question};
pub use request::{Ends, Request, Routing, Rules, Sampling};
pub use step::{Candidate, Draw, Sampled, Signals, Step};
pub use text::{Encode, Vocabulary};
pub use watch::{Condition, Guard, Signal, Trigger, Watch};
