//! A named policy: the revisions that were uploaded, which one is active, and the way back.
//!
//! Pure: what becomes of a history is returned, and the caller puts it into the store. The audit log tells everything that
//! ever happened; a history only what is still of use.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// The record of a named policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyHistory {
    /// The tenant whose policy it is; none: the operator's.
    pub tenant: Option<String>,
    /// What was uploaded, the oldest first.
    pub revisions: Vec<Uploaded>,
    /// What was active, the present one last. Rolling back takes it away.
    pub active: Vec<Activation>,
}

/// A revision that is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uploaded {
    /// Digest of the component's bytes.
    pub digest: Digest,
    /// When, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The key's id.
    pub by: String,
    /// Size of the component.
    pub bytes: u64,
    /// What the component calls itself.
    pub policy: String,
    /// What it says of itself, one line.
    pub doc: String,
    /// Where and how it is to serve.
    pub manifest: Manifest,
}

/// What was uploaded beside a component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The route that it serves like: models, fallback and promises are this one's.
    pub route: String,
    /// Settings that are not at their defaults.
    #[serde(default)]
    pub settings: BTreeMap<String, f64>,
}

/// A revision that serves, or served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Activation {
    /// The revision.
    pub digest: Digest,
    /// Since when, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The key's id.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// What cannot be done with a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// Nobody uploaded it under this name.
    #[error("revision {0} was not uploaded")]
    NotUploaded(Digest),
    /// It is serving.
    #[error("revision {0} is active, or what a roll back would lead to")]
    InUse(Digest),
    /// Old revisions must go first.
    #[error("there are {REVISIONS_MAX} revisions already")]
    Full,
    /// There is nothing before the present revision.
    #[error("there is no revision to go back to")]
    NoWayBack,
}

impl PolicyHistory {
    /// A revision was uploaded. One that is there already takes the new manifest and stays as it is otherwise.
    ///
    /// # Errors
    /// [`HistoryError::Full`].
    pub fn upload(&self, uploaded: Uploaded) -> Result<Self, HistoryError> {
        let mut next = self.clone();
        if let Some(there) = next.revisions.iter_mut().find(|there| there.digest == uploaded.digest) {
            there.manifest = uploaded.manifest;
            return Ok(next);
        }
        if self.revisions.len() >= REVISIONS_MAX {
            return Err(HistoryError::Full);
        }
        next.revisions.push(uploaded);
        Ok(next)
    }

    /// A revision serves from now on.
    ///
    /// # Errors
    /// [`HistoryError::NotUploaded`].
    pub fn activate(&self, activation: Activation) -> Result<Self, HistoryError> {
        if !self.has(activation.digest) {
            return Err(HistoryError::NotUploaded(activation.digest));
        }
        let mut next = self.clone();
        next.active.push(activation);
        let over = next.active.len().saturating_sub(ACTIVE_MAX);
        next.active.drain(..over);
        Ok(next)
    }

    /// What served before serves again; again and again leads further back.
    ///
    /// # Errors
    /// [`HistoryError::NoWayBack`].
    pub fn roll_back(&self) -> Result<Self, HistoryError> {
        let mut next = self.clone();
        next.active.pop();
        if next.active.is_empty() { Err(HistoryError::NoWayBack) } else { Ok(next) }
    }

    /// A revision is given up.
    ///
    /// # Errors
    /// [`HistoryError`], if it is not there or still of use.
    pub fn remove(&self, digest: Digest) -> Result<Self, HistoryError> {
        if !self.has(digest) {
            return Err(HistoryError::NotUploaded(digest));
        }
        if self.active.iter().any(|activation| activation.digest == digest) {
            return Err(HistoryError::InUse(digest));
        }
        let mut next = self.clone();
        next.revisions.retain(|uploaded| uploaded.digest != digest);
        Ok(next)
    }

    /// Gives up the oldest revisions, so that at most so many are left; returns how many went. The one that serves stays.
    /// A roll back then leads past those that went.
    #[must_use]
    pub fn keep(&self, most: usize) -> (Self, usize) {
        let (mut next, serving) = (self.clone(), self.serving());
        let over = next.revisions.len().saturating_sub(most.max(1));
        let idle =
            next.revisions.iter().map(|uploaded| uploaded.digest).filter(|idle| Some(*idle) != serving);
        let going: BTreeSet<Digest> = idle.take(over).collect();
        next.revisions.retain(|uploaded| !going.contains(&uploaded.digest));
        next.active.retain(|activation| !going.contains(&activation.digest));
        next.active.dedup_by_key(|activation| activation.digest);
        (next, going.len())
    }

