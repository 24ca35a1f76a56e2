//! How experiments begin, change and end.
//!
//! Each of these is called by whoever holds the control's lock (see [`Control::alone`](crate::control::Control::alone)), so
//! what is read here is still so when it is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use experiment::definition::Arm;
use experiment::lifecycle::Described;
use experiment::{Action, Definition, Experiment, guardrail};
use policy::Revision;
use store::{Area, Kind, Store, StoreError, Why};

use super::book::{Book, Saved};
use super::kept::{Wanted, wanted};
use super::{Entry, ExperimentError, Experiments, Kept, Source};
use crate::config::{Config, pinned_arms};
use crate::control::Control;
use crate::runtime::{Draft, SplitError, StartError};
use crate::unix;

impl Experiments {
    /// Brings back what is kept, then follows the configuration. What is kept and does not fit any more stays, and says why.
    ///
    /// # Errors
    /// [`ExperimentError`], if the store cannot be read, or a table asks for what cannot be had.
    pub(crate) fn begin(&self, control: &Control, config: &Config) -> Result<(), ExperimentError> {
        self.set_prices(config);
        if let Ok(store) = control.store() {
            let kept = store.list::<Kept>(Kind::Experiment)?;
            for record in kept.into_values() {
                self.restore(store, record.value);
            }
        }
        self.follow(control, config)
    }

    /// Makes what is there what the tables of a configuration say; see [`super::kept`].
    ///
    /// # Errors
    /// [`ExperimentError::Table`] before anything was changed; else what a single change says.
    pub(crate) fn follow(&self, control: &Control, config: &Config) -> Result<(), ExperimentError> {
        let all = self.all.load_full();
        let steps = self.steps(config)?;
        for (name, entry) in &*all {
            if matches!(entry.kept.source, Source::Config { table: Some(_) })
                && !config.experiments.contains_key(name)
            {
                self.take_out(control, entry)?;
            }
        }
        for (table, step) in steps {
            self.take_in(control, table, step).map_err(|error| in_table(&table.name, error))?;
        }
        self.set_prices(config);
        self.put_in_force();
        Ok(())
    }

    /// The experiments that following a configuration would begin.
    ///
    /// # Errors
    /// [`ExperimentError::Table`], for a table that asks for what cannot be had.
    pub(crate) fn foresee(&self, config: &Config) -> Result<Vec<Experiment>, ExperimentError> {
        let begins = self.steps(config)?.into_iter().filter(|(_, step)| *step == Wanted::Begin);
        begins.map(|(table, _)| Ok(Experiment::create(table.clone())?.0)).collect()
    }

