//! Routing on the wall clock: the whole server (HTTP, policy in Wasm, the loops of every model) in every mode of scheduling,
//! and beside it what one does without this server: a dispatcher that asks one ordinary server per model for every token.
//!
//! The models are simulated (their steps only take time, at speeds that are given) or real. Clients keep a number of
//! requests under way over HTTP; after a warm-up, in which the scheduler learns, what they receive is counted. Reading
//! order: [`Plan`] → `served` (a server in this process) → `clients` over `connection` → `standard` (the dispatcher) →
//! `report` → `picture`; `overhead` is a study of its own.

mod clients;
mod connection;
mod overhead;
mod picture;
mod report;
mod served;
mod standard;

use std::time::Duration;

use engine::ChatMessage;

pub use connection::RoutingError;
pub use overhead::{Overhead, overhead};
pub use report::{Report, Row};

use crate::bench::quality::Question;
use crate::config::{Config, Scheduling};
use clients::Load;
pub(super) use connection::Connection;
pub(super) use served::{Served, started};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Models and the route that goes between them.
    pub config: Config,
    /// The route, with settings if they are to differ.
    pub route: String,
    /// Who runs when; each is measured.
    pub ways: Vec<Way>,
    /// Requests at a time; each is measured.
    pub requests: Vec<usize>,
    /// What is asked, over and over.
    pub questions: Vec<Question>,
    /// Most tokens of an answer.
    pub tokens: usize,
    /// Before anything is counted.
    pub warm_up: Duration,
    /// For how long it is counted.
    pub measured: Duration,
}

/// One way of running two models.
#[derive(Clone, Debug)]
pub enum Way {
    /// This server, scheduled so.
    Scheduled(Scheduling),
    /// A dispatcher that asks a server for every token; it routes by entropy above so many nats.
    Standard {
        /// Most entropy at which the small model's token is kept.
        threshold: f64,
    },
}

impl Way {
    /// As tables have it.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Scheduled(scheduling) => scheduling.name(),
            Self::Standard { .. } => "std-serving".to_owned(),
        }
    }
}

/// Told of every run that is done.
pub trait Progress {
    /// A run begins.
    fn begin(&mut self, name: &str);
    /// It is done.
    fn done(&mut self);
}

/// Runs everything: all ways at one number of requests after the other, so that they are compared under like conditions.
///
/// # Errors
/// [`RoutingError`]: something does not start, or a request failed.
pub async fn run(plan: &Plan, progress: &mut dyn Progress) -> Result<Report, RoutingError> {
    let mut report = Report::new(plan);
    for &requests in &plan.requests {
        for way in &plan.ways {
            progress.begin(&format!("{} at {requests}", way.name()));
            report.rows.push(measure(plan, way, requests).await?);
            progress.done();
        }
    }
    Ok(report)
}

async fn measure(plan: &Plan, way: &Way, requests: usize) -> Result<Row, RoutingError> {
    let mut config = plan.config.clone();
    if let Way::Scheduled(scheduling) = way {
        config.scheduler = scheduling.clone();
    }
    let served = Served::start(config).await?;
    let outcome = measure_served(plan, way, requests, &served).await;
    served.stop().await;
    outcome
}

async fn measure_served(
    plan: &Plan,
    way: &Way,
    requests: usize,
    served: &Served,
) -> Result<Row, RoutingError> {
    let selected = served.runtime().catalog().select(&plan.route)?;
    let models = selected.route.models.len();
    if matches!(way, Way::Standard { .. }) && models != 2 {
        return Err(RoutingError::NotAPair { route: plan.route.clone(), models });
    }
    let prompts: Vec<Vec<u32>> = plan
        .questions
        .iter()
        .map(|question| {
            let message = ChatMessage { role: "user".to_owned(), content: question.text().to_owned() };
            selected.route.tokenizer.encode_chat(&[message])
        })
        .collect::<Result<_, _>>()?;
    let load = Load {
        address: served.address(),
        route: &plan.route,
        models: &selected.route.model_names,
        eos: &selected.route.eos,
        prompts: &prompts,
        tokens: plan.tokens,
    };
    let mut clients = load.begin(way, requests);
    clients.lasts(plan.warm_up).await?;
    let warm = served.steps(&selected.route);
    clients.lasts(plan.measured).await?;
    let batches = served.batches(&selected.route, &warm);
    let scheduling = served.runtime().scheduling();
    let received = clients.end().await?;
    let window = (plan.warm_up, plan.measured);
    Ok(Row::new(way, requests, &received.within(window), (batches, &scheduling)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::quality::generated;
    use crate::config::{SchedulingMode, Sim};

    struct Silent;

    impl Progress for Silent {
        fn begin(&mut self, _name: &str) {}
        fn done(&mut self) {}
    }

    fn plan(fixed_ms: [f64; 2]) -> Plan {
        let mut config = Config::embedded();
        for (name, fixed_ms) in ["small", "large"].into_iter().zip(fixed_ms) {
            let sim = Sim { fixed_ms, unsure: 0.3, ..Sim::default() };
            config.models.get_mut(name).expect("embedded").sim = Some(sim);
        }
        let ours = Scheduling { mode: SchedulingMode::Ours, ..Scheduling::default() };
        Plan {
            config,
            route: "pair/entropy".to_owned(),
            ways: vec![Way::Scheduled(ours), Way::Standard { threshold: 0.4 }],
            requests: vec![3],
            questions: generated(1, 20),
            tokens: 20,
            warm_up: Duration::from_millis(300),
            measured: Duration::from_millis(700),
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn both_ways_route_as_much_and_are_reported_alike() {
        let report = run(&plan([2.0, 4.0]), &mut Silent).await.expect("a report");
        let json = report.json();
        assert_eq!((&json["engine"], &json["rows"][1]["mode"]), (&"sim".into(), &"std-serving".into()));
        for row in json["rows"].as_array().expect("rows") {
            for field in ["n", "tokens_per_s", "tpot_p50_ms", "tpot_p99_ms", "ttft_p50_ms"] {
                assert!(row[field].as_f64().is_some_and(|number| number > 0.0), "{field} of {row:#}");
            }
            // A token costs at least the small model's step; three requests at once never more than three of them.
            assert!(row["tpot_p50_ms"].as_f64().is_some_and(|ms| ms >= 2.0), "{row:#}");
            assert!(row["tokens_per_s"].as_f64().is_some_and(|speed| speed <= 3.0 / 2e-3), "{row:#}");
            assert_eq!(row["mean_batch"].as_array().map(Vec::len), Some(2));
        }
        assert!(
            report.table().to_string().contains("std-serving") && report.plot().to_svg().contains("ours")
        );
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn overhead_is_measured_at_every_number_of_requests() {
        let config = plan([0.0, 0.0]).config;
        let measured = overhead(&config, "pair/entropy", (&[1, 8], Duration::from_millis(100)), |_| ()).await;
        let json = measured.expect("measured").json();
        let points = json["overhead"].as_array().expect("points");
        assert_eq!((points.len(), json["hops"].as_array().map(Vec::len)), (2, Some(3)));
        assert!(
            points.iter().all(|point| point["us_per_token_overhead"].as_f64().is_some_and(|us| us > 0.0)),
            "{json:#}"
        );
    }
}
