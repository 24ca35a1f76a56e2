//! An answer as it is spoken: each piece of text in the colour of the model that made it.

use std::io;
use std::time::{Duration, Instant};

use journey::Made;

use super::{Terminal, palette};

/// Shows tokens as they come and counts who made them.
pub struct Speakers<'a> {
    terminal: &'a Terminal,
    models: &'a [String],
    asked: Instant,
    first: Option<Duration>,
    /// Tokens by role.
    tokens: Vec<usize>,
    /// Whether the text so far ends a line.
    at_line_start: bool,
}

impl<'a> Speakers<'a> {
    /// Begins the answer of a request made now to these models, which are named by role.
    #[must_use]
    pub fn new(terminal: &'a Terminal, models: &'a [String]) -> Self {
        let tokens = vec![0; models.len()];
        Self { terminal, models, asked: Instant::now(), first: None, tokens, at_line_start: true }
    }

    /// Says which colour is whose, where there are colours.
    ///
    /// # Errors
    /// The terminal's.
    pub fn legend(&self) -> io::Result<()> {
        if !(self.terminal.interactive() && self.terminal.coloured()) {
            return Ok(());
        }
        let names: Vec<String> = (0..self.models.len()).map(|role| self.painted(role, "● ")).collect();
        self.terminal.line(format_args!("{}\n", names.join("   ")))
    }

    /// Shows a token.
    ///
    /// # Errors
    /// The terminal's.
    pub fn token(&mut self, made: &Made) -> io::Result<()> {
        self.first.get_or_insert_with(|| self.asked.elapsed());
        let role = made.by.index();
        if let Some(count) = self.tokens.get_mut(role) {
            *count += 1;
        }
        // The text holds whole characters only: one that is spread over tokens comes with its last.
        if made.text.is_empty() {
            return Ok(());
        }
        self.at_line_start = made.text.ends_with('\n');
        let style = palette::role(role).style();
        self.terminal.write(format_args!("{style}{}{style:#}", made.text))
    }

    /// Ends the text's last line.
    ///
    /// # Errors
    /// The terminal's.
    pub fn end_line(&mut self) -> io::Result<()> {
        if self.at_line_start {
            return Ok(());
        }
        self.at_line_start = true;
        self.terminal.line(format_args!(""))
    }

    /// Who made how much, and how fast it was, on one line.
    ///
    /// # Errors
    /// The terminal's.
    pub fn summary(&self) -> io::Result<()> {
        let seconds = self.asked.elapsed().as_secs_f64();
        let total: usize = self.tokens.iter().sum();
        let share = |role: usize| 100.0 * self.tokens[role] as f64 / total.max(1) as f64;
        let model = |role: usize| {
            let count = self.tokens[role];
            format!("{} {count} ({:.1} %)", self.painted(role, ""), share(role))
        };
        let models: Vec<String> = (0..self.tokens.len()).map(model).collect();
        let first = self.first.map_or_else(String::new, |first| {
            format!(" · first token after {:.1} ms", first.as_secs_f64() * 1e3)
        });
        let speed = total as f64 / seconds.max(f64::EPSILON);
        let models = models.join(" · ");
        self.terminal.aside(format_args!("{models} · {total} tokens, {speed:.0} tokens/s{first}"))
    }

    fn painted(&self, role: usize, mark: &str) -> String {
        let style = palette::role(role).style();
        format!("{style}{mark}{}{style:#}", self.models[role])
    }
}
