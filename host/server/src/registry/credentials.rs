//! Credentials for registries, as Docker keeps them: `{"auths": {HOST: {"auth": base64 of USER:PASSWORD}}}`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::RegistryError;
use crate::config::Registry;

#[derive(Deserialize)]
struct AuthFile {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
}

#[derive(Deserialize)]
struct Auth {
    #[serde(default)]
    auth: String,
}

/// What is sent as `Basic` to this registry; none if nothing is known of it.
pub(super) fn basic(settings: &Registry, host: &str) -> Result<Option<String>, RegistryError> {
    let Some((place, text)) = settings.auth().map_err(RegistryError::Credentials)? else { return Ok(None) };
    // NB: without the parser's message, which may show a part of the text.
    let unreadable =
        |_| RegistryError::Credentials(format!("{place} does not hold credentials as Docker's config.json"));
    let AuthFile { auths } = serde_json::from_str(&text).map_err(unreadable)?;
    let of_host = auths.into_iter().find(|(key, _)| name(key) == host);
    Ok(of_host.map(|(_, auth)| auth.auth).filter(|auth| !auth.is_empty()))
}

/// Keys are hosts, or URLs of hosts.
fn name(key: &str) -> &str {
    let bare = key.split_once("://").map_or(key, |(_, rest)| rest);
    bare.split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_found_by_its_name_or_url_and_nothing_of_the_file_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        let settings = Registry { auth_file: Some(file.clone()), ..Registry::default() };
        let text = r#"{"auths": {"a.example": {"auth": "YTpi"}, "https://b.example:5000/v1/": {"auth": "Yzpk"}, "c": {}},
                       "credsStore": "desktop"}"#;
        std::fs::write(&file, text).unwrap();
        let of = |host: &str| basic(&settings, host).unwrap();
        assert_eq!(
            (of("a.example").as_deref(), of("b.example:5000").as_deref()),
            (Some("YTpi"), Some("Yzpk"))
        );
        assert_eq!((of("c"), of("example")), (None, None));
        std::fs::write(&file, "{\"auths\": \"hunter2\"}").unwrap();
        let told = basic(&settings, "c").unwrap_err().to_string();
        assert!(told.contains("config.json") && !told.contains("hunter2"), "{told}");
        std::fs::remove_file(&file).unwrap();
        let told = basic(&settings, "c").unwrap_err().to_string();
        assert!(told.starts_with("registry.auth_file: "), "{told}");
    }
}
