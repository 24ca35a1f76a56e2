//! The work that is timed: prompts of their own for every sequence, then one token per sequence and step.
//!
//! Prompts differ between sequences and rounds, so that nothing kept from one can help another.

use std::time::{Duration, Instant};

use engine::{Engine, EngineError, Profile, Row};
use journey::random::{Purpose, uniform};
use journey::{Draw, JourneyId, Sampled};

use super::{Plan, WARM_UP};

/// How long one round took.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Times {
    /// From the first token fed to the first token sampled of every sequence.
    pub(in crate::bench) prefill: Duration,
    /// All decode steps.
    pub(in crate::bench) decode: Duration,
    /// Share of the decode time outside matrix products and attention.
    pub(super) elsewhere: Option<f64>,
}

/// The rounds of one batch.
pub(in crate::bench) fn all(
    engine: &mut dyn Engine,
    plan: &Plan,
    batch: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Times>, EngineError> {
    let mut times = Vec::with_capacity(plan.rounds);
    for number in 0..WARM_UP + plan.rounds {
        progress(&format!("batch {batch}"));
        let round = Round { plan, batch, number };
        let timed = round.run(engine)?;
        if number >= WARM_UP {
            times.push(timed);
        }
    }
    Ok(times)
}

/// One run over fresh prompts.
pub(super) struct Round<'a> {
    pub(super) plan: &'a Plan,
    pub(super) batch: usize,
    pub(super) number: usize,
}

impl Round<'_> {
    fn run(&self, engine: &mut dyn Engine) -> Result<Times, EngineError> {
        let prompts = self.prompts(engine.spec().vocabulary);
        let begun = Instant::now();
        let mut last = self.prefill(engine, &prompts)?;
        let (before, prefilled) = (engine.profile(), Instant::now());
        for step in 0..self.plan.tokens {
            last = self.decode(engine, self.plan.prompt + step, &last)?;
        }
        let decode = prefilled.elapsed();
        let elsewhere = share_elsewhere(before, engine.profile());
        self.release(engine);
        Ok(Times { prefill: prefilled - begun, decode, elsewhere })
    }

    /// Feeds the prompts in steps of at most [`STEP_TOKENS`] tokens; returns the first token of every sequence.
    pub(super) fn prefill(
        &self,
        engine: &mut dyn Engine,
        prompts: &[Vec<u32>],
    ) -> Result<Vec<u32>, EngineError> {
        let piece = self.plan.prompt.min(STEP_TOKENS);
        let together = STEP_TOKENS / piece;
        let mut first = Vec::with_capacity(self.batch);
        for (group, prompts) in prompts.chunks(together).enumerate() {
            for from in (0..self.plan.prompt).step_by(piece) {
                let end = (from + piece).min(self.plan.prompt);
                let draws: &[Draw<'_>] = if end == self.plan.prompt { DRAW } else { &[] };
                let rows: Vec<Row<'_>> = prompts
                    .iter()
                    .enumerate()
                    .map(|(ix, prompt)| {
                        let journey = self.journey(group * together + ix);
                        Row { journey, salt: 0, from, tokens: &prompt[from..end], draws }
                    })
                    .collect();
                first.extend(tokens(&engine.step(&rows)?));
            }
        }
        Ok(first)
    }

    /// One step of every sequence.
    pub(super) fn decode(
        &self,
        engine: &mut dyn Engine,
        from: usize,
        last: &[u32],
    ) -> Result<Vec<u32>, EngineError> {
        let row =
            |(sequence, tokens)| Row { journey: self.journey(sequence), salt: 0, from, tokens, draws: DRAW };
        let rows: Vec<Row<'_>> = last.chunks(1).enumerate().map(row).collect();
        Ok(tokens(&engine.step(&rows)?).collect())
    }

    /// Drops all sequences.
    pub(super) fn release(&self, engine: &mut dyn Engine) {
        (0..self.batch).for_each(|sequence| engine.release(self.journey(sequence)));
    }

    /// A prompt for every sequence.
    pub(super) fn prompts(&self, vocabulary: usize) -> Vec<Vec<u32>> {
        (0..self.batch).map(|sequence| self.prompt(sequence, vocabulary)).collect()
    }

    fn prompt(&self, sequence: usize, vocabulary: usize) -> Vec<u32> {
        prompt(self.journey(sequence).0, self.plan.prompt, vocabulary)
    }

    /// Every sequence of every round of every batch has its own, and with it a prompt of its own.
    fn journey(&self, sequence: usize) -> JourneyId {
        JourneyId((self.batch as u64) << 32 | (self.number as u64) << 16 | sequence as u64)
    }
}

