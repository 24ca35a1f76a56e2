//! Shows how far training is and stops it when the budget is used up.
//!
//! The only place that looks at the clock.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::trainer::Budget;

/// The bar of one training run.
pub(crate) struct Progress {
    budget: Budget,
    start: Instant,
    tokens: u64,
    steps: u64,
    /// Running mean of the loss, in nats per token.
    loss: f64,
    /// Tokens at which a line was last printed for logs without a terminal.
    logged: Duration,
    bar: ProgressBar,
}

impl Progress {
    /// A bar for a model of `parameters` numbers.
    pub(crate) fn new(budget: Budget, parameters: usize) -> Self {
        let bar = ProgressBar::new(1000);
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(format!("{parameters} parameters"));
        Self {
            budget,
            start: Instant::now(),
            tokens: 0,
            steps: 0,
            loss: f64::NAN,
            logged: Duration::ZERO,
            bar,
        }
    }

    /// Counts one update.
    pub(crate) fn advance(&mut self, tokens: u64, loss: f64) {
        self.tokens += tokens;
        self.steps += 1;
        self.loss = if self.loss.is_nan() { loss } else { 0.95 * self.loss + 0.05 * loss };
        self.bar.set_position((self.fraction() * 1000.0) as u64);
        self.bar.set_message(self.message());
        if self.bar.is_hidden() && self.start.elapsed() > self.logged + LOG_EVERY {
            self.logged = self.start.elapsed();
            self.log();
        }
    }

    /// Leaves the last figures on the screen.
    pub(crate) fn finish(&self) {
        self.bar.finish_with_message(self.message());
        if self.bar.is_hidden() {
            self.log();
        }
    }

    /// How much of the budget is used, from 0 to 1 and a little over.
    pub(crate) fn fraction(&self) -> f64 {
        match self.budget {
            Budget::Tokens(all) => self.tokens as f64 / all as f64,
            Budget::Minutes(all) => self.start.elapsed().as_secs_f64() / 60.0 / all,
        }
    }

    fn message(&self) -> String {
        let rate = self.tokens as f64 / self.start.elapsed().as_secs_f64();
        let millions = self.tokens as f64 / 1e6;
        format!("loss {:.4}  {millions:.2} M tokens  {rate:.0} tokens/s  step {}", self.loss, self.steps)
    }

    #[expect(clippy::print_stderr, reason = "the log of a program run without a terminal")]
    fn log(&self) {
        eprintln!("{:>3.0} %  {}  {:.0?}", self.fraction() * 100.0, self.message(), self.start.elapsed());
    }
}

const LOG_EVERY: Duration = Duration::from_secs(20);
