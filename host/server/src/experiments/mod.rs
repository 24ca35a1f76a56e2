//! Experiments while the server runs: which there are, what their arms did, and how they change.
//!
//! The rules are the `experiment` crate's. Here they are performed: a change is tried on a draft of what is served, made durable
//! with its entry in the audit log, and then put in force, in this order; an answer is written into its experiment's
//! `book` when it ends; a `keeper` saves the books and has guardrails looked at. Nothing here speaks HTTP.
//!
//! | room | what is in it |
//! |---|---|
//! | `kept` | an experiment as it is kept, and what a table of the configuration file means for it |
//! | `changes` | beginning, changing and ending one; following the configuration file |
//! | `book` | what the arms of one experiment did |
//! | `answers` | which answer was of which arm, for feedback |
//! | `feedback` | scores of answers |
//! | `keeper` | what happens every second |
//! | `shadows` | shadow arms: asked afterwards about answers that others gave |
//! | `show` | an experiment as people are shown it |

mod answers;
mod book;
mod changes;
mod error;
mod feedback;
pub(crate) mod keeper;
mod kept;
mod shadows;
mod show;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use experiment::Unit;

use crate::config::Config;
use crate::runtime::{Route, Runtime, Split, Witness};
use crate::unix;
use answers::{Answers, Scorable};
use book::Book;
pub use error::ExperimentError;
pub use feedback::{Score, Scored};
pub use kept::{Kept, Source};
pub use shadows::Facts;
use shadows::{Job, Shadows};

/// All experiments of a server.
pub struct Experiments {
    runtime: Arc<Runtime>,
    /// Read for every answer of an experiment, and never waited for. Changes are made one at a time, by whoever holds the
    /// control's lock.
    all: ArcSwap<BTreeMap<String, Arc<Entry>>>,
    /// Of a token, by model.
    prices: ArcSwap<BTreeMap<String, f64>>,
    answers: Answers,
    shadows: Shadows,
}

/// One experiment.
struct Entry {
    kept: Kept,
    book: Arc<Book>,
    /// Why it is not in force although it should be, e.g. as its route is gone.
    problem: Option<String>,
}

/// Which arm serves a request.
#[derive(Clone)]
pub struct Assigned {
    /// The route's arms.
    pub split: Arc<Split>,
    /// Index of the arm.
    pub arm: usize,
    /// Where the answer is counted, if it is.
    pub unit: Option<Unit>,
    /// Indices of the shadow arms that are asked about it afterwards.
    pub shadows: Vec<usize>,
}

impl Experiments {
    /// None yet.
    #[must_use]
    pub fn new(runtime: Arc<Runtime>) -> Self {
        let (all, prices) = (ArcSwap::default(), ArcSwap::default());
        Self { runtime, all, prices, answers: Answers::default(), shadows: Shadows::start() }
    }

    /// A witness of a request that this arm is to serve. A key that was drawn is counted now, so that answers that get lost
    /// show in the sample ratio.
    #[must_use]
    pub fn watch(&self, assigned: &Assigned, facts: Facts) -> Witness {
        let Some(book) = self.book(&assigned.split) else { return Witness::default() };
        let (arm, unit) = (assigned.arm, assigned.unit);
        if let Some(unit) = unit {
            book.assigned(arm, unit);
        }
        let models = &assigned.split.arms[arm].route.model_names;
        let prices = self.prices.load();
        let prices: Vec<f64> = models.iter().map(|model| prices.get(model).copied().unwrap_or(0.0)).collect();
        let (shadows, door) = (assigned.asked_afterwards(), self.shadows.door().clone());
        let has_shadows = !shadows.is_empty();
        let witness = Witness::of(models.len(), move |course| {
            let priced = course.usage.iter().zip(prices);
            let cost = priced.map(|(usage, price)| usage.completion as f64 * price).sum();
            book.ended(arm, unit, &course, cost);
            if let Some(unit) = unit.filter(|_| has_shadows && !course.considered.is_empty()) {
                door.give(Job { book, unit, shadows, considered: course.considered, facts });
            }
        });
        if has_shadows { witness.with_considered() } else { witness }
    }

    /// The answer of this number was accepted, on behalf of this owner: it can be scored from now on.
    pub fn accepted(&self, assigned: &Assigned, id: u64, owner: u64) {
        let Some(unit) = assigned.unit else { return };
        let split = &assigned.split;
        let scorable = Scorable {
            experiment: split.name().to_owned(),
            begun_unix_ms: split.begun_unix_ms,
            arm: assigned.arm,
            unit,
            owner,
            at_unix_ms: unix::now_ms(),
            is_scored: false,
        };
        self.answers.add(id, scorable);
    }

    /// Takes the prices of a configuration.
    pub(crate) fn set_prices(&self, config: &Config) {
        let prices = config.models.iter().map(|(name, model)| (name.clone(), model.price_per_token));
        self.prices.store(Arc::new(prices.collect()));
    }

    /// The book of the experiment that this split is of. None where another of the same name has begun meanwhile.
    fn book(&self, split: &Split) -> Option<Arc<Book>> {
        let all = self.all.load();
        let book = &all.get(split.name())?.book;
        (book.begun_unix_ms == split.begun_unix_ms).then(|| Arc::clone(book))
    }
}

impl Assigned {
    /// The shadows that can be asked about this arm's answers: those with the same entry model.
    fn asked_afterwards(&self) -> Vec<(usize, Arc<Route>)> {
        let entry = self.split.arms[self.arm].route.models[0];
        let shadow = |&index: &usize| {
            let route = &self.split.shadows.get(index)?.route;
            (route.models[0] == entry).then(|| (index, Arc::clone(route)))
        };
        self.shadows.iter().filter_map(shadow).collect()
    }

    /// The arm's name.
    #[must_use]
    pub fn arm_name(&self) -> &str {
        &self.split.arms[self.arm].name
    }
}
