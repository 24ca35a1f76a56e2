//! What a group believes and plans, for people who watch over the server.

use std::sync::atomic::Ordering;

use scheduler::Member;
use scheduler::conductor::GroupPlan;
use scheduler::plan::Order;
use serde_json::{Value, json};

use super::Group;
use super::seats::{Seats, Sitting};
use crate::telemetry::{ModelGauges, SchedulingGauges};

impl Group {
    /// The numbers that a dashboard follows.
    pub(in crate::runtime) fn gauges(&self) -> SchedulingGauges {
        let seats = self.lock();
        let conductor = &seats.conductor;
        let (beliefs, plan) = (conductor.beliefs(), conductor.plan());
        let model = |(at, sitting): (usize, &Sitting)| {
            let law = beliefs.per_row(Member(at));
            ModelGauges {
                name: sitting.name.clone(),
                ready: conductor.ready(Member(at)),
                threshold: plan.map_or(1, |plan| plan.batch[at]),
                step_fixed_s: law.fixed_s,
                step_row_s: law.row_s,
                step_error: beliefs.fit_error(Member(at)).map(|error| [error.median, error.p90]),
            }
        };
        SchedulingGauges {
            plans: self.plans.load(Ordering::Relaxed),
            is_exclusive: plan.map(|plan| plan.order == Order::Exclusive),
            predicted_tokens_per_s: plan.and_then(|plan| plan.tokens_per_s),
            overlap: beliefs.overlap().value(),
            models: seats.sitting.iter().enumerate().map(model).collect(),
        }
    }

    /// The plan in force with the numbers that led to it.
    pub(in crate::runtime) fn report(&self) -> Value {
        let seats = self.lock();
        let conductor = &seats.conductor;
        let beliefs = conductor.beliefs();
        let models: Vec<Value> = (seats.sitting.iter().enumerate())
            .map(|(at, Sitting { name, .. })| {
                let member = Member(at);
                let law = beliefs.law(member);
                let routed: Vec<Value> = (0..seats.sitting.len())
                    .filter(|to| *to != at)
                    .map(|to| json!({"to": seats.sitting[to].name, "per_token": beliefs.share(member, Member(to))}))
                    .collect();
                json!({
                    "model": name,
                    "ready": conductor.ready(member),
                    "step": {
                        "fixed_ms": law.fixed_s * 1e3,
                        "row_ms": law.row_s * 1e3,
                        "token_ms": law.token_s * 1e3,
                        "context_token_ms": law.context_s * 1e3,
                    },
                    "step_error": beliefs.fit_error(member).map(|e| json!({"median": e.median, "p90": e.p90})),
                    "routed": routed,
                })
            })
            .collect();
        json!({
            "mode": seats.mode.name(),
            "journeys": conductor.journeys(),
            "slo_tpot_ms": conductor.bounds().tpot_s.map(|s| s * 1e3),
            "slo_itl_ms": conductor.bounds().itl_s.map(|s| s * 1e3),
            "overlap": beliefs.overlap().value(),
            "overlap_measured": beliefs.overlap().is_measured(),
            "switch_ms": beliefs.switch_s() * 1e3,
            "models": models,
            "plan": conductor.plan().map(|plan| seats.describe(plan)),
        })
    }
}

impl Seats {
    fn describe(&self, plan: &GroupPlan) -> Value {
        let pairs: Vec<Value> = (plan.pairs.iter())
            .map(|(member, pair)| {
                json!({
                    "model": self.sitting[member.0].name,
                    "share": pair.pair.share,
                    "visit_tokens": pair.pair.visit_tokens,
                    "batch": pair.batch,
                    "reasons": pair.reasons.iter().map(ToString::to_string).collect::<Vec<_>>(),
                })
            })
            .collect();
        json!({
            "journeys": plan.journeys,
            "feeder": self.sitting[plan.feeder.0].name,
            "order": format!("{:?}", plan.order).to_lowercase(),
            "batch": plan.batch,
            "tokens_per_s": plan.tokens_per_s,
            "wait_max_ms": plan.wait_max_s * 1e3,
            "pairs": pairs,
        })
    }
}
