//! Streams in a closed loop: each asks, reads its answer to the end, and asks again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use scheduler::Tenant;

use crate::bench::routing::RoutingError;
use crate::runtime::{Ask, Event, Runtime, Selected};

/// Ids by stream and number of the answer.
pub(super) type Ids = BTreeMap<(usize, usize), Vec<u32>>;

/// What one tenant asks.
pub(super) struct Load {
    pub(super) selected: Selected,
    pub(super) tenant: u64,
    /// Streams at a time.
    pub(super) count: usize,
    pub(super) tokens: usize,
    /// Before tokens are counted, and while they are.
    pub(super) seconds: (Duration, Duration),
}

/// What one tenant saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Between tokens of an answer, in ascending order.
    pub(super) gaps_s: Vec<f64>,
    pub(super) tokens: usize,
    /// Answers that went on without their policy.
    pub(super) fell_back: usize,
    pub(super) ids: Ids,
}

impl Load {
    /// Keeps all streams going until the time is over.
    pub(super) async fn run(&self, runtime: &Runtime) -> Result<Seen, RoutingError> {
        let begun = Instant::now();
        let from = begun + self.seconds.0;
        let window = (from, from + self.seconds.1);
        let all = try_join_all((0..self.count).map(|stream| self.stream(runtime, stream, window))).await?;
        let mut seen = Seen::default();
        for one in all {
            seen.gaps_s.extend(one.gaps_s);
            seen.tokens += one.tokens;
            seen.fell_back += one.fell_back;
            seen.ids.extend(one.ids);
        }
        seen.gaps_s.sort_by(f64::total_cmp);
        Ok(seen)
    }

    async fn stream(
        &self,
        runtime: &Runtime,
        stream: usize,
        window: (Instant, Instant),
    ) -> Result<Seen, RoutingError> {
        let mut seen = Seen::default();
        for number in 0.. {
            if Instant::now() >= window.1 {
                break;
            }
            self.answer(runtime, (stream, number), window, &mut seen).await?;
        }
        Ok(seen)
    }

    async fn answer(
        &self,
        runtime: &Runtime,
        which: (usize, usize),
        window: (Instant, Instant),
        seen: &mut Seen,
    ) -> Result<(), RoutingError> {
        let prompt = (0..PROMPT).map(|at| ((7 * which.0 + 3 * which.1 + at) % 40) as u32 + 5).collect();
        let ask = Ask {
            max_tokens: Some(self.tokens),
            ignore_eos: true,
            behalf: Tenant(self.tenant).into(),
            ..Ask::greedy(prompt)
        };
        let broken = |text: String| RoutingError::Answer { status: 500, text };
        let submitted = runtime.submit(&self.selected, ask).map_err(|error| broken(error.to_string()));
        let mut events = submitted?.events;
        let mut last: Option<Instant> = None;
        let mut ids = Vec::with_capacity(self.tokens);
        while let Ok(Some(event)) = tokio::time::timeout_at(window.1.into(), events.recv()).await {
            let now = Instant::now();
            match event {
                Event::Made(made) => {
                    ids.push(made.sampled.token);
                    if let Some(last) = last.filter(|last| *last >= window.0) {
                        seen.gaps_s.push((now - last).as_secs_f64());
                        seen.tokens += 1;
                    }
                    last = Some(now);
                }
                Event::FellBack { .. } => seen.fell_back += 1,
                Event::Failed { message } => return Err(broken(message)),
                Event::Scored(_) => {}
                Event::Finished(_) => break,
            }
        }
        seen.ids.insert(which, ids);
        Ok(())
    }
}

const PROMPT: usize = 16;
