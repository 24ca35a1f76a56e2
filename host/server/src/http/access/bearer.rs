//! The key that a request brings.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

/// What follows `Bearer` in the request's `Authorization`.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, key) = value.split_at_checked(BEARER.len())?;
    let key = key.trim_ascii();
    (scheme.eq_ignore_ascii_case(BEARER) && !key.is_empty()).then_some(key)
}

const BEARER: &[u8] = b"Bearer ";

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str) -> Option<Vec<u8>> {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, value.parse().unwrap());
        bearer(&headers).map(<[u8]>::to_vec)
    }

    #[test]
    fn a_key_is_the_same_however_it_is_sent() {
        assert_eq!(of("Bearer a"), Some(b"a".to_vec()));
        assert_eq!(of("bearer  a "), Some(b"a".to_vec()));
        for nobody in ["Bearer ", "Basic YTpi", "Bear", ""] {
            assert_eq!(of(nobody), None, "{nobody:?}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
