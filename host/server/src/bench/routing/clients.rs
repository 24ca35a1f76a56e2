//! Clients in a closed loop: each asks, reads its answer to the end, and asks again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Events};
use super::standard::Dispatcher;
use super::{RoutingError, Way};

/// What clients ask, and of whom.
pub(super) struct Load<'a> {
    pub(super) address: SocketAddr,
    pub(super) route: &'a str,
    /// Names of the route's models.
    pub(super) models: &'a [String],
    /// Tokens that end an answer.
    pub(super) eos: &'a [u32],
    pub(super) prompts: &'a [Vec<u32>],
    /// Most tokens of an answer.
    pub(super) tokens: usize,
}

/// Clients at work.
pub(super) struct Clients {
    begun: Instant,
    stop: CancellationToken,
    tasks: JoinSet<Result<Vec<Answer>, RoutingError>>,
}

/// When an answer was asked for and when its tokens came.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) asked: Instant,
    pub(super) tokens: Vec<Instant>,
    pub(super) is_whole: bool,
}

/// Everything that came.
pub(super) struct Received {
    begun: Instant,
    answers: Vec<Answer>,
}

/// What came within a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Measured {
    pub(super) tokens: usize,
    pub(super) seconds: f64,
    /// To the first token, of answers asked for within it; seconds, in ascending order like all that follow.
    pub(super) ttft_s: Vec<f64>,
    /// Per token after the first, of answers that ended within it.
    pub(super) tpot_s: Vec<f64>,
    /// Between tokens of an answer.
    pub(super) gaps_s: Vec<f64>,
}

impl Load<'_> {
    /// Sets so many clients to work.
    pub(super) fn begin(&self, way: &Way, clients: usize) -> Clients {
        let (stop, next) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let prompts: Arc<[Vec<u32>]> = self.prompts.into();
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            let asker = self.asker(way);
            let client = Client { asker, prompts: Arc::clone(&prompts), next: Arc::clone(&next) };
            tasks.spawn(client.work(stop.clone()));
        }
        Clients { begun: Instant::now(), stop, tasks }
    }

    fn asker(&self, way: &Way) -> Asker {
        match way {
            Way::Scheduled(_) => {
                Asker::Routed { address: self.address, route: self.route.to_owned(), tokens: self.tokens }
            }
            Way::Standard { threshold } => Asker::Standard(Dispatcher {
                address: self.address,
                models: self.models.to_vec(),
                eos: self.eos.to_vec(),
                tokens: self.tokens,
                threshold: *threshold,
                connections: Vec::new(),
            }),
        }
    }
}

impl Clients {
    /// Lets them work for a while; ends early when one of them fails.
    pub(super) async fn lasts(&mut self, time: Duration) -> Result<(), RoutingError> {
        let failed = tokio::time::timeout(time, self.tasks.join_next()).await;
        match failed {
            Ok(Some(outcome)) => outcome?.map(drop),
            _ => Ok(()),
        }
    }

    /// Stops them; answers that are not whole are cut off.
    pub(super) async fn end(mut self) -> Result<Received, RoutingError> {
        self.stop.cancel();
        let mut answers = Vec::new();
        while let Some(outcome) = self.tasks.join_next().await {
            answers.extend(outcome??);
        }
        Ok(Received { begun: self.begun, answers })
    }
}

struct Client {
    asker: Asker,
    prompts: Arc<[Vec<u32>]>,
    /// The next prompt, over all clients.
    next: Arc<AtomicUsize>,
}

enum Asker {
    Routed { address: SocketAddr, route: String, tokens: usize },
    Standard(Dispatcher),
}

impl Client {
    async fn work(mut self, stop: CancellationToken) -> Result<Vec<Answer>, RoutingError> {
        let mut answers = Vec::new();
        while !stop.is_cancelled() {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let prompt = &self.prompts[at % self.prompts.len()];
            let mut answer = Answer { asked: Instant::now(), tokens: Vec::new(), is_whole: false };
            let answered = self.asker.ask(prompt, at as u64, &mut answer.tokens);
            let whole = stop.run_until_cancelled(answered).await;
            answer.is_whole = whole.transpose()?.is_some();
            answers.push(answer);
        }
        Ok(answers)
    }
}