/// A prompt that no other seed has.
pub(in crate::bench) fn prompt(seed: u64, len: usize, vocabulary: usize) -> Vec<u32> {
    let token = |position| (uniform(seed, position, Purpose::Sample, 0) * vocabulary as f64) as u32;
    (0..len as u64).map(token).collect()
}

fn tokens(sampled: &[Sampled]) -> impl Iterator<Item = u32> {
    sampled.iter().map(|sampled| sampled.token)
}

/// Share of the time between two profiles that went neither into products nor into attention.
fn share_elsewhere(before: Profile, after: Profile) -> Option<f64> {
    let total = (after.total - before.total).as_secs_f64();
    let known = after.products + after.attention - before.products - before.attention;
    (total > 0.0).then(|| 1.0 - known.as_secs_f64() / total)
}

/// What a policy and a client that ask for a few alternatives cost.
const DRAW: &[Draw<'static>] = &[Draw { candidates: 4, ..Draw::GREEDY }];

/// As many tokens as the peers of `tests/bench` feed at once.
const STEP_TOKENS: usize = 512;

#[cfg(test)]
mod tests {
    use engine::{KvUsage, ModelSpec};

    use super::*;

    /// Notes what it is fed.
    struct Noting {
        spec: ModelSpec,
        steps: Vec<Vec<(u64, usize, usize, bool)>>,
    }

    impl Engine for Noting {
        fn spec(&self) -> &ModelSpec {
            &self.spec
        }

        fn step(&mut self, rows: &[Row<'_>]) -> Result<Vec<Sampled>, EngineError> {
            let note =
                |row: &Row<'_>| (row.journey.0 & 0xffff, row.from, row.tokens.len(), !row.draws.is_empty());
            self.steps.push(rows.iter().map(note).collect());
            let draws = rows.iter().flat_map(|row| row.draws);
            Ok(draws.map(|_| Sampled { token: 1, ..Sampled::default() }).collect())
        }

        fn release(&mut self, _: JourneyId) {}

        fn park(&mut self, _: JourneyId) {}

        fn held(&self, _: JourneyId) -> usize {
            0
        }

        fn fork(&mut self, _: JourneyId, _: JourneyId) {}

        fn kv(&self) -> KvUsage {
            KvUsage::default()
        }

        fn profile(&self) -> Profile {
            Profile::default()
        }
    }

    fn steps(prompt: usize, batch: usize) -> Vec<Vec<(u64, usize, usize, bool)>> {
        let mut engine = Noting { spec: super::super::bounds::tests::spec(), steps: Vec::new() };
        let plan = Plan { batches: vec![batch], prompt, tokens: 1, rounds: 1, threads: 1 };
        Round { plan: &plan, batch, number: 0 }.run(&mut engine).unwrap();
        engine.steps
    }

    #[test]
    fn short_prompts_share_a_step_and_long_ones_are_cut() {
        let short = steps(200, 3);
        assert_eq!(short[0], [(0, 0, 200, true), (1, 0, 200, true)]);
        assert_eq!(short[1], [(2, 0, 200, true)]);
        assert_eq!(short[2], [(0, 200, 1, true), (1, 200, 1, true), (2, 200, 1, true)]);
        let long = steps(600, 2);
        assert_eq!(long[0], [(0, 0, 512, false)]);
        assert_eq!(long[1], [(0, 512, 88, true)]);
        assert_eq!(long[2], [(1, 0, 512, false)]);
        assert_eq!(long.len(), 5);
    }

    #[test]
    fn no_two_prompts_begin_alike() {
        let plan = Plan { batches: vec![1, 2], prompt: 16, tokens: 1, rounds: 2, threads: 1 };
        let prompts: Vec<Vec<u32>> = [(1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 0, 1), (2, 1, 0), (2, 1, 1)]
            .map(|(batch, number, sequence)| Round { plan: &plan, batch, number }.prompt(sequence, 1000))
            .to_vec();
        for (ix, prompt) in prompts.iter().enumerate() {
            assert!(prompt.iter().all(|&token| token < 1000));
            assert!(prompts[..ix].iter().all(|other| other[..4] != prompt[..4]), "{prompts:?}");
        }
    }
}
