//! Policies that misbehave in the middle of an answer: every journey answers, says that it fell back and why, and no
//! other one notices.
//!
//! Each guest behaves for 20 tokens, longer than the rehearsal that would refuse it, and up to there it keeps every
//! token at the entry model. What it does then must not change the answer: the fallback is the model where it is, so the
//! answer is that of the entry model alone.

use std::fs;
use std::path::Path;

use e2e::Server;
use policy::Call;
use serde_json::Value;

use super::guest::{FILL, Guest, HOARD, LOOP, RECURSE, SHOUT, TRAP, answer, words};
use super::questions;

/// A name, a guest, and what the trace says of its fault.
fn failing() -> Vec<(&'static str, Guest, &'static str)> {
    let late_in = |code: &str| Guest::good().always(Call::Route, &late(code));
    let visit = answer(&[1, 1, 1, 0, 0]);
    vec![
        ("trap", late_in(TRAP), "it trapped"),
        ("loop", late_in(LOOP), "used up its"),
        ("fill", late_in(FILL), "used up its"),
        ("memory", late_in(HOARD), "bytes of memory"),
        ("stack", late_in(RECURSE), "call stack exhausted"),
        ("shout", late_in(SHOUT), "larger than"),
        ("send", late_in(&visit).always(Call::Send, TRAP_LATE), "calling `send`"),
        ("no-such-model", late_in(&answer(&[1, 7, 1, 0, 0])), "role 7"),
        ("same-model", late_in(&answer(&[1, 0, 1, 0, 0])), "where the journey already is"),
        ("no-such-decision", late_in(&answer(&[9])), "cannot be followed"),
        ("drops-what-was-seen", late_in(&answer(&[5, 1, 1000, 0, 0, 0, 0, 0])), "held back"),
        ("mixes-without", late_in(&mixture()), "distributions are not there"),
        ("adopts-nothing", late_in(&answer(&[6, 0, 0, 5, 0])), "not among the answers"),
        ("consults-for-ever", late_in(&question()), "without a committed token"),
        ("asks-nobody", late_in(&answer(&[3, 0, 0, 0, 0, 1, 0, 5])), "names no model"),
    ]
}

/// Code of `route` that runs from the 21st token of an answer on: later than any rehearsal.
fn late(code: &str) -> String {
    format!("(if (i32.ge_u (local.get $index) (i32.const 20)) (then {code}))")
}

/// The whole weight to the entry model.
fn mixture() -> String {
    words(8192, &[0, 0x3F80_0000]) + &answer(&[4, 0, 8192, 1, 0, 0, 0])
}

/// The five candidates of the second model, after the held token.
fn question() -> String {
    words(8192, &[1]) + &answer(&[3, 8192, 1, 0, 0, 1, 0, 5])
}

/// The rehearsal hands off, too, before it comes to any token that is late: the constructor tells them apart by the
/// longest answer, 64 tokens there.
const TRAP_LATE: &str = "(if (global.get $served) (then (unreachable)))";

fn served(guest: Guest) -> Guest {
    guest.put("(global $free", "(global $served (mut i32) (i32.const 0)) (global $free").always(
        Call::Start,
        "(if (i32.ne (local.get $max_tokens) (i32.const 64)) (then (global.set $served (i32.const 1))))",
    )
}

/// A server with a route of the embedded pair for each guest, and a healthy one.
fn serve(folder: &Path, guests: &[(&str, Guest)]) -> Server {
    let mut config =
        "[models.small]\nfiles = \"embedded:small\"\n[models.large]\nfiles = \"embedded:large\"\n\
        [routes.healthy]\nmodels = [\"small\", \"large\"]\npolicy = \"builtin:entropy\"\n"
            .to_owned();
    for (name, guest) in guests {
        let file = folder.join(name).with_extension("wasm");
        fs::write(&file, served(guest.clone()).component()).expect("the folder is ours");
        config += &format!(
            "[routes.{name}]\nmodels = [\"small\", \"large\"]\npolicy = {:?}\n",
            file.display().to_string()
        );
    }
    Server::start(&config)
}

async fn traced(server: &Server, model: &str) -> Value {
    let answer = questions::traced(server, model, 0).await;
    assert!(["stop", "length"].contains(&answer["choices"][0]["finish_reason"].as_str().expect("a reason")));
    answer
}

#[tokio::test]
async fn every_journey_answers_and_says_that_it_fell_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let failing = failing();
    let guests: Vec<(&str, Guest)> = failing.iter().map(|(name, guest, _)| (*name, guest.clone())).collect();
    let server = serve(folder.path(), &guests);
    let alone = traced(&server, "small").await;
    let tokens = alone["usage"]["completion_tokens"].as_u64().expect("a number");
    assert!(tokens > 25, "the answer is long enough for the guests to misbehave: {tokens} tokens");
    let healthy = traced(&server, "healthy").await;
    for (name, _, why) in &failing {
        let (answer, beside) = tokio::join!(traced(&server, name), traced(&server, "healthy"));
        let fell_back = answer["route_trace"]["fell_back"].as_str().unwrap_or("nothing");
        assert!(fell_back.contains(why), "{name} fell back for {fell_back:?}, not {why:?}");
        assert_eq!(answer["choices"], alone["choices"], "{name}");
        assert_eq!(beside["choices"], healthy["choices"], "beside {name}");
        assert_eq!(beside["route_trace"]["fell_back"], Value::Null, "beside {name}");
    }
}

#[tokio::test]
async fn a_draft_cannot_be_judged_by_distributions_that_were_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    // `verify` by `rejection`.
    let guest = Guest::good()
        .always(Call::Route, &late(&answer(&[1, 1, 3, 0, 0])))
        .always(Call::Receive, &answer(&[1, 1, 0, 0, 9]));
    let server = serve(folder.path(), &[("judges", guest)]);
    let answer = traced(&server, "judges").await;
    let fell_back = answer["route_trace"]["fell_back"].as_str().unwrap_or("nothing");
    assert!(fell_back.contains("distributions are not there"), "{fell_back}");
}

/// Hands off at every token, wherever it is.
fn flip_flop() -> Guest {
    let both = words(8192, &[1, 1, 0, 0, 0]) + &words(8256, &[1, 0, 0, 0, 0]);
    let there = "(return (select (i32.const 8192) (i32.const 8256) (i32.eqz (local.get $role))))";
    Guest::good().always(Call::Route, &(both + there))
}

#[tokio::test]
async fn flip_flop_at_every_token_ends_in_progress_or_in_the_fallback() {
    let folder = tempfile::tempdir().expect("a folder");
    let keeps = flip_flop().always(Call::Send, "(return (i32.const 1))");
    let server = serve(folder.path(), &[("drops", flip_flop()), ("keeps", keeps)]);
    let (dropping, keeping) = tokio::join!(traced(&server, "drops"), traced(&server, "keeps"));
    let fell_back = dropping["route_trace"]["fell_back"].as_str().unwrap_or("nothing");
    assert!(fell_back.contains("without a committed token"), "{fell_back}");
    // Each handoff committed a token, so both models took turns to the end.
    assert_eq!(keeping["route_trace"]["fell_back"], Value::Null);
    let by = |answer: &Value| -> Vec<String> {
        let tokens = answer["route_trace"]["tokens"].as_array().expect("tokens").iter();
        tokens.map(|token| token["model"].as_str().expect("a name").to_owned()).collect()
    };
    let speakers = by(&keeping);
    assert!(speakers.windows(2).all(|pair| pair[0] != pair[1]), "{speakers:?}");
}