    /// What each table asks for.
    fn steps<'a>(&self, config: &'a Config) -> Result<Vec<(&'a Definition, Wanted)>, ExperimentError> {
        let all = self.all.load();
        let step = |(name, table): (&'a String, &'a Definition)| {
            let step = wanted(table, all.get(name).map(|entry| &entry.kept));
            let step = step.map_err(|problem| ExperimentError::Table { name: name.clone(), problem })?;
            Ok((table, step))
        };
        config.experiments.iter().map(step).collect()
    }

    /// Begins an experiment by the API. One that is there in the same words stays; one that has ended makes room. Returns
    /// whether it is new.
    ///
    /// # Errors
    /// [`ExperimentError`].
    pub(crate) fn create(
        &self,
        control: &Control,
        definition: Definition,
        who: &str,
    ) -> Result<bool, ExperimentError> {
        control.store()?;
        if let Some(there) = self.all.load().get(&definition.name) {
            let Kept { source, experiment, .. } = &there.kept;
            if matches!(source, Source::Config { table: Some(_) }) {
                return Err(ExperimentError::OfFile(definition.name));
            }
            if !there.kept.has_ended() {
                let same = experiment.definition == definition;
                return if same { Ok(false) } else { Err(ExperimentError::Taken(definition.name)) };
            }
        }
        self.start(control, definition, Source::Api, who)?;
        Ok(true)
    }

    /// Does something to an experiment.
    ///
    /// # Errors
    /// [`ExperimentError`].
    pub(crate) fn act(
        &self,
        control: &Control,
        name: &str,
        (action, who): (&Action, &str),
    ) -> Result<(), ExperimentError> {
        let there = self.entry(name)?;
        let (experiment, described) = there.kept.experiment.apply(action)?;
        let kept = Kept { experiment, ..there.kept.clone() };
        self.commit(control, kept, (&described, who))
    }

    /// Forgets an experiment that has ended; its route serves everybody again.
    ///
    /// # Errors
    /// [`ExperimentError`].
    pub(crate) fn delete(&self, control: &Control, name: &str, who: &str) -> Result<(), ExperimentError> {
        let there = self.entry(name)?;
        if matches!(there.kept.source, Source::Config { table: Some(_) }) {
            return Err(ExperimentError::OfFile(name.to_owned()));
        }
        if !there.kept.has_ended() {
            return Err(ExperimentError::Running(name.to_owned()));
        }
        let detail = format!("was {}", there.kept.experiment.state.name());
        self.runtime.change(|draft| {
            draft.clear_split(&there.kept.experiment, there.kept.begun_unix_ms);
            if let Ok(store) = control.store() {
                let why = Why { action: "delete", detail: &detail };
                store.change(who, unix::now_ms(), |change| change.remove(Kind::Experiment, name, why))?;
            }
            self.replace(name, None);
            Ok(())
        })
    }

    /// Rolls an experiment back if one of its guardrails is crossed now.
    ///
    /// # Errors
    /// [`ExperimentError`]; it is then as it was.
    pub(super) fn guard(&self, control: &Control, name: &str) -> Result<(), ExperimentError> {
        let there = self.entry(name)?;
        let Some(crossed) = guardrail::check(&there.kept.experiment, &there.book.tallies()) else {
            return Ok(());
        };
        self.act(control, name, (&crossed.action(), "guardrail"))?;
        tracing::warn!(experiment = name, arm = crossed.arm, "rolled back by a guardrail");
        Ok(())
    }

    fn take_in(&self, control: &Control, table: &Definition, step: Wanted) -> Result<(), ExperimentError> {
        let source = || Source::Config { table: Some(Box::new(table.clone())) };
        match step {
            Wanted::Nothing => Ok(()),
            Wanted::Begin => self.start(control, table.clone(), source(), BY_FILE),
            Wanted::Weights(action) => {
                let there = self.entry(&table.name)?;
                let (experiment, described) = there.kept.experiment.apply(&action)?;
                let kept = Kept { experiment, source: source(), ..there.kept.clone() };
                self.commit(control, kept, (&described, BY_FILE))
            }
            Wanted::Remember => {
                let kept = Kept { source: source(), ..self.entry(&table.name)?.kept.clone() };
                let detail = "the file says the weights in force".to_owned();
                self.commit(control, kept, (&Described { action: "set_weights", detail }, BY_FILE))
            }
        }
    }

    /// The table of an experiment is gone: it ends.
    fn take_out(&self, control: &Control, entry: &Entry) -> Result<(), ExperimentError> {
        let reason = "its table was taken out of the configuration file".to_owned();
        let back = Action::RollBack { reason: reason.clone() };
        let source = Source::Config { table: None };
        let (experiment, described) = entry.kept.experiment.apply(&back).unwrap_or_else(|_| {
            // It has been rolled back already.
            (entry.kept.experiment.clone(), Described { action: "roll_back", detail: reason })
        });
        self.commit(control, Kept { experiment, source, ..entry.kept.clone() }, (&described, BY_FILE))
    }

    fn start(
        &self,
        control: &Control,
        definition: Definition,
        source: Source,
        who: &str,
    ) -> Result<(), ExperimentError> {
        let (experiment, described) = Experiment::create(definition)?;
        let earlier = self.all.load().get(&experiment.definition.name).map(|entry| entry.kept.begun_unix_ms);
        // Different from that of an earlier one of the name, whatever the clock says.
        let begun_unix_ms = unix::now_ms().max(earlier.map_or(0, |earlier| earlier + 1));
        self.commit(control, Kept { experiment, source, begun_unix_ms }, (&described, who))
    }

    /// Tries a change, makes it durable, and puts it in force.
    fn commit(
        &self,
        control: &Control,
        kept: Kept,
        (described, who): (&Described, &str),
    ) -> Result<(), ExperimentError> {
        let definition = &kept.experiment.definition;
        let name = definition.name.clone();
        let all = self.all.load_full();
        let there = all.get(&name);
        if kept.is_in_force() {
            let busy = |(other, entry): &(&String, &Arc<Entry>)| {
                **other != name
                    && entry.kept.is_in_force()
                    && entry.kept.experiment.definition.route == definition.route
            };
            if let Some((other, _)) = all.iter().find(busy) {
                return Err(ExperimentError::Busy { route: definition.route.clone(), other: other.clone() });
            }
        }
        // Compiled before the change, which others would wait for.
        let _held = revisions(control, definition)?;
        self.runtime.change(|draft| {
            let stays = kept.is_in_force().then_some(kept.experiment.definition.route.as_str());
            // Where it stays on its route, arms that are written as they were stay what they are.
            if let Some(there) = there.filter(|there| Some(there.route()) != stays) {
                draft.clear_split(&there.kept.experiment, there.kept.begun_unix_ms);
            }
            if kept.is_in_force() {
                draft.set_split(&kept.experiment, kept.begun_unix_ms)?;
            }
            if let Ok(store) = control.store() {
                let why = Why { action: described.action, detail: &described.detail };
                store
                    .change(who, unix::now_ms(), |change| change.put(Kind::Experiment, &name, &kept, why))?;
            }
            let book = book(there, &kept);
            self.replace(&name, Some(Entry { kept, book, problem: None }));
            Ok(())
        })
    }

    /// Puts an experiment in force that was kept; one that does not fit any more only says why.
    fn restore(&self, store: &Store, kept: Kept) {
        let name = kept.experiment.definition.name.clone();
        let problem = if kept.is_in_force() {
            let set = |draft: &mut Draft<'_>| draft.set_split(&kept.experiment, kept.begun_unix_ms);
            self.runtime.change(set).err().map(|error: SplitError| error.to_string())
        } else {
            None
        };
        if let Some(problem) = &problem {
            tracing::error!(experiment = name, problem, "the experiment is not in force");
        }
        let saved = saved(store, &name).unwrap_or_else(|error| {
            tracing::error!(experiment = name, %error, "what its arms did cannot be read; counting begins anew");
            None
        });
        let book = Arc::new(Book::new(&kept.experiment, kept.begun_unix_ms, saved));
        self.replace(&name, Some(Entry { kept, book, problem }));
    }

    /// What was out of force because its route was gone is in force again once that is back.
    fn put_in_force(&self) {
        for (name, entry) in &*self.all.load_full() {
            let Kept { experiment, begun_unix_ms, .. } = &entry.kept;
            if !entry.kept.is_in_force() {
                continue;
            }
            let set = |draft: &mut Draft<'_>| draft.set_split(experiment, *begun_unix_ms);
            if let Err(error) = self.runtime.change(set) {
                tracing::warn!(experiment = name, %error, "the experiment is not in force");
            }
        }
    }

    fn replace(&self, name: &str, entry: Option<Entry>) {
        let mut all = BTreeMap::clone(&self.all.load());
        match entry {
            Some(entry) => all.insert(name.to_owned(), Arc::new(entry)),
            None => all.remove(name),
        };
        self.all.store(Arc::new(all));
    }

    fn entry(&self, name: &str) -> Result<Arc<Entry>, ExperimentError> {
        let all = self.all.load();
        all.get(name).cloned().ok_or_else(|| ExperimentError::Unknown(name.to_owned()))
    }
}

