//! Requests that wait for a place among the journeys: whose turn it is.
//!
//! The next place goes to the tenant of the highest priority that has the fewest places for its share, and within a tenant to
//! who came first. So a tenant that sends a thousand requests at once delays its own, and another's first one not at all
//! longer than until a place is free. With one tenant it is a plain line.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use crate::{Behalf, Tenant};

/// Those who wait.
#[derive(Debug)]
pub struct Line<T> {
    tenants: BTreeMap<Tenant, Waiting<T>>,
    len: usize,
    /// Counts arrivals.
    tickets: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    behalf: Behalf,
    /// In order of arrival.
    queue: VecDeque<(u64, T)>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        Self { tenants: BTreeMap::new(), len: 0, tickets: 0 }
    }
}

impl<T> Line<T> {
    /// Somebody comes.
    pub fn push(&mut self, behalf: Behalf, item: T) {
        self.tickets += 1;
        self.len += 1;
        let waiting = self.tenants.entry(behalf.tenant);
        let waiting = waiting.or_insert_with(|| Waiting { behalf, queue: VecDeque::new() });
        // What a tenant gets may have changed since its last request.
        waiting.behalf = behalf;
        waiting.queue.push_back((self.tickets, item));
    }

    /// Takes the next one out, where tenants have so many places. `O(tenants that wait)`, once for each request.
    ///
    /// ```
    /// # use scheduler::{Line, Tenant};
    /// let mut line = Line::default();
    /// for (tenant, request) in [(1, "a"), (1, "b"), (2, "c")] {
    ///     line.push(Tenant(tenant).into(), request);
    /// }
    /// // One has two places already, two has one.
    /// assert_eq!(line.pop(|tenant| if tenant == Tenant(1) { 2 } else { 1 }), Some("c"));
    /// assert_eq!(line.pop(|_| 0), Some("a"));
    /// ```
    pub fn pop(&mut self, places: impl Fn(Tenant) -> usize) -> Option<T> {
        let turn = |(tenant, waiting): (&Tenant, &Waiting<T>)| {
            let Behalf { share, priority, .. } = waiting.behalf;
            // Places over share, in whole numbers: parts of a thousandth of the largest share decide nothing.
            let places = (places(*tenant) as u64) << FRACTION_BITS;
            let first = waiting.queue.front().map_or(u64::MAX, |(ticket, _)| *ticket);
            (Reverse(priority), places / u64::from(share.get()), first, *tenant)
        };
        let (.., tenant) = self.tenants.iter().map(turn).min()?;
        let waiting = self.tenants.get_mut(&tenant)?;
        let (_, item) = waiting.queue.pop_front()?;
        if waiting.queue.is_empty() {
            self.tenants.remove(&tenant);
        }
        self.len -= 1;
        Some(item)
    }

    /// Lets go of those of whom this is not true.
    pub fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        for waiting in self.tenants.values_mut() {
            waiting.queue.retain(|(_, item)| stays(item));
        }
        self.tenants.retain(|_, waiting| !waiting.queue.is_empty());
        self.len = self.tenants.values().map(|waiting| waiting.queue.len()).sum();
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

const FRACTION_BITS: u32 = 20;

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn behalf(tenant: u64, share: u32, priority: u8) -> Behalf {
        Behalf { tenant: Tenant(tenant), share: NonZeroU32::new(share).expect("not zero"), priority }
    }

    /// Everybody who is let in keeps its place.
    fn let_in(line: &mut Line<u64>, count: usize) -> Vec<u64> {
        let mut places: BTreeMap<Tenant, usize> = BTreeMap::new();
        let mut order = Vec::new();
        for _ in 0..count {
            let Some(tenant) = line.pop(|tenant| places.get(&tenant).copied().unwrap_or(0)) else { break };
            *places.entry(Tenant(tenant)).or_default() += 1;
            order.push(tenant);
        }
        order
    }

    #[test]
    fn one_tenant_is_a_plain_line() {
        let mut line = Line::default();
        (0..5).for_each(|item| line.push(behalf(1, 1, 0), item));
        assert_eq!(std::iter::from_fn(|| line.pop(|_| 7)).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert!(line.is_empty());
    }

    #[test]
    fn a_thousand_requests_of_one_tenant_do_not_keep_another_out() {
        let mut line = Line::default();
        (0..1000).for_each(|_| line.push(behalf(1, 1, 0), 1));
        (0..3).for_each(|_| line.push(behalf(2, 1, 0), 2));
        assert_eq!(let_in(&mut line, 7), [1, 2, 1, 2, 1, 2, 1]);
    }

    #[test]
    fn places_go_by_share_and_a_higher_priority_goes_first() {
        let mut line = Line::default();
        (0..100).for_each(|_| line.push(behalf(1, 1, 0), 1));
        (0..100).for_each(|_| line.push(behalf(2, 3, 0), 2));
        (0..2).for_each(|_| line.push(behalf(3, 1, 9), 3));
        let order = let_in(&mut line, 42);
        assert_eq!(order[..2], [3, 3]);
        assert_eq!(order.iter().filter(|tenant| **tenant == 2).count(), 30);
    }

    #[test]
    fn who_goes_while_waiting_is_let_go_of() {
        let mut line = Line::default();
        (0..6).for_each(|item| line.push(behalf(item % 2, 1, 0), item));
        line.retain(|item| *item > 3);
        assert_eq!(
            (line.len(), line.pop(|_| 0), line.pop(|_| 0), line.pop(|_| 0)),
            (2, Some(4), Some(5), None)
        );
    }
}
