//! What is measured of an answer: name, unit, bounds, and which way is better.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One number per answer. Arms are compared by its mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// 1 for an answer that failed, else 0.
    Errors,
    /// 1 for an answer that went on without its policy, else 0.
    Fallbacks,
    /// What `POST /v1/feedback` said of it, from 0 to 1. Answers without feedback do not count.
    Quality,
    /// Part of its tokens that models other than the entry model made, from 0 to 1.
    Elsewhere,
    /// Seconds to the first token.
    TtftS,
    /// Mean seconds between its tokens.
    GapS,
    /// Tokens a second, from acceptance to the last token.
    TokensPerS,
    /// Price of its tokens over all models, in the currency of the price list.
    Cost,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Errors,
        Self::Fallbacks,
        Self::Quality,
        Self::Elsewhere,
        Self::TtftS,
        Self::GapS,
        Self::TokensPerS,
        Self::Cost,
    ];

    /// Whether every value lies in [0, 1], so that intervals without assumptions exist.
    #[must_use]
    pub fn is_bounded(self) -> bool {
        matches!(self, Self::Errors | Self::Fallbacks | Self::Quality | Self::Elsewhere)
    }

    /// Whether less is better. Fewer tokens from elsewhere counts as better as they are the dear ones.
    #[must_use]
    pub fn less_is_better(self) -> bool {
        !matches!(self, Self::Quality | Self::TokensPerS)
    }

    /// Whether quantiles of it are kept.
    #[must_use]
    pub fn has_quantiles(self) -> bool {
        matches!(self, Self::TtftS | Self::GapS)
    }

    /// Its name in configuration, metrics and readouts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Errors => "errors",
            Self::Fallbacks => "fallbacks",
            Self::Quality => "quality",
            Self::Elsewhere => "elsewhere",
            Self::TtftS => "ttft_s",
            Self::GapS => "gap_s",
            Self::TokensPerS => "tokens_per_s",
            Self::Cost => "cost",
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_configuration() {
        for metric in Metric::ALL {
            assert_eq!(serde_json::to_string(&metric).unwrap(), format!("\"{metric}\""));
        }
    }
}