impl Control {
    /// What the arms of an experiment have from registries, to be held until it is in force: to be called before the change, as
    /// [`Control::pull`]. Not for async threads.
    ///
    /// # Errors
    /// [`SplitError`], naming the arm.
    pub(crate) fn pull_arms(&self, definition: &Definition) -> Result<Vec<Arc<Revision>>, ExperimentError> {
        let config = self.config();
        let pull = |(key, pinned)| {
            self.runtime().pull(&(key, pinned), &config).map_err(|error| match error {
                StartError::Pulled { key, policy, source } => {
                    SplitError { key, problem: format!("{policy}: {source}") }
                }
                other => SplitError { key: "arms".to_owned(), problem: other.to_string() },
            })
        };
        let pulled: Result<_, SplitError> = pinned_arms(definition).map(pull).collect();
        Ok(pulled?)
    }
}

impl Entry {
    fn route(&self) -> &str {
        &self.kept.experiment.definition.route
    }
}

/// The uploaded revisions that arms name.
fn revisions(control: &Control, definition: &Definition) -> Result<Vec<Arc<Revision>>, SplitError> {
    let arms = definition.arms.iter().chain(&definition.shadows);
    let named = arms.filter_map(|arm| Some((arm, arm.revision.as_ref()?)));
    let revision = |(arm, revision): (&Arm, &String)| {
        let refused = |problem| SplitError { key: format!("arms.{}.revision", arm.name), problem };
        let digest = revision
            .to_ascii_lowercase()
            .parse()
            .map_err(|_| refused(format!("{revision:?} is no digest")))?;
        control.revision(digest).map_err(|error| refused(error.to_string()))
    };
    named.map(revision).collect()
}

/// The book goes on while the experiment is the same.
fn book(there: Option<&Arc<Entry>>, kept: &Kept) -> Arc<Book> {
    match there {
        Some(there) if there.kept.begun_unix_ms == kept.begun_unix_ms => {
            there.book.follow(&kept.experiment);
            Arc::clone(&there.book)
        }
        _ => Arc::new(Book::new(&kept.experiment, kept.begun_unix_ms, None)),
    }
}

fn saved(store: &Store, name: &str) -> Result<Option<Saved>, StoreError> {
    store.observed(Area::Tallies, name)
}

/// An error of a table, under its name.
fn in_table(name: &str, error: ExperimentError) -> ExperimentError {
    match error {
        error @ (ExperimentError::Store(_) | ExperimentError::Control(_)) => error,
        other => ExperimentError::Table { name: name.to_owned(), problem: other.to_string() },
    }
}

/// Who the audit log says it was.
const BY_FILE: &str = "configuration";
