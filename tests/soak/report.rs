//! What clients saw.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Counts of what was asked and answered.
#[derive(Debug, Default)]
pub(crate) struct Report(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// By what was asked, and status.
    answers: BTreeMap<(&'static str, u16), u64>,
    tokens: u64,
    /// What must not be; the first few.
    wrong: Vec<String>,
    wrongs: u64,
}

impl Report {
    /// An answer, which must have one of these statuses. A line that is full is told so, and asked for.
    pub(crate) fn answered(&self, what: &'static str, (status, text): (u16, &str), right: &[u16]) {
        *self.seen().answers.entry((what, status)).or_default() += 1;
        if !right.contains(&status) && status != 429 {
            self.wrong(format!("{what}: {status} {}", text.chars().take(300).collect::<String>()));
        }
    }

    pub(crate) fn made(&self, tokens: usize) {
        self.seen().tokens += tokens as u64;
    }

    pub(crate) fn wrong(&self, what: String) {
        let mut seen = self.seen();
        seen.wrongs += 1;
        if seen.wrong.len() < WRONGS_KEPT {
            seen.wrong.push(what);
        }
    }

    pub(crate) fn told(&self, time: Duration) -> String {
        let seen = self.seen();
        let mut text = String::new();
        for ((what, status), count) in &seen.answers {
            writeln!(text, "{what:<16} {status} {count:>9}").expect("a String takes any text");
        }
        let per_s = seen.tokens as f64 / time.as_secs_f64();
        write!(text, "tokens read to the end: {} ({per_s:.0} per second)", seen.tokens)
            .expect("a String takes any text");
        text
    }

    pub(crate) fn check(&self) {
        let seen = self.seen();
        assert!(seen.wrongs == 0, "{} times something was wrong: {:#?}", seen.wrongs, seen.wrong);
        for what in ["stream", "whole", "left", "unread", "bad", "upload", "experiment", "reload", "scrape"] {
            assert!(seen.answers.keys().any(|(seen, _)| *seen == what), "nobody did {what}");
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const WRONGS_KEPT: usize = 20;
