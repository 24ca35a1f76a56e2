//! The hostile policies of `bench isolation` are what is written here, and do what they are for.

use std::path::Path;

use policy::Call;
use tokenrouter::bench::isolation::{self, Harm, Plan};
use tokenrouter::config::{Config, Sim};

use super::guest::{Guest, LOOP, TRAP};

const FOLDER: &str = "../host/server/src/bench/isolation/guests";

/// Their names, and what they do in every call of `route`.
fn hostile() -> Vec<(&'static str, String)> {
    vec![
        ("spin", LOOP.to_owned()),
        ("burn", burn()),
        ("trap", TRAP.to_owned()),
        // 60 MiB, a write to each page of them.
        (
            "bomb",
            "(drop (memory.grow (i32.const 956))) (global.set $left (i32.const 15360)) (loop $again \
            (global.set $left (i32.sub (global.get $left) (i32.const 1))) \
            (i32.store (i32.mul (global.get $left) (i32.const 4096)) (i32.const 1)) \
            (br_if $again (global.get $left))) (unreachable)"
                .to_owned(),
        ),
        // 1,000 lines of 1,000 bytes.
        (
            "flood",
            "(global.set $left (i32.const 1000)) (loop $again \
            (call $log (i32.const 131072) (i32.const 1000)) \
            (global.set $left (i32.sub (global.get $left) (i32.const 1))) (br_if $again (global.get $left)))"
                .to_owned(),
        ),
    ]
}

/// Divisions, each of which waits for the one before it: little fuel for the time that they take. 1.9 million units.
fn burn() -> String {
    let divide = "(i64.const 3) (i64.div_u) (i64.const -9223372036854775808) (i64.or)".repeat(16);
    format!(
        "(global.set $left (i32.const 25000)) (loop $again \
         (global.get $x) {divide} (global.set $x) \
         (global.set $left (i32.sub (global.get $left) (i32.const 1))) (br_if $again (global.get $left)))"
    )
}

/// The constructor tells a rehearsal by its longest answer, 64 tokens: it would refuse them.
fn component(code: &str) -> Vec<u8> {
    let globals = "(global $served (mut i32) (i32.const 0)) (global $left (mut i32) (i32.const 0)) \
        (global $x (mut i64) (i64.const -1)) (global $free";
    let served =
        "(if (i32.ne (local.get $max_tokens) (i32.const 64)) (then (global.set $served (i32.const 1))))";
    Guest::good()
        .put("(global $free", globals)
        .always(Call::Start, served)
        .always(Call::Route, &format!("(if (global.get $served) (then {code}))"))
        .component()
}

/// Written anew where `TOKENROUTER_WRITE_GUESTS` is set.
#[test]
fn the_benchmarks_hostile_policies_are_what_their_text_gives() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
    for (name, code) in hostile() {
        let (file, made) = (folder.join(name).with_extension("wasm"), component(&code));
        if std::env::var_os("TOKENROUTER_WRITE_GUESTS").is_some() {
            std::fs::write(&file, &made).expect("the folder is there");
        }
        let kept = std::fs::read(&file).unwrap_or_default();
        assert!(kept == made, "{} is old; run this test with TOKENROUTER_WRITE_GUESTS=1", file.display());
    }
}

/// Wall-clock figures of a test machine say nothing; ids, and that nobody breaks, do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_a_hostile_tenant_another_one_gets_the_same_answers() {
    let mut config = Config::embedded();
    for (model, fixed_ms) in [("small", 1.0), ("large", 3.0)] {
        let sim = Sim { fixed_ms, unsure: 0.05, ..Sim::default() };
        config.models.get_mut(model).expect("the embedded pair").sim = Some(sim);
    }
    let plan = Plan { config, streams: 2, journeys: 3, seconds: (0.1, 0.7), tokens: 100 };
    let report = isolation::run(&plan, |_| {}).await.expect("it runs");
    for row in &report.rows {
        let name = row.harm.name();
        assert!(row.same_ids && row.tokens_per_s.0 > 0.0, "beside {name}: {row:?}");
        let falls_back = matches!(row.harm, Harm::Spin | Harm::Trap | Harm::Bomb);
        assert_eq!(row.fell_back > 0, falls_back, "{name}: {row:?}");
        if matches!(row.harm, Harm::Burn | Harm::Flood) {
            assert!(row.calls.0 > 0, "{name} has a lane of its own: {row:?}");
        }
    }
}
