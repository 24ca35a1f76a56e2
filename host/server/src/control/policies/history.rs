//! What becomes of a policy after its upload: another revision serves, the one before, or none.

use std::sync::Arc;

use store::policy_history::{Activation, HistoryError, PolicyHistory};
use store::{Digest, Kind, Why};

use super::{Name, PoliciesError, Policy, remove_unnamed};
use crate::control::Control;
use crate::unix;

impl Control {
    /// Another revision serves.
    ///
    /// # Errors
    /// [`PoliciesError`], if it is not there, does not load or does not fit; what served before then goes on.
    pub async fn activate_revision(
        self: &Arc<Self>,
        name: Name,
        digest: Digest,
        by: String,
    ) -> Result<Policy, PoliciesError> {
        self.turn_to(name, by, "activate", move |history, by| {
            if history.serving() == Some(digest) {
                return Ok(history.clone());
            }
            let (at_unix_ms, by, reason) = (unix::now_ms(), by.to_owned(), "activated".to_owned());
            history.activate(Activation { digest, at_unix_ms, by, reason })
        })
        .await
    }

    /// What served before serves again.
    ///
    /// # Errors
    /// As [`Self::activate_revision`].
    pub async fn roll_back_policy(self: &Arc<Self>, name: Name, by: String) -> Result<Policy, PoliciesError> {
        self.turn_to(name, by, "roll_back", |history, _| history.roll_back()).await
    }

    /// A policy is given up with all its revisions. Answers that run are finished.
    ///
    /// # Errors
    /// [`PoliciesError::Absent`], or that it cannot be made durable.
    pub async fn delete_policy(self: &Arc<Self>, name: Name, by: String) -> Result<(), PoliciesError> {
        self.alone(move |control| {
            let history = control.history(&name)?;
            let store = control.store()?;
            let detail = format!("{} revisions", history.revisions.len());
            let why = Why { action: "delete", detail: &detail };
            store.change(&by, unix::now_ms(), |change| change.remove(Kind::Policy, &name.key(), why))?;
            control.publish(&name, None);
            // What nobody names is of no use; that it is still there does no harm.
            if let Err(error) = remove_unnamed(store) {
                tracing::warn!(%error, "components of a deleted policy are left");
            }
            Ok(())
        })
        .await
    }

    /// Makes a step in a policy's history.
    async fn turn_to(
        self: &Arc<Self>,
        name: Name,
        by: String,
        action: &'static str,
        step: impl Fn(&PolicyHistory, &str) -> Result<PolicyHistory, HistoryError> + Send + 'static,
    ) -> Result<Policy, PoliciesError> {
        // Compiled before anybody has to wait for it, and held so that it need not be again.
        let (control, of, who) = (Arc::clone(self), name.clone(), by.clone());
        let (step, held) = blocking(move || {
            let next = step(&control.history(&of)?, &who)?;
            let held = control.check_serving(&of, &next)?;
            Ok((step, held))
        })
        .await?;
        self.alone(move |control| {
            let _held = held;
            let before = control.history(&name)?;
            let next = step(&before, &by)?;
            if next != before {
                control.check_serving(&name, &next)?;
                let detail = next.serving().map_or_else(String::new, |digest| format!("revision {digest}"));
                let why = Why { action, detail: &detail };
                control.store()?.change(&by, unix::now_ms(), |change| {
                    change.put(Kind::Policy, &name.key(), &next, why)
                })?;
                control.publish(&name, Some(&next));
            }
            control.policy(&name)
        })
        .await
    }

    /// The revision that would serve, which loads and fits.
    fn check_serving(
        &self,
        name: &Name,
        next: &PolicyHistory,
    ) -> Result<Option<Arc<policy::Revision>>, PoliciesError> {
        let Some(serving) = next.serving().and_then(|digest| next.revision(digest)) else { return Ok(None) };
        let revision = self.revision(serving.digest)?;
        self.check_fit(name, &serving.manifest, &revision)?;
        Ok(Some(revision))
    }
}

/// On a thread where it may wait.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PoliciesError> + Send + 'static,
) -> Result<T, PoliciesError> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
        tracing::error!(%error, "a change of a policy panicked; please report this");
        Err(crate::control::ControlError::Panicked.into())
    })
}
