//! The ledger against a naive twin: a list of tokens per journey, and all texts ever published.
//!
//! Storage is simulated: a position holds a stamp of its tenant's salt and of the whole text up to it, as KV does. So
//! what a journey sees through its table is compared, not only what the ledger says; and everything that the ledger
//! counts is counted anew after every operation.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::PAGE;
use super::*;

const JOURNEYS: u64 = 5;

/// One row of a step.
#[derive(Clone, Debug)]
struct Row {
    journey: u64,
    salt: u64,
    /// How many held positions are dropped first.
    back: usize,
    /// Which text it goes on with.
    variant: u32,
    count: usize,
    samples: bool,
}

#[derive(Clone, Debug)]
enum Operation {
    Step { rows: Vec<Row>, fails: bool },
    Cut { journey: u64, back: usize },
    Publish(u64),
    Release(u64, Keep),
    Fork(u64, u64),
    Park(u64),
    Resume(u64),
    Clear,
}

/// What the twin knows of a journey.
#[derive(Clone, Debug)]
struct Naive {
    salt: u64,
    tokens: Vec<u32>,
    /// Leading blocks that have been published, or taken over from those who have.
    anchored: usize,
}

/// A row between its reservation and the end of its step.
struct Reserved {
    journey: JourneyId,
    salt: u64,
    from: usize,
    adopted: usize,
    anchored: usize,
    text: Vec<u32>,
}

struct World {
    ledger: KvLedger,
    /// By block and position.
    storage: Vec<[u64; PAGE]>,
    journeys: BTreeMap<JourneyId, Naive>,
    /// In the order of parking.
    parked: Vec<JourneyId>,
    published: Vec<(u64, Vec<u32>)>,
    /// Whether there is always room, so that nothing is ever evicted.
    is_roomy: bool,
}

