//! Whether models fit into memory, before any of them is loaded.

use std::fmt;

use engine::{KvType, ModelSpec};

use crate::terminal::size;

/// What one model needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The model's name.
    pub model: String,
    /// Bytes of weights.
    pub weights: u64,
    /// Bytes of the keys and values of one token.
    pub token: u64,
    /// Bytes of the keys and values of one full context: with less, some requests could never be answered.
    pub least: u64,
    /// Most bytes of keys and values that can be used: full contexts of all journeys.
    pub most: u64,
    /// Bytes of keys and values that the configuration allows; `None` leaves it to the budget.
    pub named: Option<u64>,
}

impl Need {
    /// Of a model that may take `named` bytes for the keys and values of at most `journeys`.
    #[must_use]
    pub fn new(model: &str, spec: &ModelSpec, kv: KvType, (named, journeys): (Option<u64>, u64)) -> Self {
        let token = spec.kv_bytes_per_token(kv);
        let least = token.saturating_mul(spec.context as u64);
        let most = least.saturating_mul(journeys);
        Self { model: model.to_owned(), weights: spec.weight_bytes, token, least, most, named }
    }

    /// Bytes of keys and values without which it is not loaded.
    fn kv(&self) -> u64 {
        self.named.map_or(self.least, |named| named.min(self.most))
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, weights, .. } = self;
        write!(f, "{model:?} {} of weights and {} of KV", size(*weights), size(self.kv()))
    }
}

/// Models that do not fit.
#[derive(Debug, thiserror::Error)]
#[error(
    "the models need {} of memory ({models}), but {} are available: lower kv_mib under [models.NAME], take smaller or \
     more strongly quantised weights, or set memory_check = false under [server] to load them all the same",
    size(*needed), size(*available)
)]
pub struct MemoryError {
    /// Bytes that all models need.
    pub needed: u64,
    /// Bytes that the machine has.
    pub available: u64,
    /// The needs of each.
    pub models: String,
}

/// Whether all of them fit into `available` bytes, those without a bound with the KV of one full context.
///
/// # Errors
/// [`MemoryError`], with the numbers.
pub fn check_memory(needs: &[Need], available: u64) -> Result<(), MemoryError> {
    let needed =
        needs.iter().fold(0u64, |sum, need| sum.saturating_add(need.weights).saturating_add(need.kv()));
    if needed <= available {
        return Ok(());
    }
    let models = needs.iter().map(Need::to_string).collect::<Vec<_>>().join(", ");
    Err(MemoryError { needed, available, models })
}

/// Bytes of keys and values for each model.
///
/// Half of what weights and named bounds leave of `available` is shared by the other models in proportion to what a token
/// takes in each, as a journey between them has its tokens in all; nobody gets less than one full context, or more than
/// can be used. The other half stays free for everything else on the machine.
#[must_use]
pub fn kv_budget(needs: &[Need], available: u64) -> Vec<u64> {
    let taken = needs.iter().fold(0u64, |sum, need| {
        sum.saturating_add(need.weights).saturating_add(need.named.map_or(0, |_| need.kv()))
    });
    let shared = available.saturating_sub(taken) / 2;
    let per_token: u64 = needs.iter().filter(|need| need.named.is_none()).map(|need| need.token).sum();
    let tokens = shared / per_token.max(1);
    let budget = |need: &Need| match need.named {
        Some(named) => named,
        None => need.token.saturating_mul(tokens).clamp(need.least, need.most.max(need.least)),
    };
    needs.iter().map(budget).collect()
}

/// Bytes that this process may still take: what the system says is available, or what its control group has left.
/// `None` where neither can be found out.
#[must_use]
pub fn available_memory() -> Option<u64> {
    let mut system = sysinfo::System::new().ok()?;
    system.refresh_memory();
    let free = system.available_memory();
    // Not what a group says is free: it counts cached files as used, which give way.
    let limit =
        system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory.saturating_sub(limits.rss));
    Some(free.min(limit)).filter(|available| *available > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of `weights` and `token` bytes, with contexts of a thousand tokens, for ten journeys.
    fn need(model: &str, weights: u64, token: u64, named: Option<u64>) -> Need {
        let least = token * 1000;
        Need { model: model.to_owned(), weights, token, least, most: 10 * least, named }
    }

    #[test]
    fn a_refusal_names_every_number_and_the_ways_out() {
        let needs = [
            need("small", 1 << 30, 1 << 20, Some(512 << 20)),
            need("large", 3 << 30, 1 << 20, Some(1 << 30)),
        ];
        assert!(check_memory(&needs, 11 << 29).is_ok());
        let refused = check_memory(&needs, 2 << 30).expect_err("too little").to_string();
        for part in
            ["5.5 GiB", "2.0 GiB", "\"small\" 1.0 GiB of weights and 512.0 MiB", "kv_mib", "memory_check"]
        {
            assert!(refused.contains(part), "{part:?} is missing in {refused:?}");
        }
    }

    #[test]
    fn models_share_what_is_left_so_that_each_holds_as_many_tokens() {
        let needs = [need("small", 1000, 1, None), need("large", 3000, 4, None)];
        // 4000 for weights, half of the rest for KV: 2000 tokens in each.
        assert_eq!(kv_budget(&needs, 24_000), [2000, 8000]);
        assert_eq!(kv_budget(&needs, 0), [1000, 4000], "one full context at least");
        assert_eq!(kv_budget(&needs, 1 << 40), [10_000, 40_000], "no more than can be used");
        let named = [needs[0].clone(), need("large", 3000, 4, Some(5000))];
        assert_eq!(kv_budget(&named, 15_000), [3000, 5000]);
        assert!(check_memory(&needs, 9000).is_ok());
        assert!(check_memory(&needs, 8999).is_err());
    }

    #[test]
    fn no_more_kv_is_counted_than_full_contexts_can_take() {
        let files = engine::ModelFiles::Embedded { name: "small", files: tinypair::models::SMALL.files };
        let spec = engine::inspect(&files).expect("embedded");
        let full = spec.kv_bytes_per_token(KvType::F32) * spec.context as u64;
        assert_eq!(Need::new("small", &spec, KvType::F32, (Some(1 << 40), 3)).kv(), 3 * full);
        assert_eq!(Need::new("small", &spec, KvType::F32, (Some(1000), 3)).kv(), 1000);
        assert_eq!(Need::new("small", &spec, KvType::F32, (None, 3)).kv(), full);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
