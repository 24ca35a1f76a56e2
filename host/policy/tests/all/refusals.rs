//! Components that never serve: each is refused when it is loaded, with a message that says what to do.

use std::time::{Duration, Instant};

use policy::{Call, Fault, PolicyError};

use crate::guest::{FILL, Guest, HOARD, LOOP, RECURSE, SHOUT, TRAP};
use crate::support::{host, unmetered};

const CALLS: [Call; 5] = [Call::Describe, Call::Start, Call::Route, Call::Send, Call::Receive];

fn refusal(component: &[u8]) -> PolicyError {
    host().load(component).expect_err("this component must not serve")
}

/// The class of error and the message of a refusal.
fn refused(guest: &Guest) -> (&'static str, String) {
    let error = refusal(&guest.component());
    assert_eq!(error.fault(), Fault::Policy, "{error}");
    (error.cause(), error.to_string())
}

#[test]
fn a_good_guest_serves() {
    let revision = host().load(&Guest::good().component()).expect("the guest of these tests is good");
    assert_eq!(revision.descriptor().name, "guest");
    assert!(revision.descriptor().receives);
}

#[test]
fn bytes_of_another_kind_are_named() {
    let error = refusal(b"#!/bin/sh");
    assert!(matches!(error, PolicyError::NotWasm { bytes: 9, .. }), "{error}");
    assert!(error.to_string().contains("#!/bin/sh"), "{error}");
    assert!(matches!(refusal(b""), PolicyError::NotWasm { .. }));
    let error = refusal(&Guest::good().core());
    assert!(matches!(error, PolicyError::ModuleNotComponent), "{error}");
}

#[test]
fn a_damaged_component_does_not_compile() {
    let whole = Guest::good().component();
    let half = refusal(&whole[..whole.len() / 2]);
    assert!(matches!(half, PolicyError::Compile { .. }), "{half}");
}

#[test]
fn a_component_without_the_interface_is_told_what_is_missing() {
    let guest = Guest::module("(module (func (export \"nothing\")))")
        .wit("import host;", "")
        .wit("export policy;", "export nothing: func();");
    let (cause, message) = refused(&guest);
    assert_eq!(cause, "wrong_world");
    assert!(message.contains("does not export tokenrouter:policy/policy@0.1.0"), "{message}");
    assert!(message.contains("it exports nothing"), "{message}");
}

#[test]
fn a_missing_function_is_named() {
    let guest = Guest::good().put("session.receive", "session.obtain").wit("receive: func", "obtain: func");
    let (cause, message) = refused(&guest);
    assert_eq!(cause, "wrong_world");
    assert!(message.contains("lacks `[method]session.receive`"), "{message}");
}

#[test]
fn another_version_of_the_interface_is_refused() {
    let (cause, message) = refused(&Guest::good().everywhere("0.1.0", "0.0.9"));
    assert_eq!(cause, "wrong_world");
    assert!(message.contains("tokenrouter:policy/host@0.0.9"), "{message}");
    assert!(message.contains("build it against this server's wit/"), "{message}");
}

#[test]
fn a_function_of_another_type_is_refused() {
    let (cause, message) = refused(&Guest::good().wit("prompt-tokens: u32", "prompt-tokens: s32"));
    assert_eq!(cause, "wrong_world", "{message}");
}

#[test]
fn wasi_is_refused_with_how_to_build_without() {
    let guest = Guest::good()
        .wit("import host;", "import host; import wasi:random/random@0.2.0;")
        .dependency("package wasi:random@0.2.0; interface random { get-random-u64: func() -> u64; }")
        .put("@IMPORTS@", "(import \"wasi:random/random@0.2.0\" \"get-random-u64\" (func (result i64)))");
    let (cause, message) = refused(&guest);
    assert_eq!(cause, "wrong_world");
    assert!(message.contains("it imports wasi:random/random@0.2.0"), "{message}");
    assert!(message.contains("no_std"), "{message}");
}

#[test]
fn a_trap_in_any_call_refuses_the_component() {
    for call in CALLS {
        let (cause, message) = refused(&Guest::good().always(call, TRAP));
        assert_eq!(cause, "trap", "{message}");
        assert!(message.contains(&format!("calling `{call}`")), "{message}");
        assert!(message.contains("(at "), "a trap shows its frames: {message}");
    }
}

#[test]
fn a_loop_in_any_call_runs_out_of_fuel() {
    for call in CALLS {
        let (cause, message) = refused(&Guest::good().always(call, LOOP));
        assert_eq!(cause, "out_of_fuel", "{message}");
        assert!(message.contains(&format!("calling `{call}`")), "{message}");
    }
}

