//! A registry, asked for a policy or given one: the requests of the OCI distribution specification that this takes.

use http_auth::ChallengeRef;
use serde::Deserialize;
use store::Digest;
use ureq::http::{Method, Request, Response, StatusCode, header};
use ureq::{Agent, Body};

use super::artifact::{Artifact, Layer, MANIFEST};
use super::credentials::basic;
use super::{Reference, RegistryError};
use crate::config::Registry;

/// One repository of a registry.
pub struct Client {
    agent: Agent,
    reference: Reference,
    /// `https://HOST`.
    origin: String,
    /// What is known of us there, as `Basic` has it.
    basic: Option<String>,
    /// What it has asked to be sent.
    authorization: Option<String>,
}

/// What a token comes in. Registries call it one or the other.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Client {
    /// Of the repository that this names; nothing is sent yet.
    ///
    /// # Errors
    /// [`RegistryError::Credentials`].
    pub fn new(reference: &Reference, settings: &Registry) -> Result<Self, RegistryError> {
        let Reference { host, .. } = reference;
        let is_plain = reference.is_loopback() || settings.plain_http.contains(host);
        let agent = Agent::config_builder()
            .https_only(!is_plain)
            .http_status_as_error(false)
            .timeout_global(Some(settings.timeout()))
            .build()
            .new_agent();
        let origin = format!("{}://{host}", if is_plain { "http" } else { "https" });
        let (reference, basic) = (reference.clone(), basic(settings, host)?);
        Ok(Self { agent, reference, origin, basic, authorization: None })
    }

    /// The manifest and its digest, which is the one that was asked for if one was.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub fn manifest(&mut self) -> Result<(Vec<u8>, Digest), RegistryError> {
        let url = self.url(&format!("manifests/{}", self.reference.manifest()));
        let answer = self.ask((&Method::GET, &url), &[(header::ACCEPT, MANIFEST)], &[])?;
        let manifest =
            self.body(self.good(answer, &self.reference.to_string())?, "manifest", (MANIFEST_MOST, ""))?;
        let digest = Digest::of(&manifest);
        self.check("manifest", self.reference.digest.unwrap_or(digest), digest)?;
        Ok((manifest, digest))
    }

    /// The component of a manifest.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub fn component(&mut self, layer: &Layer, bytes_max: u64) -> Result<Vec<u8>, RegistryError> {
        let bound = (bytes_max, " (uploads.bytes_max)");
        if layer.bytes > bytes_max {
            return Err(RegistryError::TooLarge { what: "component", most: bytes_max, key: bound.1 });
        }
        let url = self.url(&format!("blobs/sha256:{}", layer.digest));
        let answer = self.ask((&Method::GET, &url), &[], &[])?;
        let component = self.body(self.good(answer, "its component")?, "component", bound)?;
        self.check("component", layer.digest, Digest::of(&component))?;
        Ok(component)
    }

    /// Puts a component there, under the reference's tag. Returns the digest of its manifest.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub fn push(&mut self, component: &[u8], artifact: &Artifact) -> Result<Digest, RegistryError> {
        self.put_blob(component)?;
        self.put_blob(&artifact.config)?;
        let digest = Digest::of(&artifact.manifest);
        let tag = self.reference.tag.clone().unwrap_or_else(|| format!("sha256:{digest}"));
        let url = self.url(&format!("manifests/{tag}"));
        let kind = [(header::CONTENT_TYPE, MANIFEST)];
        let answer = self.ask((&Method::PUT, &url), &kind, &artifact.manifest)?;
        self.good(answer, "the manifest")?;
        Ok(digest)
    }

    /// Puts bytes there, if they are not there yet.
    fn put_blob(&mut self, bytes: &[u8]) -> Result<(), RegistryError> {
        let digest = Digest::of(bytes);
        let there = self.url(&format!("blobs/sha256:{digest}"));
        if self.ask((&Method::HEAD, &there), &[], &[])?.status() == StatusCode::OK {
            return Ok(());
        }
        let begin = self.url("blobs/uploads/");
        let begun = self.ask((&Method::POST, &begin), &[], &[])?;
        let begun = self.good(begun, "an upload")?;
        let place = begun.headers().get(header::LOCATION).and_then(|place| place.to_str().ok());
        let place =
            place.ok_or_else(|| self.refused(begun.status(), "an upload", " without a place for it"))?;
        let place = if place.starts_with('/') { format!("{}{place}", self.origin) } else { place.to_owned() };
        let joined = if place.contains('?') { '&' } else { '?' };
        let url = format!("{place}{joined}digest=sha256:{digest}");
        let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
        let answer = self.ask((&Method::PUT, &url), &kind, bytes)?;
        self.good(answer, "an upload").map(drop)
    }

    /// Asks once, and once more with what the registry wants to know.
    fn ask(
        &mut self,
        what: (&Method, &str),
        headers: &[(header::HeaderName, &str)],
        body: &[u8],
    ) -> Result<Response<Body>, RegistryError> {
        let answer = self.send(what, headers, body)?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let challenge = answer.headers().get(header::WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let Some(authorization) = self.answered(challenge.unwrap_or_default())? else { return Ok(answer) };
        self.authorization = Some(authorization);
        self.send(what, headers, body)
    }

    fn send(
        &self,
        (method, url): (&Method, &str),
        headers: &[(header::HeaderName, &str)],
        body: &[u8],
    ) -> Result<Response<Body>, RegistryError> {
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        // A place for an upload may be elsewhere, where credentials have no business.
        let at_home = url.strip_prefix(&self.origin).is_some_and(|rest| rest.starts_with('/'));
        if let Some(authorization) = self.authorization.as_ref().filter(|_| at_home) {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let unreachable = |source| self.unreachable(source);
        let sent = if *method == Method::PUT || *method == Method::POST {
            self.agent.run(request.body(body).map_err(|error| unreachable(error.into()))?)
        } else {
            self.agent.run(request.body(()).map_err(|error| unreachable(error.into()))?)
        };
        sent.map_err(unreachable)
    }

    /// What is to be sent to a registry that asks this; none if nothing is known that it could want.
    fn answered(&self, asked: &str) -> Result<Option<String>, RegistryError> {
        let unknown = || RegistryError::Challenge { host: self.host(), asked: asked.to_owned() };
        let challenges = http_auth::parse_challenges(asked).map_err(|_| unknown())?;
        let of = |scheme: &str| challenges.iter().find(|one| one.scheme.eq_ignore_ascii_case(scheme));
        if let Some(bearer) = of("Bearer") {
            return self.token(bearer).map(|token| Some(format!("Bearer {token}")));
        }
        of("Basic").ok_or_else(unknown)?;
        Ok(self.basic.as_ref().map(|basic| format!("Basic {basic}")))
    }

    /// Gets a token where the registry says.
    fn token(&self, bearer: &ChallengeRef<'_>) -> Result<String, RegistryError> {
        let param = |name: &str| {
            let found = bearer.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_unescaped())
        };
        let no_realm =
            || RegistryError::Challenge { host: self.host(), asked: "Bearer without a realm".to_owned() };
        let mut request = self.agent.get(param("realm").ok_or_else(no_realm)?);
        for name in ["service", "scope"] {
            if let Some(value) = param(name) {
                request = request.query(name, value);
            }
        }
        if let Some(basic) = &self.basic {
            request = request.header(header::AUTHORIZATION, format!("Basic {basic}"));
        }
        let answer = request.call().map_err(|source| self.unreachable(source))?;
        let answer = self.good(answer, "a request for a token")?;
        let text = self.body(answer, "token", (TOKEN_MOST, ""))?;
        let token = serde_json::from_slice(&text).ok().and_then(|of: Token| of.token.or(of.access_token));
        token.ok_or_else(|| self.refused(StatusCode::OK, "a request for a token", " without a token"))
    }

    /// The whole of a body that has no more than so many bytes.
    fn body(
        &self,
        mut answer: Response<Body>,
        what: &'static str,
        (most, key): (u64, &'static str),
    ) -> Result<Vec<u8>, RegistryError> {
        answer.body_mut().with_config().limit(most).read_to_vec().map_err(|error| match error {
            ureq::Error::BodyExceedsLimit(_) => RegistryError::TooLarge { what, most, key },
            source => self.unreachable(source),
        })
    }

    fn good(&self, answer: Response<Body>, what: &str) -> Result<Response<Body>, RegistryError> {
        let hint = match answer.status() {
            status if status.is_success() => return Ok(answer),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if self.basic.is_none() => {
                "; no credentials for it are known (registry.auth_file, DOCKER_AUTH_CONFIG or DOCKER_CONFIG)"
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => "; the credentials for it do not open that",
            StatusCode::NOT_FOUND => "; check the name and the digest",
            _ => "",
        };
        Err(self.refused(answer.status(), what, hint))
    }

    fn check(&self, what: &'static str, wanted: Digest, found: Digest) -> Result<(), RegistryError> {
        let host = self.host();
        if wanted == found { Ok(()) } else { Err(RegistryError::Damaged { host, what, wanted, found }) }
    }

    fn refused(&self, status: StatusCode, what: &str, hint: &'static str) -> RegistryError {
        RegistryError::Refused { host: self.host(), status: status.as_u16(), what: what.to_owned(), hint }
    }

    fn unreachable(&self, source: ureq::Error) -> RegistryError {
        RegistryError::Unreachable { host: self.host(), source: Box::new(source) }
    }

    fn host(&self) -> String {
        self.reference.host.clone()
    }

    fn url(&self, path: &str) -> String {
        format!("{}/v2/{}/{path}", self.origin, self.reference.repository)
    }
}

/// What the distribution specification lets a registry bound manifests by.
const MANIFEST_MOST: u64 = 4 << 20;
const TOKEN_MOST: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_and_who_is_named_are_asked_without_tls() {
        let settings =
            Registry { plain_http: vec!["registry.internal:5000".to_owned()], ..Registry::default() };
        let of = |host: &str| {
            let reference = Reference::parse(&format!("oci://{host}/p")).unwrap();
            let client = Client::new(&reference, &settings).unwrap();
            (client.origin.split(':').next() == Some("http"), client.agent.config().https_only())
        };
        for (host, is_plain) in [
            ("localhost:5000", true),
            ("127.0.0.1", true),
            ("registry.internal:5000", true),
            ("registry.internal", false),
            ("registry.example", false),
        ] {
            assert_eq!(of(host), (is_plain, !is_plain), "{host}");
        }
    }
}
