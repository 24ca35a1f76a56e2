//! Compiling in a child process.

use std::time::{Duration, Instant};

use policy::{Call, ChildLimits, Compilations, Fault, Limits, PolicyError, PolicyHost};

use crate::guest::Guest;

fn limits() -> Limits {
    Limits { sessions: 4, ..Limits::default() }
}

pub(crate) fn an_upload_is_compiled_elsewhere_and_serves() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = PolicyHost::with_cache(limits(), &folder.path().join("cache")).expect("a host");
    let component = Guest::good().component();
    let revision = host.load_in_child(&component, &ChildLimits::default()).expect("it serves");
    assert_eq!(revision.descriptor().name, "guest");
    host.load(&component).expect("it serves from the cache");
    assert_eq!(host.compilations(), Compilations { compiled: 1, recalled: 1 });
}

pub(crate) fn what_is_no_component_is_refused_with_the_reason() {
    let host = PolicyHost::new(limits()).expect("a host");
    let load = |bytes: &[u8]| host.load_in_child(bytes, &ChildLimits::default()).expect_err("it is damaged");
    let whole = Guest::good().component();
    let half = load(&whole[..whole.len() / 2]);
    assert!(matches!(half, PolicyError::Compile { .. }), "{half}");
    let reason = std::error::Error::source(&half).map(ToString::to_string).unwrap_or_default();
    assert!(reason.contains("unexpected end"), "{reason}");
    let text = load(b"#!/bin/sh");
    assert!(matches!(text, PolicyError::NotWasm { .. }), "{text}");
}

pub(crate) fn too_much_memory_ends_the_child() {
    let host = PolicyHost::new(limits()).expect("a host");
    let limits = ChildLimits { memory_bytes: 150 << 20, ..ChildLimits::default() };
    let error = host.load_in_child(&laborious(&[Call::Send]), &limits).expect_err("it is too large");
    assert!(matches!(error, PolicyError::CompileBounds { .. }), "{error}");
    assert!(error.to_string().contains("needs more than 157286400 bytes"), "{error}");
    assert_eq!(error.fault(), Fault::Policy);
}

pub(crate) fn too_much_time_ends_the_child() {
    let host = PolicyHost::new(limits()).expect("a host");
    let began = Instant::now();
    let limits = ChildLimits { seconds: 1, ..ChildLimits::default() };
    let component = laborious(&[Call::Describe, Call::Route, Call::Send, Call::Receive, Call::End]);
    let error = host.load_in_child(&component, &limits).expect_err("it takes longer");
    assert!(error.to_string().contains("longer than 1 s"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(30), "ended after {:?}", began.elapsed());
}

/// A component that is small to send and long to compile: functions with very many values alive at the same time.
fn laborious(calls: &[Call]) -> Vec<u8> {
    let load = "(i32.load (i32.const 8)) (i32.load (i32.const 16)) ";
    let body =
        format!("(drop (block (result i32) {} {})) ", load.repeat(150_000), "(i32.xor) ".repeat(299_999));
    calls.iter().fold(Guest::good(), |guest, call| guest.always(*call, &body)).component()
}