#[test]
fn a_loop_that_has_fuel_ends_at_the_deadline() {
    for (call, code) in CALLS.into_iter().zip([LOOP, LOOP, LOOP, FILL, LOOP]) {
        let component = Guest::good().always(call, code).component();
        let began = Instant::now();
        let error = unmetered().load(&component).expect_err("a loop must not serve");
        assert!(matches!(error, PolicyError::Deadline { call: at, .. } if at == call), "{error}");
        // The deadlines are 0.2 s and 0.5 s; the rest is compilation on a busy machine.
        assert!(began.elapsed() < Duration::from_secs(20), "stopped after {:?}", began.elapsed());
    }
}

#[test]
fn copied_bytes_cost_fuel() {
    let (cause, message) = refused(&Guest::good().always(Call::Route, FILL));
    assert_eq!(cause, "out_of_fuel", "{message}");
}

#[test]
fn memory_has_a_bound() {
    for call in [Call::Describe, Call::Route] {
        let error = refusal(&Guest::good().always(call, HOARD).component());
        let limit = host().limits().memory_bytes;
        let within = |wanted: usize| wanted > limit && wanted <= limit + (16 << 16);
        let named = matches!(error, PolicyError::OutOfMemory { call: at, wanted, .. } if at == call && within(wanted));
        assert!(named, "{error}");
    }
}

#[test]
fn a_memory_that_begins_above_the_bound_is_refused() {
    let error = refusal(&Guest::good().put("(export \"memory\") 4", "(export \"memory\") 2000").component());
    assert!(matches!(error, PolicyError::Compile { .. } | PolicyError::OutOfMemory { .. }), "{error}");
}

#[test]
fn a_table_above_the_bound_is_refused() {
    let error = refusal(
        &Guest::good()
            .put("@IMPORTS@", "")
            .put("(global $free", "(table 30000 funcref) (global $free")
            .component(),
    );
    assert!(matches!(error, PolicyError::Compile { .. }), "{error}");
}

#[test]
fn deep_recursion_is_a_trap() {
    let (cause, message) = refused(&Guest::good().always(Call::Route, RECURSE));
    assert_eq!(cause, "trap");
    assert!(message.contains("call stack exhausted"), "{message}");
}

#[test]
fn what_the_host_would_have_to_copy_has_a_bound() {
    let (cause, message) = refused(&Guest::good().always(Call::Route, SHOUT));
    assert_eq!(cause, "bad_answer", "{message}");
    assert!(message.contains("larger than 1048576 bytes"), "{message}");
    // The doc's length is 12 bytes into the descriptor.
    let long_doc = "(drop (memory.grow (i32.const 64))) (i32.store (i32.const 1036) (i32.const 2000000))";
    let (cause, message) = refused(&Guest::good().always(Call::Describe, long_doc));
    assert_eq!(cause, "bad_answer", "{message}");
    assert!(message.contains("larger than 1048576 bytes"), "{message}");
}

#[test]
fn answers_that_are_not_in_memory_are_refused() {
    let outside = "(i32.store (i32.const 1036) (i32.const 0x7fffffff))";
    assert_eq!(refused(&Guest::good().always(Call::Describe, outside)).0, "bad_answer");
    assert_eq!(refused(&Guest::good().always(Call::Route, "(return (i32.const -4))")).0, "bad_answer");
    assert_eq!(refused(&Guest::good().always(Call::Route, "(return (i32.const 17))")).0, "bad_answer");
}

#[test]
fn nonsense_is_refused_with_what_it_was() {
    let (cause, message) = refused(&Guest::good().always(Call::Route, "(return (i32.const 240))"));
    assert_eq!(cause, "bad_answer", "{message}");
    let (cause, message) = refused(&Guest::good().always(Call::Route, "(return (i32.const 192))"));
    assert_eq!(cause, "bad_answer");
    assert!(message.contains("role 7"), "{message}");
    let (cause, message) = refused(&Guest::good().always(Call::Route, "(return (i32.const 160))"));
    assert_eq!(cause, "bad_answer");
    assert!(message.contains("where the journey already is"), "{message}");
    let (cause, message) = refused(
        &Guest::good()
            .always(Call::Receive, "(i32.store (i32.const 260) (i32.const 1000)) (return (i32.const 256))"),
    );
    assert_eq!(cause, "bad_answer");
    assert!(message.contains("1000"), "{message}");
}

#[test]
fn a_descriptor_that_contradicts_itself_is_refused() {
    // The least number of models is 24 bytes into the descriptor.
    let (cause, message) =
        refused(&Guest::good().always(Call::Describe, "(i32.store (i32.const 1048) (i32.const 3))"));
    assert_eq!(cause, "bad_descriptor");
    assert!(message.contains("routes of 3 to 2 models"), "{message}");
}
