//! What happens every second, away from answers: guardrails are looked at, and what was observed is saved.

use std::sync::Arc;
use std::time::Duration;

use experiment::{State, guardrail};
use store::{Area, Store, StoreError};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::Experiments;
use super::feedback::key;
use crate::control::Control;
use crate::unix;

/// Looks after the experiments of a server until `stop` is cancelled, and saves what was observed before it returns.
pub(crate) async fn keep(control: Arc<Control>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut tick: u64 = 0;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = ticks.tick() => {}
        }
        tick += 1;
        look(&control).await;
        if tick.is_multiple_of(SAVE_TICKS) {
            save(&control, tick.is_multiple_of(FORGET_TICKS)).await;
        }
    }
    save(&control, false).await;
}

/// Rolls back what has crossed a guardrail.
async fn look(control: &Arc<Control>) {
    let of = Arc::clone(control);
    let crossed = tokio::task::spawn_blocking(move || of.experiments().crossed()).await;
    for name in crossed.unwrap_or_else(|error| {
        tracing::error!(%error, "looking at guardrails panicked; please report this");
        Vec::new()
    }) {
        let of = name.clone();
        if let Err(error) = control.alone(move |control| control.experiments().guard(control, &of)).await {
            tracing::error!(experiment = name, %error, "a guardrail is crossed, and the experiment cannot be rolled back");
            control.experiments().look_again(&name);
        }
    }
}

async fn save(control: &Arc<Control>, forget: bool) {
    let control = Arc::clone(control);
    let saved = tokio::task::spawn_blocking(move || {
        let Ok(store) = control.store() else { return Ok(()) };
        control.experiments().save(store)?;
        if forget { control.experiments().forget(store) } else { Ok(()) }
    });
    match saved.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::error!(%error, "observations cannot be saved; it is tried again"),
        Err(error) => tracing::error!(%error, "saving observations panicked; please report this"),
    }
}

impl Experiments {
    /// Names of running experiments of which something new crosses a guardrail.
    fn crossed(&self) -> Vec<String> {
        let all = self.all.load();
        let running = all.iter().filter(|(_, entry)| {
            let experiment = &entry.kept.experiment;
            experiment.state == State::Running && !experiment.definition.guardrails.is_empty()
        });
        let crossed = running.filter(|(_, entry)| {
            let unchecked = entry.book.unchecked();
            unchecked.is_some_and(|tallies| guardrail::check(&entry.kept.experiment, &tallies).is_some())
        });
        crossed.map(|(name, _)| name.clone()).collect()
    }

    fn look_again(&self, name: &str) {
        if let Some(entry) = self.all.load().get(name) {
            entry.book.look_again();
        }
    }

    /// Saves what is new. Answers go first: if the server stops in between, a score is lost and not counted twice.
    fn save(&self, store: &Store) -> Result<(), StoreError> {
        let now = unix::now_ms();
        let answers: Vec<_> = self.answers.unsaved().into_iter().map(|(id, of)| (id, key(id), of)).collect();
        if !answers.is_empty() {
            let items = answers.iter().map(|(_, key, of)| (key.as_str(), of));
            if let Err(error) = store.observe(Area::Feedback, now, items) {
                self.answers.not_saved(answers.iter().map(|(id, ..)| *id));
                return Err(error);
            }
        }
        for (name, entry) in &*self.all.load_full() {
            let Some(saved) = entry.book.unsaved() else { continue };
            if let Err(error) = store.observe(Area::Tallies, now, [(name.as_str(), &saved)]) {
                entry.book.not_saved();
                return Err(error);
            }
        }
        Ok(())
    }

    fn forget(&self, store: &Store) -> Result<(), StoreError> {
        let forgotten = store.forget_before(Area::Feedback, self.answers.oldest_unix_ms(unix::now_ms()))?;
        tracing::debug!(forgotten, "answers that cannot be scored any more");
        Ok(())
    }
}

const TICK: Duration = Duration::from_secs(1);
/// What is lost when the machine stops: 5 seconds of observations.
const SAVE_TICKS: u64 = 5;
/// Going through all answers in the store takes a while: every 10 minutes.
const FORGET_TICKS: u64 = 600;
