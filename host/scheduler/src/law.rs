//! How long a step of a model takes, as a law that is linear in what the step carries.
//!
//! ```text
//! T = fixed + row * rows + token * new tokens + context * tokens of context        (seconds)
//! ```
//!
//! Everything that is planned here rests on the difference between the first term and the others: what is paid once a
//! step is worth sharing, what is paid per row is not. [`Fit`] learns the law from steps that were measured.

mod fit;
mod solve;

pub use fit::{Fit, FitError};

/// What a step carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Journeys in the step.
    pub rows: usize,
    /// Tokens fed over all rows; a plain decoding step feeds one a row.
    pub tokens: usize,
    /// Tokens of context that the rows attend to, over all rows.
    pub context: usize,
}

impl Load {
    /// A step in which every row decodes one token and the context does not count.
    #[must_use]
    pub fn decoding(rows: usize) -> Self {
        Self { rows, tokens: rows, context: 0 }
    }

    /// The regressors of the law, in the order of its coefficients.
    fn regressors(self) -> [f64; 4] {
        [1.0, self.rows as f64, self.tokens as f64, self.context as f64]
    }
}

/// Step time of one model. All coefficients are seconds and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepLaw {
    /// Paid once a step, whoever takes part: weights are read once for all rows.
    pub fixed_s: f64,
    /// Per journey in the step.
    pub row_s: f64,
    /// Per token fed, so that a handed-over suffix costs more than one token.
    pub token_s: f64,
    /// Per token of context attended to.
    pub context_s: f64,
}

impl StepLaw {
    /// A law without terms for tokens and context.
    #[must_use]
    pub const fn affine(fixed_s: f64, row_s: f64) -> Self {
        Self { fixed_s, row_s, token_s: 0.0, context_s: 0.0 }
    }

    /// Seconds that a step with this load takes.
    ///
    /// ```
    /// use scheduler::law::{Load, StepLaw};
    /// let law = StepLaw { fixed_s: 0.01, row_s: 0.001, token_s: 0.0002, context_s: 1e-6 };
    /// // 10 ms + 4 * 1 ms + 9 * 0.2 ms + 2000 * 1 us = 17.8 ms
    /// let seconds = law.step_s(Load { rows: 4, tokens: 9, context: 2000 });
    /// assert!((seconds - 0.0178).abs() < 1e-12);
    /// ```
    #[must_use]
    pub fn step_s(&self, load: Load) -> f64 {
        dot(&self.coefficients(), &load.regressors())
    }

    /// The law over rows alone, where a row brings this many new tokens and this much context on average.
    ///
    /// Tokens that a row missed while it was away are linear in the number of visits, so they become part of the cost of
    /// a row (`c + d * tokens + e * context`).
    #[must_use]
    pub fn per_row(&self, mix: RowMix) -> Affine {
        let row_s = self.row_s + self.token_s * mix.tokens + self.context_s * mix.context;
        Affine { fixed_s: self.fixed_s, row_s }
    }

    fn coefficients(&self) -> [f64; 4] {
        [self.fixed_s, self.row_s, self.token_s, self.context_s]
    }

    fn of(coefficients: [f64; 4]) -> Self {
        let [fixed_s, row_s, token_s, context_s] = coefficients;
        Self { fixed_s, row_s, token_s, context_s }
    }
}

/// What an average row of a step brings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowMix {
    /// New tokens.
    pub tokens: f64,
    /// Tokens of context.
    pub context: f64,
}

impl Default for RowMix {
    fn default() -> Self {
        Self { tokens: 1.0, context: 0.0 }
    }
}

/// Step time over the number of rows alone: `T(b) = a + c b`, the form that the plans use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Affine {
    /// Paid once a step, seconds (`a`).
    pub fixed_s: f64,
    /// Per row, seconds (`c`).
    pub row_s: f64,
}

impl Affine {
    /// Seconds that a step with this many rows takes; the number may be an average.
    #[must_use]
    pub fn step_s(&self, rows: f64) -> f64 {
        self.fixed_s + self.row_s * rows
    }

    /// This law where it says that a step takes time at all, and else the least that one can take: what is predicted by it is
    /// finite.
    #[must_use]
    pub(crate) fn possible(self) -> Self {
        if self.step_s(1.0) >= STEP_MIN_S { self } else { Self { fixed_s: STEP_MIN_S, ..self } }
    }

    /// The same law on a machine that is `factor` times slower.
    #[must_use]
    pub(crate) fn slowed(&self, factor: f64) -> Self {
        Self { fixed_s: self.fixed_s * factor, row_s: self.row_s * factor }
    }
}

/// A nanosecond: a few instructions, and far below any step that a clock can tell.
const STEP_MIN_S: f64 = 1e-9;

fn dot(a: &[f64; 4], b: &[f64; 4]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