/// What KV at each position depends on.
fn stamps(salt: u64, tokens: &[u32]) -> Vec<u64> {
    let mix = |state: u64, word: u64| (state ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let next = |state: &mut u64, &token: &u32| {
        *state = mix(*state, u64::from(token) + 1);
        Some(*state)
    };
    tokens.iter().scan(mix(7, salt), next).collect()
}

/// Texts that agree up to a position of their own, most of them inside of a block.
fn token(variant: u32, position: usize) -> u32 {
    let alike = [0, 3, 16, 21, 32, 47][variant as usize];
    if position < alike { position as u32 % 5 } else { 10 + variant }
}

impl World {
    fn new(blocks_max: usize, is_roomy: bool) -> Self {
        Self {
            ledger: KvLedger::new(blocks_max),
            storage: vec![[0; PAGE]; blocks_max],
            journeys: BTreeMap::new(),
            parked: Vec::new(),
            published: Vec::new(),
            is_roomy,
        }
    }

    fn perform(&mut self, operation: &Operation) {
        match *operation {
            Operation::Step { ref rows, fails } => self.step(rows, fails),
            Operation::Cut { journey, back } => {
                let len = self.held(JourneyId(journey)).saturating_sub(back);
                self.cut(JourneyId(journey), len);
                self.ledger.cut(JourneyId(journey), len);
            }
            Operation::Publish(journey) => {
                self.ledger.publish(JourneyId(journey));
                self.publish(JourneyId(journey), Keep::Nothing);
            }
            Operation::Release(journey, keep) => self.release(JourneyId(journey), keep),
            Operation::Fork(from, to) => self.fork(JourneyId(from), JourneyId(to)),
            Operation::Park(journey) => self.park(JourneyId(journey)),
            Operation::Resume(journey) => {
                let held = self.ledger.resume(JourneyId(journey));
                assert_eq!(held, self.held(JourneyId(journey)));
                self.parked.retain(|&parked| parked != JourneyId(journey));
            }
            Operation::Clear => self.ledger.clear_prefixes(),
        }
        self.check();
    }

    fn step(&mut self, rows: &[Row], fails: bool) {
        for row in rows {
            self.perform(&Operation::Resume(row.journey));
        }
        let mut reserved: Vec<Reserved> = Vec::new();
        for row in rows {
            if reserved.iter().all(|other| other.journey.0 != row.journey) {
                reserved.extend(self.reserve(row));
            }
        }
        for row in reserved {
            self.write(&row, fails);
            if fails {
                self.ledger.cut(row.journey, row.from);
                continue;
            }
            self.ledger.commit(row.journey);
            let naive = Naive { salt: row.salt, tokens: row.text, anchored: row.anchored };
            self.journeys.insert(row.journey, naive);
        }
    }

    fn reserve(&mut self, row: &Row) -> Option<Reserved> {
        let journey = JourneyId(row.journey);
        let from = self.held(journey).saturating_sub(row.back);
        self.cut(journey, from);
        let fresh = Naive { salt: row.salt, tokens: Vec::new(), anchored: 0 };
        let naive = self.journeys.get(&journey).cloned().unwrap_or(fresh);
        let tokens: Vec<u32> =
            (from..from + row.count).map(|position| token(row.variant, position)).collect();
        let text: Vec<u32> = naive.tokens.iter().chain(&tokens).copied().collect();
        let adopt_max = row.count - usize::from(row.samples);

        let result = self.ledger.reserve(&Feed { journey, salt: row.salt, from, tokens: &tokens, adopt_max });
        self.notice_evictions();
        let Reservation { adopted, copy } = match result {
            Ok(reservation) => reservation,
            Err(refused) => {
                assert!(matches!(refused, Refused::NoRoom { .. }) && !self.is_roomy, "{refused}");
                self.check_no_room(journey, text.len());
                return None;
            }
        };
        let best = if naive.anchored == from / PAGE {
            self.longest(naive.salt, &text[..from + adopt_max])
        } else {
            0
        };
        assert!(adopted <= best.saturating_sub(from), "no more than anyone has published");
        assert!(!self.is_roomy || adopted == best.saturating_sub(from), "all that is published is found");
        if let Some(BlockCopy { from: source, to, positions }) = copy {
            assert_eq!(
                (positions, to),
                ((from + adopted) % PAGE, self.ledger.table(journey)[(from + adopted) / PAGE])
            );
            let beginning = self.storage[source.index()];
            self.storage[to.index()][..positions].copy_from_slice(&beginning[..positions]);
        }
        let anchored = if adopted > 0 { (from + adopted) / PAGE } else { naive.anchored };
        Some(Reserved { journey, salt: naive.salt, from, adopted, anchored, text })
    }

    /// Writes what is reserved, or rubbish into it.
    fn write(&mut self, row: &Reserved, fails: bool) {
        let stamps = stamps(row.salt, &row.text);
        let kept = self.ledger.stock().prefixes().texts();
        for (position, stamp) in stamps.into_iter().enumerate().skip(row.from + row.adopted) {
            let block = self.ledger.table(row.journey)[position / PAGE];
            assert!(!kept.contains_key(&block), "kept blocks are not written");
            for other in (0..JOURNEYS).map(JourneyId).filter(|&other| other != row.journey) {
                assert!(!self.ledger.table(other).contains(&block), "shared blocks are not written");
            }
            self.storage[block.index()][position % PAGE] = if fails { 0 } else { stamp };
        }
    }

    fn held(&self, journey: JourneyId) -> usize {
        self.journeys.get(&journey).map_or(0, |naive| naive.tokens.len())
    }

    fn cut(&mut self, journey: JourneyId, len: usize) {
        let Some(naive) = self.journeys.get_mut(&journey) else { return };
        naive.tokens.truncate(len);
        naive.anchored = naive.anchored.min(len / PAGE);
        if len == 0 {
            self.forget(journey);
        }
    }

    fn forget(&mut self, journey: JourneyId) {
        self.journeys.remove(&journey);
        self.parked.retain(|&parked| parked != journey);
    }

    /// The twin's part: all tokens of one who leaves a prefix, else the full blocks.
    fn publish(&mut self, journey: JourneyId, keep: Keep) {
        let Some(naive) = self.journeys.get_mut(&journey) else { return };
        naive.anchored = naive.tokens.len() / PAGE;
        let len = if keep == Keep::Prefix { naive.tokens.len() } else { naive.anchored * PAGE };
        self.published.push((naive.salt, naive.tokens[..len].to_vec()));
    }

    fn release(&mut self, journey: JourneyId, keep: Keep) {
        self.ledger.release(journey, keep);
        if keep == Keep::Prefix {
            self.publish(journey, keep);
        }
        self.forget(journey);
    }

    fn fork(&mut self, from: JourneyId, to: JourneyId) {
        self.ledger.fork(from, to);
        if from != to {
            self.forget(to);
            if let Some(naive) = self.journeys.get(&from).cloned() {
                self.journeys.insert(to, naive);
            }
        }
    }

    fn park(&mut self, journey: JourneyId) {
        self.ledger.park(journey);
        self.parked.retain(|&parked| parked != journey);
        if self.held(journey) > 0 {
            self.parked.push(journey);
        }
    }

    /// Those who left first may have lost all of it.
    fn notice_evictions(&mut self) {
        while let Some(&journey) = self.parked.first().filter(|&&journey| self.ledger.held(journey) == 0) {
            assert!(!self.is_roomy);
            self.publish(journey, Keep::Prefix);
            self.forget(journey);
        }
    }

    /// The longest beginning of a text that any published text of the tenant has.
    fn longest(&self, salt: u64, text: &[u32]) -> usize {
        let same = |other: &[u32]| other.iter().zip(text).take_while(|(a, b)| a == b).count();
        let published = self.published.iter().filter(|(tenant, _)| *tenant == salt);
        published.map(|(_, other)| same(other)).max().unwrap_or(0)
    }

    /// A refusal is right: without sharing anything new, the journey and those who are not parked need more than
    /// there is.
    fn check_no_room(&self, journey: JourneyId, len: usize) {
        let table = |journey: u64| self.ledger.table(JourneyId(journey)).iter().copied();
        let is_active = |journey: &u64| !self.parked.contains(&JourneyId(*journey));
        let used: BTreeSet<BlockId> = (0..JOURNEYS).filter(is_active).flat_map(table).collect();
        let kept = self.ledger.stock().prefixes().texts();
        let continues = |(salt, text): &(u64, Vec<u32>)| {
            let others = kept.iter().filter(|(block, other)| used.contains(block) && other.0 == *salt);
            others.map(|(_, other)| &other.1).any(|other| other.len() > text.len() && other.starts_with(text))
        };
        let pinned = kept.iter().filter(|(block, text)| !used.contains(block) && continues(text)).count();

        let own = self.ledger.table(journey);
        let rest = self.held(journey) % PAGE;
        let others = (0..JOURNEYS).filter(|&other| other != journey.0 && is_active(&other));
        let others: BTreeSet<BlockId> = others.flat_map(table).collect();
        // A block that is kept, and continued by one in use, stays as it is: going on inside of it takes a copy.
        let is_continued = |last| kept.get(last).is_some_and(&continues);
        let copied = own.last().is_some_and(|last| rest > 0 && (others.contains(last) || is_continued(last)));
        let needed = len.div_ceil(PAGE) - own.len() + usize::from(copied);
        assert!(used.len() + pinned + needed > self.storage.len(), "there was room");
    }

    /// Both agree, and all that is counted is right.
    fn check(&self) {
        let mut users: BTreeMap<BlockId, u32> = BTreeMap::new();
        for journey in (0..JOURNEYS).map(JourneyId) {
            let table = self.ledger.table(journey);
            table.iter().for_each(|&block| *users.entry(block).or_default() += 1);
            let Some(naive) = self.journeys.get(&journey) else {
                assert_eq!((self.ledger.held(journey), table), (0, &[][..]));
                continue;
            };
            assert_eq!(self.ledger.held(journey), naive.tokens.len());
            assert_eq!(self.ledger.tokens(journey), naive.tokens);
            assert_eq!(table.len(), naive.tokens.len().div_ceil(PAGE));
            let seen = (0..naive.tokens.len()).map(|at| self.storage[table[at / PAGE].index()][at % PAGE]);
            assert!(seen.eq(stamps(naive.salt, &naive.tokens)), "{journey} sees its own text");
        }
        let stock = self.ledger.stock();
        let kept = stock.prefixes().texts();
        for (block, (salt, text)) in &kept {
            let start = (text.len() - 1) / PAGE * PAGE;
            let stamps = stamps(*salt, text);
            assert_eq!(
                self.storage[block.index()][..text.len() - start],
                stamps[start..],
                "kept as published"
            );
        }
        stock.prefixes().audit(|block| users.contains_key(&block));
        stock.pool().audit(|block| (users.get(&block).copied().unwrap_or(0), kept.contains_key(&block)));
        self.check_usage(&users);
    }

    fn check_usage(&self, users: &BTreeMap<BlockId, u32>) {
        let usage = self.ledger.usage();
        assert_eq!(usage.tokens, self.journeys.values().map(|naive| naive.tokens.len()).sum::<usize>());
        assert_eq!((usage.sequences, usage.parked), (self.journeys.len(), self.parked.len()));
        assert_eq!(usage.blocks_used, users.len());
        assert_eq!(usage.blocks_shared, users.values().filter(|&&users| users > 1).count());
        assert!(usage.blocks_used + usage.blocks_cached <= usage.blocks_touched);
        assert!(usage.blocks_touched <= usage.blocks_max);
    }

    /// Everything is given back when all have left and nothing is kept.
    fn end(mut self, keep: Keep) {
        for journey in 0..JOURNEYS {
            self.perform(&Operation::Release(journey, keep));
        }
        self.perform(&Operation::Clear);
        let usage = self.ledger.usage();
        assert_eq!((usage.blocks_used, usage.blocks_cached, usage.tokens), (0, 0, 0));
        assert_eq!(self.ledger.stock().obtainable(), usage.blocks_max);
        assert_eq!(self.ledger.stock().pool().available(), usage.blocks_max);
    }
}

fn keep() -> impl Strategy<Value = Keep> {
    prop_oneof![Just(Keep::Nothing), Just(Keep::Prefix)]
}

/// A row of one token most of the time, else of up to three blocks and a half.
fn row() -> impl Strategy<Value = Row> {
    let back = prop_oneof![4 => Just(0usize), 1 => 0usize..40, 1 => Just(1000)];
    let count = prop_oneof![1 => Just(1usize), 2 => 1usize..56];
    (0..JOURNEYS, 0u64..2, back, 0u32..6, count, any::<bool>()).prop_map(
        |(journey, salt, back, variant, count, samples)| Row { journey, salt, back, variant, count, samples },
    )
}

fn operation() -> impl Strategy<Value = Operation> {
    let journey = 0..JOURNEYS;
    prop_oneof![
        8 => (proptest::collection::vec(row(), 1..4), proptest::bool::weighted(0.2))
            .prop_map(|(rows, fails)| Operation::Step { rows, fails }),
        1 => (journey.clone(), 0usize..40).prop_map(|(journey, back)| Operation::Cut { journey, back }),
        2 => journey.clone().prop_map(Operation::Publish),
        2 => (journey.clone(), keep()).prop_map(|(journey, keep)| Operation::Release(journey, keep)),
        2 => (journey.clone(), journey.clone()).prop_map(|(from, to)| Operation::Fork(from, to)),
        2 => journey.clone().prop_map(Operation::Park),
        1 => journey.prop_map(Operation::Resume),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn with_room_for_all_every_published_prefix_is_found(
        operations in proptest::collection::vec(operation(), 1..50), last in keep(),
    ) {
        let mut world = World::new(2048, true);
        operations.iter().for_each(|operation| world.perform(operation));
        world.end(last);
    }

    #[test]
    fn under_pressure_nothing_is_leaked_nor_seen_by_the_wrong_journey(
        blocks_max in 0usize..24, last in keep(),
        operations in proptest::collection::vec(
            prop_oneof![15 => operation(), 1 => Just(Operation::Clear)], 1..80,
        ),
    ) {
        let mut world = World::new(blocks_max, false);
        operations.iter().for_each(|operation| world.perform(operation));
        world.end(last);
    }
}