    /// The revision that serves.
    #[must_use]
    pub fn serving(&self) -> Option<Digest> {
        self.active.last().map(|activation| activation.digest)
    }

    /// A revision that was uploaded and is still there.
    #[must_use]
    pub fn revision(&self, digest: Digest) -> Option<&Uploaded> {
        self.revisions.iter().find(|uploaded| uploaded.digest == digest)
    }

    /// Whether a revision was uploaded and is still there.
    #[must_use]
    pub fn has(&self, digest: Digest) -> bool {
        self.revisions.iter().any(|uploaded| uploaded.digest == digest)
    }
}

/// Most revisions of a policy.
pub const REVISIONS_MAX: usize = 100;
/// Most steps back, and one.
const ACTIVE_MAX: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(of: u8) -> Digest {
        Digest::of(&[of])
    }

    fn uploaded(of: u8) -> Uploaded {
        let (by, policy, doc) = ("k".to_owned(), "p".to_owned(), "d".to_owned());
        Uploaded {
            digest: digest(of),
            at_unix_ms: 1,
            by,
            bytes: 1,
            policy,
            doc,
            manifest: Manifest::default(),
        }
    }

    fn activation(of: u8) -> Activation {
        Activation { digest: digest(of), at_unix_ms: 2, by: "k".to_owned(), reason: String::new() }
    }

    fn three() -> PolicyHistory {
        (1..=3).fold(PolicyHistory::default(), |history, of| {
            history.upload(uploaded(of)).and_then(|history| history.activate(activation(of))).unwrap()
        })
    }

    #[test]
    fn rolling_back_twice_leads_two_back() {
        let once = three().roll_back().unwrap();
        let twice = once.roll_back().unwrap();
        assert_eq!([once.serving(), twice.serving()], [Some(digest(2)), Some(digest(1))]);
        assert_eq!(twice.roll_back(), Err(HistoryError::NoWayBack));
        assert_eq!(twice.activate(activation(3)).unwrap().roll_back().unwrap().serving(), Some(digest(1)));
    }

    #[test]
    fn only_what_is_there_serves_and_only_what_is_idle_goes() {
        assert_eq!(three().activate(activation(4)), Err(HistoryError::NotUploaded(digest(4))));
        assert_eq!(three().remove(digest(2)), Err(HistoryError::InUse(digest(2))));
        let back = three().roll_back().unwrap();
        assert!(!back.remove(digest(3)).unwrap().has(digest(3)));
        assert_eq!(back.upload(uploaded(3)).unwrap(), back, "the same bytes again change nothing");
    }

    #[test]
    fn the_oldest_go_and_what_serves_stays() {
        let back = three().roll_back().unwrap().roll_back().unwrap();
        let (kept, gone) = back.keep(2);
        assert_eq!((kept.serving(), gone), (Some(digest(1)), 1));
        assert!(kept.has(digest(1)) && !kept.has(digest(2)) && kept.has(digest(3)));
        let again = three().activate(activation(1)).unwrap().activate(activation(3)).unwrap();
        let (kept, gone) = again.keep(2);
        assert_eq!((kept.serving(), gone), (Some(digest(3)), 1));
        assert_eq!(kept.roll_back().unwrap().serving(), Some(digest(2)), "past what went");
        assert_eq!(three().keep(0).0.revisions.len(), 1, "what serves is one");
    }

    #[test]
    fn the_same_bytes_again_bring_their_manifest() {
        let manifest = Manifest { route: "pair".to_owned(), ..Manifest::default() };
        let again =
            three().upload(Uploaded { manifest: manifest.clone(), at_unix_ms: 9, ..uploaded(2) }).unwrap();
        let revision = again.revision(digest(2)).unwrap();
        assert_eq!((&revision.manifest, revision.at_unix_ms, again.revisions.len()), (&manifest, 1, 3));
    }

    #[test]
    fn histories_are_bounded() {
        let full =
            (0..100).fold(PolicyHistory::default(), |history, of| history.upload(uploaded(of)).unwrap());
        assert_eq!(full.upload(uploaded(100)), Err(HistoryError::Full));
        let long = (0..80).fold(full, |history, of| history.activate(activation(of)).unwrap());
        assert_eq!((long.active.len(), long.serving()), (50, Some(digest(79))));
    }
}
