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
    /// Most bytes of keys and values.
    pub kv: u64,
}

impl Need {
    /// Of a model that may take `kv_bytes` for the keys and values of at most `journeys`.
    #[must_use]
    pub fn new(model: &str, spec: &ModelSpec, kv: KvType, (kv_bytes, journeys): (u64, u64)) -> Self {
        let full = spec.kv_bytes_per_token(kv).saturating_mul(spec.context as u64).saturating_mul(journeys);
        Self { model: model.to_owned(), weights: spec.weight_bytes, kv: kv_bytes.min(full) }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, weights, kv } = self;
        write!(f, "{model:?} {} of weights and {} of KV", size(*weights), size(*kv))
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

/// Whether all of them fit into `available` bytes.
///
/// # Errors
/// [`MemoryError`], with the numbers.
pub fn check_memory(needs: &[Need], available: u64) -> Result<(), MemoryError> {
    let needed =
        needs.iter().fold(0u64, |sum, need| sum.saturating_add(need.weights).saturating_add(need.kv));
    if needed <= available {
        return Ok(());
    }
    let models = needs.iter().map(Need::to_string).collect::<Vec<_>>().join(", ");
    Err(MemoryError { needed, available, models })
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

    #[test]
    fn a_refusal_names_every_number_and_the_ways_out() {
        let needs = [
            Need { model: "small".to_owned(), weights: 1 << 30, kv: 512 << 20 },
            Need { model: "large".to_owned(), weights: 3 << 30, kv: 1 << 30 },
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
    fn no_more_kv_is_counted_than_full_contexts_can_take() {
        let files = engine::ModelFiles::Embedded { name: "small", files: tinypair::models::SMALL.files };
        let spec = engine::inspect(&files).expect("embedded");
        let full = spec.kv_bytes_per_token(KvType::F32) * spec.context as u64;
        assert_eq!(Need::new("small", &spec, KvType::F32, (1 << 40, 3)).kv, 3 * full);
        assert_eq!(Need::new("small", &spec, KvType::F32, (1000, 3)).kv, 1000);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available_memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}
