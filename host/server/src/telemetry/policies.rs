//! How policies do, as counters and gauges.
//!
//! A series for each revision that serves a route now, so there are never more of them than routes; a revision that was
//! replaced ends with its last journey, and its series with it. `policy_info` says which route a revision serves.

use policy::{Compilations, Health, HealthState, Lane};

use super::page::{Family, Page};

/// A snapshot of all policies.
#[derive(Clone, Debug, Default)]
pub struct PolicyGauges {
    /// Every revision that serves, once.
    pub revisions: Vec<RevisionGauges>,
    /// Which route is decided by which.
    pub routes: Vec<RouteGauges>,
    /// How components were had so far.
    pub compilations: Compilations,
}

/// One revision.
#[derive(Clone, Debug)]
pub struct RevisionGauges {
    /// The policy's name.
    pub policy: String,
    /// The revision's digest.
    pub revision: String,
    /// How it does.
    pub health: Health,
}

/// A route that a policy decides.
#[derive(Clone, Debug)]
pub struct RouteGauges {
    /// The route's name.
    pub route: String,
    /// The policy's name.
    pub policy: String,
    /// The revision's digest.
    pub revision: String,
    /// Of a watched file: revisions that have served, and whether its content does not serve now.
    pub file: Option<(u64, bool)>,
}

impl PolicyGauges {
    /// Adds them to a page.
    pub(super) fn render(&self, page: &mut Page) {
        page.single(&COMPILED, self.compilations.compiled);
        page.single(&RECALLED, self.compilations.recalled);
        self.render_routes(page);
        self.counter(page, &CALLS, |health| health.calls);
        self.counter(page, &LANE_CALLS, |health| health.lane.calls);
        page.head(&CALL_TIME);
        for of in &self.revisions {
            page.value(&CALL_TIME, &of.labels(""), of.health.lane.call_time.as_secs_f64());
        }
        page.head(&FAILURES);
        for of in &self.revisions {
            for (cause, count) in &of.health.failures_by_cause {
                page.value(&FAILURES, &of.labels(&format!(",cause={cause:?}")), count);
            }
        }
        self.counter(page, &FALLBACKS, |health| health.fallbacks);
        self.counter(page, &RESTORED, |health| health.sessions_restored);
        self.counter(page, &RESTARTED, |health| health.sessions_restarted);
        self.counter(page, &BREAKER, |health| match health.state {
            HealthState::Closed => 0,
            HealthState::Probing => 1,
            HealthState::Open { .. } => 2,
        });
        self.counter(page, &LANE, |health| u64::from(health.lane.lane == Lane::Own));
        self.counter(page, &LANE_TENANTS, |health| health.lane.tenants as u64);
        self.counter(page, &INSTANCES, |health| health.instances as u64);
        self.counter(page, &APART, |health| health.tenants_apart as u64);
    }

    fn render_routes(&self, page: &mut Page) {
        page.head(&INFO);
        for RouteGauges { route, policy, revision, .. } in &self.routes {
            let labels = format!("{{route={route:?},policy={policy:?},revision={revision:?}}}");
            page.value(&INFO, &labels, 1);
        }
        let files =
            || self.routes.iter().filter_map(|of| Some((format!("{{route={:?}}}", of.route), of.file?)));
        page.head(&FILE_LOADS);
        files().for_each(|(labels, (loads, _))| page.value(&FILE_LOADS, &labels, loads));
        page.head(&FILE_FAILED);
        files().for_each(|(labels, (_, failed))| page.value(&FILE_FAILED, &labels, u8::from(failed)));
    }

    fn counter(&self, page: &mut Page, family: &Family, read: impl Fn(&Health) -> u64) {
        page.head(family);
        for of in &self.revisions {
            page.value(family, &of.labels(""), read(&of.health));
        }
    }
}

impl RevisionGauges {
    fn labels(&self, more: &str) -> String {
        format!("{{policy={:?},revision={:?}{more}}}", self.policy, self.revision)
    }
}

const COMPILED: Family = Family::counter("policy_compilations_total", "Policies that were compiled.");
const RECALLED: Family = Family::counter("policy_cached_loads_total", "Policies that were found compiled.");
const INFO: Family = Family::gauge("policy_info", "1 for the revision that decides for a route now.");
const FILE_LOADS: Family =
    Family::counter("policy_file_loads_total", "Revisions of a watched file that have served.");
const FILE_FAILED: Family =
    Family::gauge("policy_file_failed", "1 where the content of a watched file does not serve.");
const CALLS: Family = Family::counter("policy_calls_total", "Calls of a policy that succeeded.");
const LANE_CALLS: Family = Family::counter("policy_lane_calls_total", "Calls made outside of steps.");
const CALL_TIME: Family = Family::counter(
    "policy_call_seconds_total",
    "Time of all calls, failed ones and what their threads had to wait included.",
);
const FAILURES: Family =
    Family::counter("policy_session_failures_total", "Sessions that a policy failed, by cause.");
const FALLBACKS: Family = Family::counter(
    "policy_fallbacks_total",
    "Journeys that went on without the policy that they began with.",
);
const RESTORED: Family =
    Family::counter("policy_sessions_restored_total", "Sessions that went on in another instance.");
const RESTARTED: Family =
    Family::counter("policy_sessions_restarted_total", "Sessions that began anew in another instance.");
const BREAKER: Family =
    Family::gauge("policy_breaker_state", "0 while sessions begin, 1 while one probes, 2 while none does.");
const LANE: Family = Family::gauge("policy_lane", "1 while every call is made outside of steps.");
const LANE_TENANTS: Family = Family::gauge("policy_lane_tenants", "Tenants that are slow by themselves.");
const INSTANCES: Family =
    Family::gauge("policy_instances", "Instances that sessions share or wait for sessions.");
const APART: Family = Family::gauge(
    "policy_tenants_apart",
    "Tenants whose sessions have instances of their own after failures.",
);
