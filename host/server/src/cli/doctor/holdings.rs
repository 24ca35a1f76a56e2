//! What the binary and the configuration hold: policies and models.

use std::time::Instant;

use super::Finding;
use crate::config::Config;
use crate::runtime::{Catalog, Model, builtin_policies, policy_host};

/// Every built-in policy compiles and passes its rehearsal.
pub(super) fn policies(config: &Config) -> Vec<Finding> {
    let host = match policy_host(config) {
        Ok(host) => host,
        Err(error) => return vec![Finding::fail("sandbox", error.to_string())],
    };
    let check = |(name, component): (&str, &[u8])| {
        let begun = Instant::now();
        let what = format!("policy {name}");
        match host.load(component) {
            Ok(revision) => {
                let ms = begun.elapsed().as_secs_f64() * 1e3;
                Finding::ok(what, format!("revision {} compiled in {ms:.0} ms", revision.digest()))
            }
            Err(error) => Finding::fail(what, error.to_string()),
        }
    };
    builtin_policies().into_iter().map(check).collect()
}

/// What the chat template of each model lacks.
pub(super) fn templates(catalog: &Catalog) -> Vec<Finding> {
    let of = |model: &Model| {
        let (what, notes) = (format!("template of {}", model.name), model.tokenizer.template_notes());
        match notes.as_slice() {
            [] => Finding::ok(what, "takes a system's messages and tools"),
            // Without tools a chat is a chat.
            notes if notes.iter().all(|note| note.contains("tools")) => Finding::ok(what, notes.join("; ")),
            notes => Finding::warn(what, notes.join("; ")),
        }
    };
    catalog.models.values().map(|model| of(model)).collect()
}

pub(super) fn loaded(catalog: &Catalog) -> Finding {
    let models: Vec<&str> = catalog.models.values().map(|model| model.name.as_str()).collect();
    Finding::ok(
        "models and routes",
        format!("{} and {} routes loaded", models.join(", "), catalog.routes.len()),
    )
}
