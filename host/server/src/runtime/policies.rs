//! Which policies decide, for those who watch over the server.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use policy::lane::Reason;
use policy::{Descriptor, FailedLoad, Health, HealthState, Lane, LaneHealth, PolicyFile, Revision};
use serde_json::{Value, json};

use super::catalog::{Catalog, Route};
use crate::telemetry::{PolicyGauges, RevisionGauges, RouteGauges};
use crate::unix;

/// The policy of every route: what it is, which revision serves and how it does.
pub(super) fn report(catalog: &Catalog) -> Value {
    let routes = catalog.served().filter_map(|(tenant, route)| {
        let revision = route.policy_revision()?;
        let mut told = of_route(route, &revision);
        if let Some(tenant) = tenant {
            told["tenant"] = json!(tenant);
        }
        Some(told)
    });
    json!({ "routes": routes.collect::<Vec<_>>() })
}

/// The numbers that a dashboard follows.
pub(super) fn gauges(catalog: &Catalog) -> PolicyGauges {
    let mut revisions = BTreeMap::new();
    let mut routes = Vec::new();
    // Arms decide too; the routes that they serve are named once.
    for serving in catalog.serving().filter_map(|route| route.policy_revision()) {
        // A built-in policy decides for many routes, and its calls are counted once.
        revisions.entry(serving.digest()).or_insert_with(|| RevisionGauges {
            policy: serving.descriptor().name.clone(),
            revision: serving.digest().to_string(),
            health: serving.health(),
        });
    }
    for (tenant, route) in catalog.served() {
        let Some(serving) = route.policy_revision() else { continue };
        let (policy, revision) = (serving.descriptor().name.clone(), serving.digest().to_string());
        let file = route.policy_file().map(|file| {
            let status = file.status();
            (status.loads, status.failed.is_some())
        });
        routes.push(RouteGauges { route: label(tenant, route), policy, revision, file });
    }
    let compilations = catalog.host.as_ref().map(|host| host.compilations()).unwrap_or_default();
    PolicyGauges { revisions: revisions.into_values().collect(), routes, compilations }
}

/// A route among all that are served: tenants may call theirs alike.
fn label(tenant: Option<&str>, route: &Route) -> String {
    tenant.map_or_else(|| route.name.clone(), |tenant| format!("{tenant}:{}", route.name))
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
        "since": unix::seconds(health.since),
        "retry_in_s": retry_in,
        "calls": health.calls,
        "failures": health.failures,
        "failures_by_cause": health.failures_by_cause,
        "fallbacks": health.fallbacks,
        "last_error": health.last_error,
        "sessions_restored": health.sessions_restored,
        "sessions_restarted": health.sessions_restarted,
        "instances": health.instances,
        "tenants_apart": health.tenants_apart,
        "lane": lane(&health.lane),
    })
}

fn lane(health: &LaneHealth) -> Value {
    let since = |(_, since): &(Reason, SystemTime)| unix::seconds(*since);
    let why = |(reason, _): &(Reason, SystemTime)| why(reason);
    json!({
        "lane": if health.lane == Lane::Own { "own" } else { "in-step" },
        "since": health.away.as_ref().map(since),
        "why": health.away.as_ref().map(why),
        "slow_tenants": health.tenants,
        "slow_tenant_since": health.tenant_away.as_ref().map(since),
        "slow_tenant_why": health.tenant_away.as_ref().map(why),
        "calls": health.calls,
        "call_seconds": health.call_time.as_secs_f64(),
    })
}

fn why(reason: &Reason) -> String {
    let us = |time: &Duration| time.as_micros();
    match reason {
        Reason::Always => "sandbox.in_step_us is 0".to_owned(),
        Reason::Rehearsal(time) => format!("calls of its rehearsal took {} us", us(time)),
        Reason::Call(cost) => {
            format!("a call took {} us and {} KiB of memory", us(&cost.time), cost.grown >> 10)
        }
        Reason::Repeated(time) => format!("several calls were too slow, the last took {} us", us(time)),
        Reason::Tenants => "several tenants were slow".to_owned(),
    }
}

fn file(file: &PolicyFile) -> Value {
    let status = file.status();
    let failed = |failed: &FailedLoad| {
        json!({
            "at": unix::seconds(failed.at),
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
