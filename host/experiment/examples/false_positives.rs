//! How often experiments conclude where there is nothing to conclude, looking after every answer, and how soon they see a
//! stated effect: `false_positives [RUNS [ANSWERS [LINES]]]`, by default 2,000 experiments of 2,000 answers (three times
//! as many where a tenth is treated); with LINES only the lines that hold this text.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use experiment::guardrail::{Guardrail, Limit, Statistic};
use experiment::metric::Metric;
use experiment::study::{Keys, Look, Plan, World, simulate};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize, default: u32| {
        arguments.get(at).map_or(default, |text| text.parse().expect("a number of runs, a number of answers"))
    };
    let (runs, answers) = (number(1, 2000), number(2, 2000));
    let only = arguments.get(3).cloned().unwrap_or_default();
    let shown = |(what, _): &(String, Plan)| what.contains(&only);
    println!("{runs} experiments of {answers} answers, a look after every answer; level 5 %");
    println!("\narms alike                                   concluded   rate  true rate at most (95 %)");
    for (what, plan) in alike(answers).into_iter().filter(shown) {
        let outcome = simulate(&plan, runs, &mut uniform(&what));
        let (rate, most) = (100.0 * outcome.rate(), 100.0 * outcome.rate_at_most(0.05));
        println!("{what:44} {:9}  {rate:4.1} %  {most:4.1} %", outcome.concluded_at.len());
    }
    println!("\na real effect                                     seen  median answers, both arms");
    for (what, plan) in effects(answers).into_iter().filter(shown) {
        let outcome = simulate(&plan, runs / 4, &mut uniform(&what));
        let median = outcome.median_answers().map_or_else(|| "-".to_owned(), |answers| answers.to_string());
        println!("{what:44} {:7.1} %  {median}", 100.0 * outcome.rate());
    }
}

/// The same numbers for a line whatever else is printed.
fn uniform(what: &str) -> impl FnMut() -> f64 {
    let seed = what.bytes().fold(6u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut rng = StdRng::seed_from_u64(seed);
    move || rng.random()
}

fn alike(answers: u32) -> Vec<(String, Plan)> {
    let worse = |metric, of| Look::Guardrail(Guardrail { metric, of, limit: Limit::WorseBy(0.0) });
    let lines = [
        ("errors, each request on its own", Keys::Fresh, Look::Sequence(Metric::Errors), 5000),
        ("quality, each request on its own", Keys::Fresh, Look::Sequence(Metric::Quality), 5000),
        ("TTFT, each request on its own", Keys::Fresh, Look::Sequence(Metric::TtftS), 5000),
        ("TTFT, each on its own, 10 % treated", Keys::Fresh, Look::Sequence(Metric::TtftS), 1000),
        ("errors, 1,000 users", USERS, Look::Sequence(Metric::Errors), 5000),
        ("TTFT, 1,000 users", USERS, Look::Sequence(Metric::TtftS), 5000),
        ("TTFT, 1,000 users, 10 % treated", USERS, Look::Sequence(Metric::TtftS), 1000),
        ("sample ratio, each request on its own", Keys::Fresh, Look::Ratio, 5000),
        ("sample ratio, 1,000 users, 10 % treated", USERS, Look::Ratio, 1000),
        ("guardrail on errors", Keys::Fresh, worse(Metric::Errors, Statistic::Mean), 5000),
        ("guardrail on p99 of TTFT", Keys::Fresh, worse(Metric::TtftS, Statistic::P99), 5000),
        ("guardrail on errors, 1,000 users", USERS, worse(Metric::Errors, Statistic::Mean), 5000),
        ("guardrail on p99 of TTFT, 1,000 users", USERS, worse(Metric::TtftS, Statistic::P99), 5000),
        ("guardrail on p99, users, 10 % treated", USERS, worse(Metric::TtftS, Statistic::P99), 1000),
        ("readout of three metrics, any verdict", Keys::Fresh, Look::Readout, 5000),
        ("readout of three metrics, 1,000 users", USERS, Look::Readout, 5000),
        ("not done: fixed test of TTFT at each look", Keys::Fresh, Look::FixedTest(Metric::TtftS), 5000),
        ("not done: the same, users as if requests", USERS, Look::FixedTest(Metric::TtftS), 5000),
    ];
    let plan = |(what, keys, look, treatment_bp): (&str, Keys, Look, u16)| {
        // So that a small arm gets far enough to be judged.
        let answers = if treatment_bp == 1000 { 3 * answers } else { answers };
        (what.to_owned(), Plan { world: World::alike(keys), treatment_bp, look, answers })
    };
    lines.into_iter().map(plan).collect()
}

fn effects(answers: u32) -> Vec<(String, Plan)> {
    let fresh = World::alike(Keys::Fresh);
    let users = World::alike(USERS);
    let guardrail = |metric, of| Look::Guardrail(Guardrail { metric, of, limit: Limit::WorseBy(0.0) });
    let worse = |metric| guardrail(metric, Statistic::Mean);
    let tail = guardrail(Metric::TtftS, Statistic::P99);
    let lines = [
        ("errors 3 % -> 10 %", World { errors: [0.03, 0.1], ..fresh }, Look::Sequence(Metric::Errors)),
        ("guardrail: errors 3 % -> 10 %", World { errors: [0.03, 0.1], ..fresh }, worse(Metric::Errors)),
        ("guardrail: errors 3 % -> 30 %", World { errors: [0.03, 0.3], ..fresh }, worse(Metric::Errors)),
        ("guardrail: p99 of TTFT doubles", World { ttft_s: [0.3, 0.6], ..fresh }, tail),
        ("quality 0.60 -> 0.65", World { quality: [0.6, 0.65], ..fresh }, Look::Sequence(Metric::Quality)),
        (
            "quality 0.60 -> 0.65, users",
            World { quality: [0.6, 0.65], ..users },
            Look::Sequence(Metric::Quality),
        ),
        ("TTFT + 20 %", World { ttft_s: [0.3, 0.36], ..fresh }, Look::Sequence(Metric::TtftS)),
        ("TTFT + 20 %, users", World { ttft_s: [0.3, 0.36], ..users }, Look::Sequence(Metric::TtftS)),
    ];
    let plan = |(what, world, look): (&str, World, Look)| {
        (what.to_owned(), Plan { world, treatment_bp: 5000, look, answers })
    };
    lines.into_iter().map(plan).collect()
}

const USERS: Keys = Keys::Users(1000);