impl Asker {
    /// Asks and reads to the end; notes when each token came.
    async fn ask(&mut self, prompt: &[u32], seed: u64, came: &mut Vec<Instant>) -> Result<(), RoutingError> {
        match self {
            Self::Standard(dispatcher) => dispatcher.answer(prompt, came).await,
            Self::Routed { address, route, tokens } => {
                let body = json!({
                    "model": route, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "seed": seed,
                    "stream": true, "return_token_ids": true,
                });
                // A connection that is closed with a stream on it is how a client leaves, so each has its own.
                let mut connection = Connection::open(*address).await?;
                let mut events = Events::new(connection.post("/v1/completions", &body).await?);
                while let Some(data) = events.next().await? {
                    let now = Instant::now();
                    came.extend(std::iter::repeat_n(now, tokens_of(data)));
                }
                Ok(())
            }
        }
    }
}

/// The tokens of a chunk; the closing `[DONE]` has none.
fn tokens_of(data: &[u8]) -> usize {
    let chunk: Result<Chunk, _> = serde_json::from_slice(data);
    chunk.map_or(0, |chunk| chunk.choices.iter().map(|choice| choice.token_ids.len()).sum())
}

#[derive(Deserialize)]
struct Chunk {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    token_ids: Vec<u32>,
}

impl Received {
    /// What came after a warm-up, for so long.
    pub(super) fn within(&self, (warm_up, measured): (Duration, Duration)) -> Measured {
        let (from, to) = (self.begun + warm_up, self.begun + warm_up + measured);
        let inside = |at: &Instant| (from..to).contains(at);
        let mut all = Measured { seconds: measured.as_secs_f64(), ..Measured::default() };
        for Answer { asked, tokens, is_whole } in &self.answers {
            all.tokens += tokens.iter().filter(|at| inside(at)).count();
            let (Some(first), Some(last)) = (tokens.first(), tokens.last()) else { continue };
            if inside(asked) {
                all.ttft_s.push((*first - *asked).as_secs_f64());
            }
            if *is_whole && inside(last) && tokens.len() > 1 {
                all.tpot_s.push((*last - *first).as_secs_f64() / (tokens.len() - 1) as f64);
            }
            let gaps = tokens.windows(2).filter(|two| inside(&two[0]) && inside(&two[1]));
            all.gaps_s.extend(gaps.map(|two| (two[1] - two[0]).as_secs_f64()));
        }
        for times in [&mut all.ttft_s, &mut all.tpot_s, &mut all.gaps_s] {
            times.sort_by(f64::total_cmp);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_in_the_window_counts() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let answer = |asked, tokens: &[u64], is_whole| Answer {
            asked: at(asked),
            tokens: tokens.iter().map(|&ms| at(ms)).collect(),
            is_whole,
        };
        let answers =
            vec![answer(0, &[5, 15, 25, 35], true), answer(36, &[40, 50], true), answer(50, &[90], false)];
        let received = Received { begun, answers };
        let measured = received.within((Duration::from_millis(10), Duration::from_millis(50)));
        assert_eq!(measured.tokens, 5);
        let ms = |times: &[f64]| times.iter().map(|s| (s * 1e3).round() as u64).collect::<Vec<_>>();
        assert_eq!(ms(&measured.ttft_s), [4, 40]);
        assert_eq!(ms(&measured.tpot_s), [10, 10]);
        assert_eq!(ms(&measured.gaps_s), [10, 10, 10]);
    }

    #[test]
    fn tokens_of_chunks_are_counted() {
        assert_eq!(tokens_of(br#"{"choices": [{"text": "ab", "token_ids": [1, 2]}]}"#), 2);
        assert_eq!(tokens_of(br#"{"choices": []}"#), 0);
        assert_eq!(tokens_of(b"[DONE]"), 0);
    }
}
