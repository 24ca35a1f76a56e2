//! What a group believes and plans, for people who watch over the server.

use scheduler::Member;
use scheduler::conductor::GroupPlan;
use serde_json::{Value, json};

use super::Group;

impl Group {
    /// The plan in force with the numbers that led to it.
    pub(in crate::runtime) fn report(&self) -> Value {
        let conductor = self.lock();
        let beliefs = conductor.beliefs();
        let models: Vec<Value> = (self.names.iter().enumerate())
            .map(|(at, name)| {
                let member = Member(at);
                let law = beliefs.law(member);
                let routed: Vec<Value> = (0..self.names.len())
                    .filter(|to| *to != at)
                    .map(|to| json!({"to": self.names[to], "per_token": beliefs.share(member, Member(to))}))
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
            "mode": self.mode.name(),
            "journeys": conductor.journeys(),
            "overlap": beliefs.overlap().value(),
            "overlap_measured": beliefs.overlap().is_measured(),
            "models": models,
            "plan": conductor.plan().map(|plan| self.plan(plan)),
        })
    }

    fn plan(&self, plan: &GroupPlan) -> Value {
        let pairs: Vec<Value> = (plan.pairs.iter())
            .map(|(member, pair)| {
                json!({
                    "model": self.names[member.0],
                    "share": pair.pair.share,
                    "visit_tokens": pair.pair.visit_tokens,
                    "batch": pair.batch,
                    "reasons": pair.reasons.iter().map(ToString::to_string).collect::<Vec<_>>(),
                })
            })
            .collect();
        json!({
            "journeys": plan.journeys,
            "feeder": self.names[plan.feeder.0],
            "order": format!("{:?}", plan.order).to_lowercase(),
            "batch": plan.batch,
            "tokens_per_s": plan.tokens_per_s,
            "wait_max_ms": plan.wait_max_s * 1e3,
            "pairs": pairs,
        })
    }
}
