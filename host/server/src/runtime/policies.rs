//! Which policies decide, for those who watch over the server.

use std::time::{Duration, SystemTime};

use policy::{Descriptor, FailedLoad, Health, HealthState, PolicyFile, Revision};
use serde_json::{Value, json};

use super::catalog::{Catalog, Route};

/// The policy of every route: what it is, which revision serves and how it does.
pub(super) fn report(catalog: &Catalog) -> Value {
    let routes = catalog.routes.values().filter_map(|route| {
        let revision = route.policy_revision()?;
        Some(of_route(route, &revision))
    });
    json!({ "routes": routes.collect::<Vec<_>>() })
}

fn of_route(route: &Route, revision: &Revision) -> Value {
    let descriptor = revision.descriptor();
    json!({
        "route": route.name,
        "models": route.model_names,
        "fallback": route.model_names[route.fallback(Some(revision)).index()],
        "policy": descriptor.name,
        "doc": descriptor.doc,
        "parameters": parameters(route, descriptor),
        "revision": revision.digest().to_string(),
        "health": health(&revision.health()),
        "file": route.policy_file().map(file),
    })
}

fn parameters(route: &Route, descriptor: &Descriptor) -> Value {
    let set = route.settings_with(&Default::default());
    let parameter = |parameter: &policy::Parameter| {
        json!({
            "key": parameter.key,
            "value": set.get(&parameter.key).copied().unwrap_or(parameter.default),
            "default": parameter.default,
            "least": parameter.range.start(),
            "most": parameter.range.end(),
            "doc": parameter.doc,
        })
    };
    descriptor.parameters.iter().map(parameter).collect()
}

fn health(health: &Health) -> Value {
    let (state, retry_in) = match health.state {
        HealthState::Closed => ("serving", None),
        HealthState::Open { retry_in } => ("open", Some(retry_in.as_secs_f64())),
        HealthState::Probing => ("probing", None),
    };
    json!({
        "state": state,
        "since": seconds(health.since),
        "retry_in_s": retry_in,
        "calls": health.calls,
        "failures": health.failures,
        "last_error": health.last_error,
        "sessions_restored": health.sessions_restored,
        "sessions_restarted": health.sessions_restarted,
        "instances": health.instances,
        "tenants_apart": health.tenants_apart,
    })
}

fn file(file: &PolicyFile) -> Value {
    let status = file.status();
    let failed = |failed: &FailedLoad| {
        json!({
            "at": seconds(failed.at),
            "revision": failed.digest.map(|digest| digest.to_string()),
            "error": failed.error.to_string(),
        })
    };
    json!({
        "path": file.path().display().to_string(),
        "loads": status.loads,
        "failed": status.failed.as_ref().map(failed),
    })
}

/// Since 1970.
fn seconds(at: SystemTime) -> f64 {
    at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64()
}
