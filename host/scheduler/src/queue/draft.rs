//! One step while it is being chosen: its rows, and how its token budget is spent on them.
//!
//! Separate from the counters, which it only asks for. A row has one token from the beginning; what a tenant gets beyond
//! that is kept as a sum, and dealt out to its rows in the end.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use journey::JourneyId;

use super::{Limits, Share, Tenant, Whose};

struct Row {
    whose: Whose,
    journey: JourneyId,
    /// Tokens that it could be fed beyond the first.
    more: usize,
}

/// What of a step is one tenant's.
#[derive(Default)]
struct Part {
    /// Tokens that its rows could be fed beyond those they have.
    hunger: u64,
    /// Tokens beyond the first of each row.
    extra: u64,
    /// Whether all its journeys are in the step.
    is_complete: bool,
}

/// A tenant that could be fed more.
struct Want {
    whose: Whose,
    counter: u64,
    /// What a token adds to the counter.
    step: u64,
    hunger: u64,
}

impl Want {
    /// Tokens that it can have while its counter does not pass a level.
    fn upto(&self, level: u64) -> u64 {
        (level.saturating_sub(self.counter) / self.step).min(self.hunger)
    }
}

/// A step that is being chosen.
pub(super) struct Draft {
    rows: Vec<Row>,
    parts: BTreeMap<Whose, Part>,
    rows_max: usize,
    tokens_max: u64,
    /// Tokens given, the first of each row among them.
    tokens: u64,
}

impl Draft {
    /// An empty step with so many journeys to choose from.
    pub(super) fn new(limits: Limits, residents: usize) -> Self {
        let rows_max = limits.rows_max.get().min(residents);
        let tokens_max = limits.tokens_max.get() as u64;
        Self { rows: Vec::with_capacity(rows_max), parts: BTreeMap::new(), rows_max, tokens_max, tokens: 0 }
    }

    /// Adds a row with its first token.
    pub(super) fn add_row(&mut self, whose: Whose, journey: JourneyId, pending: usize) {
        let more = pending.saturating_sub(1);
        self.rows.push(Row { whose, journey, more });
        self.parts.entry(whose).or_default().hunger += more as u64;
        self.tokens += 1;
    }

    /// Gives the tenant's rows up to so many tokens more, as far as they need them and the budget has them; how many.
    pub(super) fn bid(&mut self, whose: Whose, tokens: u64) -> u64 {
        let Some(part) = self.parts.get_mut(&whose) else { return 0 };
        let given = tokens.min(part.hunger).min(self.tokens_max.saturating_sub(self.tokens));
        part.hunger -= given;
        part.extra += given;
        self.tokens += given;
        given
    }

    /// Notes of which tenants of a priority all journeys are in the step.
    pub(super) fn note_complete(&mut self, priority: Reverse<u8>, is_complete: impl Fn(Tenant) -> bool) {
        for (whose, part) in self.parts.iter_mut().filter(|(whose, _)| whose.priority == priority) {
            part.is_complete = is_complete(whose.tenant);
        }
    }

    /// Spends what is left of the budget so that the counters of a priority that are lowest rise to one level, as far as
    /// their rows need the tokens; what each tenant gets. `level_of` gives a tenant's counter and what a token adds to it.
    pub(super) fn spend_spare(
        &mut self,
        priority: Reverse<u8>,
        level_of: impl Fn(Tenant) -> (u64, u64),
    ) -> Vec<(Tenant, u64)> {
        let spare = self.tokens_max.saturating_sub(self.tokens);
        let hungry = self.parts.iter().filter(|(whose, part)| whose.priority == priority && part.hunger > 0);
        let want = |(whose, part): (&Whose, &Part)| {
            let (counter, step) = level_of(whose.tenant);
            Want { whose: *whose, counter, step, hunger: part.hunger }
        };
        let wants: Vec<Want> = hungry.map(want).collect();
        let sum = |level: u64| wants.iter().map(|want| want.upto(level)).sum::<u64>();
        let most = wants.iter().map(|want| want.counter + want.hunger * want.step).max().unwrap_or(0);
        let least = wants.iter().map(|want| want.counter).min().unwrap_or(0);
        let level = last_where(least, most, |level| sum(level) <= spare);
        let mut rest = spare - sum(level).min(spare);
        let mut given = Vec::with_capacity(wants.len());
        for want in wants {
            // The rest is less than one for each whose next token would just be above the level.
            let even = want.upto(level);
            let odd = u64::from(rest > 0 && want.upto(level + 1) > even);
            rest -= odd;
            given.push((want.whose.tenant, self.bid(want.whose, even + odd)));
        }
        given
    }

    /// Tenants of a priority whose journeys are all in the step with all that they have to feed.
    pub(super) fn served_in_full(&self, priority: Reverse<u8>) -> Vec<Tenant> {
        let of_priority = self.parts.iter().filter(|(whose, _)| whose.priority == priority);
        let in_full = of_priority.filter(|(_, part)| part.is_complete && part.hunger == 0);
        in_full.map(|(whose, _)| whose.tenant).collect()
    }

    /// The step: a tenant's rows are fed what is its in the order in which they were chosen.
    pub(super) fn into_shares(mut self) -> Vec<Share> {
        let deal = |row: &Row| {
            let extra = self.parts.get_mut(&row.whose).map(|part| &mut part.extra);
            let more = extra.map_or(0, |extra| {
                let more = (row.more as u64).min(*extra);
                *extra -= more;
                more as usize
            });
            Share { journey: row.journey, tokens: 1 + more }
        };
        self.rows.iter().map(deal).collect()
    }

    /// Whether no further row can be added. A row is within the budget as long as nothing but rows was given.
    pub(super) fn is_full(&self) -> bool {
        let is_spent = self.tokens >= self.tokens_max && self.tokens > self.rows.len() as u64;
        self.rows.len() >= self.rows_max || is_spent
    }
}

/// The last number from `from` to `to` for which a condition holds that holds for `from`, and never again once it fails.
fn last_where(mut from: u64, mut to: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while from < to {
        let middle = from + (to - from).div_ceil(2);
        if holds(middle) {
            from = middle;
        } else {
            to = middle - 1;
        }
    }
    from
}
