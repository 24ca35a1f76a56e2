//! Names of policies in registries.

use std::fmt;
use std::net::IpAddr;

use store::Digest;

/// `oci://HOST/REPOSITORY[:TAG][@sha256:DIGEST]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The registry, with its port where it is not the usual one.
    pub host: String,
    /// Where in it.
    pub repository: String,
    /// A name that may move.
    pub tag: Option<String>,
    /// SHA-256 of the manifest.
    pub digest: Option<Digest>,
}

/// A reference that means the same bytes for ever. Its tag is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// As it was written.
    pub reference: Reference,
    /// SHA-256 of the manifest.
    pub digest: Digest,
}

/// How a reference begins.
pub const OCI: &str = "oci://";

impl Reference {
    /// Reads a reference.
    ///
    /// # Errors
    /// What is wrong with it, and how it should be.
    pub fn parse(written: &str) -> Result<Self, String> {
        let wrong =
            |problem: &str| format!("{written:?} {problem}; write oci://HOST/REPOSITORY:TAG@sha256:DIGEST");
        let rest = written.strip_prefix(OCI).ok_or_else(|| wrong("does not begin with oci://"))?;
        let (rest, digest) = match rest.split_once('@') {
            None => (rest, None),
            Some((rest, digest)) => {
                let digest = digest.strip_prefix("sha256:").and_then(|digits| digits.parse().ok());
                (
                    rest,
                    Some(digest.ok_or_else(|| wrong("has no sha256: with 64 lower-case digits behind @"))?),
                )
            }
        };
        let (host, rest) = rest.split_once('/').ok_or_else(|| wrong("has no repository"))?;
        let (repository, tag) = match rest.split_once(':') {
            None => (rest, None),
            Some((repository, tag)) => (repository, Some(tag.to_owned())),
        };
        // These become parts of a URL.
        let host_is_plain = |c: char| c.is_ascii_alphanumeric() || "-.:[]".contains(c);
        if host.is_empty() || !host.chars().all(host_is_plain) {
            return Err(wrong("has no host"));
        }
        let is_plain = |part: &str| {
            let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
            part.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                && part.chars().all(inner)
        };
        if !repository.split('/').all(is_plain) {
            return Err(wrong("has no repository of a-z, 0-9, '-', '_', '.' and '/'"));
        }
        let tag_is_plain = |tag: &String| {
            let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            (1..=TAG_MOST).contains(&tag.len()) && !tag.starts_with(['-', '.']) && tag.chars().all(inner)
        };
        if !tag.as_ref().is_none_or(tag_is_plain) {
            return Err(wrong("has no tag of letters, digits, '-', '_' and '.' behind ':'"));
        }
        Ok(Self { host: host.to_owned(), repository: repository.to_owned(), tag, digest })
    }

    /// This one, if it has a digest.
    ///
    /// # Errors
    /// It has none.
    pub fn pinned(self) -> Result<Pinned, String> {
        let digest = self.digest.ok_or_else(|| {
            format!(
                "{self} may mean something else tomorrow, or on another replica; add @sha256:DIGEST, which \
                 `tokenrouter policy pull {self}` prints"
            )
        })?;
        Ok(Pinned { reference: self, digest })
    }

    /// What the manifest is asked for by.
    pub(super) fn manifest(&self) -> String {
        let tag = || self.tag.clone().unwrap_or_else(|| "latest".to_owned());
        self.digest.map_or_else(tag, |digest| format!("sha256:{digest}"))
    }

    /// Whether the registry is on this machine, where nobody listens in.
    pub(super) fn is_loopback(&self) -> bool {
        let name = match self.host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((address, _)) => address,
            None => self.host.split(':').next().unwrap_or_default(),
        };
        name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OCI}{}/{}", self.host, self.repository)?;
        self.tag.as_ref().map_or(Ok(()), |tag| write!(f, ":{tag}"))?;
        self.digest.map_or(Ok(()), |digest| write!(f, "@sha256:{digest}"))
    }
}

impl fmt::Display for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reference.fmt(f)
    }
}

const TAG_MOST: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_shown_as_it_is_written() {
        let digest = "ab".repeat(32);
        for written in [
            "oci://registry.example/policies/doubt".to_owned(),
            "oci://localhost:5000/doubt:1.0".to_owned(),
            format!("oci://registry.example/a/b-c/d_e:v1@sha256:{digest}"),
            format!("oci://[::1]:5000/doubt@sha256:{digest}"),
        ] {
            let reference = Reference::parse(&written).expect("a reference");
            assert_eq!(reference.to_string(), written);
            let told = reference.pinned().map(|pinned| pinned.digest.to_string());
            assert_eq!(told.is_ok(), written.contains('@'), "{told:?}");
        }
        let tagged = Reference::parse("oci://h/r:v1").expect("a reference");
        assert_eq!((tagged.manifest(), tagged.is_loopback()), ("v1".to_owned(), false));
        assert_eq!(Reference::parse("oci://h/r").expect("a reference").manifest(), "latest");
        for (host, is) in
            [("127.0.0.1:5", true), ("[::1]", true), ("localhost", true), ("127.example", false)]
        {
            let reference = Reference::parse(&format!("oci://{host}/r")).expect("a reference");
            assert_eq!(reference.is_loopback(), is, "{host}");
        }
    }

    #[test]
    fn what_could_leave_its_place_in_a_url_is_refused() {
        let digest = "ab".repeat(32);
        for wrong in [
            "https://h/r",
            "oci://h",
            "oci://h/",
            "oci:///r",
            "oci://h/../r",
            "oci://h/r/",
            "oci://h/R",
            "oci://user@h/r",
            "oci://h/r?x",
            "oci://h/r:",
            "oci://h/r:a/b",
            "oci://h/r@sha256:ab",
            &format!("oci://h/r@sha512:{digest}"),
            &format!("oci://h/r@{digest}"),
            &format!("oci://h/r@sha256:{}", digest.to_uppercase()),
        ] {
            assert!(Reference::parse(wrong).is_err(), "{wrong}");
        }
    }
}
