//! On whose behalf a request runs: whoever uses one API key is one tenant.
//!
//! Keys are not checked; any key, or none, is served. They keep tenants apart: steps are shared evenly between them, and
//! nobody finds the beginnings of another's prompts in the prefix cache, not even by timing.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use scheduler::Tenant;
use sha2::{Digest, Sha256};

/// The tenant of a request; all without a key are one.
pub(super) fn tenant(headers: &HeaderMap) -> Tenant {
    let key = headers.get(AUTHORIZATION).and_then(|value| {
        let value = value.as_bytes();
        let (scheme, key) = value.split_at_checked(BEARER.len())?;
        scheme.eq_ignore_ascii_case(BEARER).then(|| key.trim_ascii())
    });
    match key.filter(|key| !key.is_empty()) {
        None => Tenant::default(),
        // Of a digest, so that nobody can choose a key that meets another's.
        Some(key) => {
            Tenant(u64::from_le_bytes(Sha256::digest(key)[..8].try_into().expect("a digest has 32 bytes")))
        }
    }
}

const BEARER: &[u8] = b"Bearer ";

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Tenant {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        tenant(&headers)
    }

    #[test]
    fn one_key_is_one_tenant_however_it_is_sent() {
        assert_eq!(of("Bearer a"), of("bearer  a "));
        assert_ne!(of("Bearer a"), of("Bearer b"));
        assert_ne!(of("Bearer a"), Tenant::default());
        for nobody in ["Bearer ", "Basic YTpi", "Bear", ""] {
            assert_eq!(of(nobody), Tenant::default(), "{nobody:?}");
        }
        assert_eq!(tenant(&HeaderMap::new()), Tenant::default());
    }
}
