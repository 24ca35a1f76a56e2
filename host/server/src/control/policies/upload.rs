//! An upload, from its bytes to the revision that serves.

use std::sync::Arc;

use policy::Revision;
use store::policy_history::{Activation, Manifest, PolicyHistory, Uploaded};
use store::{Digest, Kind, Why};

use super::{Name, PoliciesError, Policy, Turn, remove_unnamed, uploaded};
use crate::control::{Control, ControlError};
use crate::runtime::{Library, check_gate, plain};
use crate::unix;

/// What somebody uploads.
#[derive(Debug)]
pub struct Upload {
    /// Whose it becomes.
    pub name: Name,
    /// The key's id.
    pub by: String,
    /// The component's bytes.
    pub component: Vec<u8>,
    /// Where and how it is to serve.
    pub manifest: Manifest,
    /// An ed25519 signature of the component.
    pub signature: Option<Vec<u8>>,
    /// Whether it serves at once.
    pub activate: bool,
}

/// An upload that may be kept.
struct Checked {
    upload: Upload,
    revision: Arc<Revision>,
    /// Until it is kept, the tenant uploads nothing else.
    _turn: Turn,
}

impl Control {
    /// Begins a tenant's upload.
    ///
    /// # Errors
    /// [`PoliciesError::TenantBusy`], or [`ControlError::NoDataDir`].
    pub fn begin_upload(&self, tenant: &str) -> Result<Turn, PoliciesError> {
        self.store()?;
        self.uploading.begin(tenant)
    }

    /// Checks an upload, keeps it and puts it in force. Returns the policy, and whether there is a new revision.
    ///
    /// If nobody waits for it any more it is kept whole or not at all.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn upload(
        self: &Arc<Self>,
        turn: Turn,
        upload: Upload,
    ) -> Result<(Policy, bool), PoliciesError> {
        let place = turn.place()?;
        let control = Arc::clone(self);
        let checking = tokio::task::spawn_blocking(move || {
            let _place = place;
            control.check(upload, turn)
        });
        let checked = checking.await.unwrap_or_else(|error| {
            tracing::error!(%error, "checking an upload panicked; please report this");
            Err(ControlError::Panicked.into())
        })?;
        self.alone(move |control| control.keep(&checked)).await
    }

    /// Everything that takes long, and changes nothing.
    fn check(&self, upload: Upload, turn: Turn) -> Result<Checked, PoliciesError> {
        let digest = Digest::of(&upload.component);
        check_gate(&self.uploads(), digest, &upload.component, upload.signature.as_deref())?;
        self.check_room(&upload.name)?;
        let library = self.library()?;
        let revision = library.load(&upload.component)?;
        let models = self.check_fit(&upload.name, &upload.manifest, &revision)?;
        let kept = self.history(&upload.name).ok().and_then(|there| there.revision(digest).cloned());
        if kept.is_none_or(|kept| kept.manifest != upload.manifest) {
            self.try_out(&upload, (&revision, models), library)?;
        }
        Ok(Checked { upload, revision, _turn: turn })
    }

    #[cfg(unix)]
    fn try_out(
        &self,
        upload: &Upload,
        (revision, models): (&Revision, usize),
        library: &Library,
    ) -> Result<(), PoliciesError> {
        use crate::trial::child::{Task, tried};

        let settings = plain(&upload.manifest.settings, revision).map_err(PoliciesError::Unfit)?;
        let task = Task::on(&library.host(), models, settings);
        Ok(tried(&upload.component, &task, &self.uploads().child_limits())?)
    }

    /// Elsewhere there is no process that could be bounded: what was rehearsed must do.
    #[cfg(not(unix))]
    fn try_out(&self, _: &Upload, _: (&Revision, usize), _: &Library) -> Result<(), PoliciesError> {
        Ok(())
    }

    /// Whether a policy would serve; how many models its route has.
    pub(super) fn check_fit(
        &self,
        name: &Name,
        manifest: &Manifest,
        revision: &Arc<Revision>,
    ) -> Result<usize, PoliciesError> {
        // Tried on a draft that nobody ever sees.
        let tried: Result<(), Result<usize, String>> = self.runtime().change(|draft| {
            let revision = Ok(Arc::clone(revision));
            let uploaded = uploaded(manifest.clone(), (None, revision));
            draft.set_own(&name.tenant, &name.name, Some(uploaded));
            let own = draft.own(&name.tenant, &name.name).expect("it was put there");
            Err(own.served.as_ref().map(|route| route.models.len()).map_err(Clone::clone))
        });
        match tried {
            Err(Ok(models)) => Ok(models),
            Err(Err(why)) => Err(PoliciesError::Unfit(why)),
            Ok(()) => unreachable!("the draft is given up"),
        }
    }

    /// Whether the tenant may have one more policy, if this is a new one.
    fn check_room(&self, name: &Name) -> Result<(), PoliciesError> {
        let most = self.uploads().policies_max.get();
        let policies = self.policies(Some(&name.tenant))?;
        let is_new = policies.iter().all(|there| there.name != name.name);
        if is_new && policies.len() >= most { Err(PoliciesError::TooMany(most)) } else { Ok(()) }
    }

    /// Makes it durable and puts it in force. Alone.
    fn keep(&self, checked: &Checked) -> Result<(Policy, bool), PoliciesError> {
        let Checked { upload, revision, .. } = checked;
        let Upload { name, by, .. } = upload;
        self.check_room(name)?;
        let (store, at_unix_ms) = (self.store()?, unix::now_ms());
        let digest = store.blobs().put(&upload.component)?;
        let revisions_max = self.uploads().revisions_max.get();
        let there = store.get::<PolicyHistory>(Kind::Policy, &name.key())?.map(|record| record.value);
        let is_new = there.as_ref().is_none_or(|there| !there.has(digest));
        let before = there.unwrap_or_else(|| PolicyHistory {
            tenant: Some(name.tenant.clone()),
            ..PolicyHistory::default()
        });
        let (kept, gone) = if is_new { before.keep(revisions_max - 1) } else { (before.clone(), 0) };
        let descriptor = revision.descriptor();
        let mut next = kept.upload(Uploaded {
            digest,
            at_unix_ms,
            by: by.clone(),
            bytes: upload.component.len() as u64,
            policy: descriptor.name.clone(),
            doc: descriptor.doc.clone(),
            manifest: upload.manifest.clone(),
        })?;
        if upload.activate && next.serving() != Some(digest) {
            let reason = "uploaded".to_owned();
            next = next.activate(Activation { digest, at_unix_ms, by: by.clone(), reason })?;
        }
        if next != before {
            let state = if upload.activate { "active" } else { "idle" };
            let detail = format!("revision {digest}, {state}, like {:?}", upload.manifest.route);
            let why = Why { action: "upload", detail: &detail };
            store.change(by, at_unix_ms, |change| change.put(Kind::Policy, &name.key(), &next, why))?;
        }
        if gone > 0 {
            remove_unnamed(store)?;
        }
        self.publish(name, Some(&next));
        Ok((Policy::new(name, &next, &self.runtime().catalog()), is_new))
    }

    fn library(&self) -> Result<&Library, PoliciesError> {
        Ok(self.library.as_deref().ok_or(ControlError::NoDataDir)?)
    }
}
