//! The key that a request brings, and who it is where keys are not checked.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use scheduler::Tenant;
use sha2::{Digest, Sha256};

/// What follows `Bearer` in the request's `Authorization`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, key) = value.split_at_checked(BEARER.len())?;
    let key = key.trim_ascii();
    (scheme.eq_ignore_ascii_case(BEARER) && !key.is_empty()).then_some(key)
}

/// The tenant of a request on a server without `[tenants]`: any key, or none, is served, whoever sends one key is one tenant,
/// and all without a key are one.
pub(super) fn unchecked(headers: &HeaderMap) -> Tenant {
    // Of a digest, so that nobody can choose a key that meets another's.
    bearer(headers).map_or_else(Tenant::default, |key| identity(&Sha256::digest(key)))
}

/// The beginning of a digest as the scheduler and the prefix cache name a tenant.
pub(super) fn identity(digest: &[u8]) -> Tenant {
    Tenant(u64::from_le_bytes(digest[..8].try_into().expect("a digest has 32 bytes")))
}

const BEARER: &[u8] = b"Bearer ";

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Tenant {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        unchecked(&headers)
    }

    #[test]
    fn one_key_is_one_tenant_however_it_is_sent() {
        assert_eq!(of("Bearer a"), of("bearer  a "));
        assert_ne!(of("Bearer a"), of("Bearer b"));
        assert_ne!(of("Bearer a"), Tenant::default());
        for nobody in ["Bearer ", "Basic YTpi", "Bear", ""] {
            assert_eq!(of(nobody), Tenant::default(), "{nobody:?}");
        }
        assert_eq!(unchecked(&HeaderMap::new()), Tenant::default());
    }
}
