//! Bars for work that takes a while. They are drawn on standard error and only if a person looks at it.

use std::collections::BTreeMap;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::models::PullProgress;
use crate::runtime::LoadProgress;

/// A bar over `length` units. Hidden when standard error is no terminal.
#[must_use]
pub fn bar(length: u64, template: &str) -> ProgressBar {
    // `stderr` hides the bar by itself when the stream is no terminal.
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.progress_chars("━╸─"));
    bar
}

/// How far the models and routes of a configuration have come.
pub struct LoadBar {
    bar: ProgressBar,
    /// Read and total bytes by model.
    models: BTreeMap<String, (u64, u64)>,
}

impl Default for LoadBar {
    fn default() -> Self {
        Self { bar: bar(0, LOADING), models: BTreeMap::new() }
    }
}

impl LoadProgress for LoadBar {
    fn model(&mut self, name: &str, done_bytes: u64, total_bytes: u64) {
        self.models.insert(name.to_owned(), (done_bytes, total_bytes));
        self.bar.set_length(self.models.values().map(|(_, total)| total).sum());
        self.bar.set_position(self.models.values().map(|(done, _)| done).sum());
        self.bar.set_message(format!("model {name}"));
    }

    fn route(&mut self, name: &str) {
        self.bar.set_message(format!("route {name}"));
    }
}

impl LoadBar {
    /// A bar for what is downloaded.
    #[must_use]
    pub fn downloading() -> Self {
        Self { bar: bar(0, DOWNLOADING), models: BTreeMap::new() }
    }
}

impl PullProgress for LoadBar {
    fn at(&mut self, file: &str, done_bytes: u64, total_bytes: u64) {
        self.bar.set_length(total_bytes);
        self.bar.set_position(done_bytes);
        self.bar.set_message(file.to_owned());
    }
}

impl Drop for LoadBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

const LOADING: &str = "loading  {bar:32} {bytes}/{total_bytes}  {msg}";
const DOWNLOADING: &str = "downloading  {bar:32} {bytes}/{total_bytes}  {bytes_per_sec}  {eta}  {msg}";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench;

    #[test]
    fn bytes_add_up_over_models() {
        let mut loading = LoadBar::default();
        loading.model("small", 10, 10);
        loading.model("large", 5, 90);
        assert_eq!((loading.bar.position(), loading.bar.length()), (15, Some(100)));
    }

    #[test]
    fn the_templates_are_valid() {
        for template in
            [LOADING, DOWNLOADING, bench::quality::PROGRESS, bench::decode::PROGRESS, bench::policy::PROGRESS]
        {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
