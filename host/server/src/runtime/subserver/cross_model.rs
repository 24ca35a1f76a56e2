//! From one model to another: journeys, and the news of their end, go straight into the peers' inboxes.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::Inbound;
use crate::runtime::catalog::ModelIx;
use crate::runtime::group::Inbox;

/// The inboxes of all models. They come and go with their models.
#[derive(Default)]
pub(in crate::runtime) struct Peers(RwLock<Vec<Option<Inbox<Inbound>>>>);

impl Peers {
    /// Puts a message into a model's inbox, and wakes its loop.
    ///
    /// # Errors
    /// The message, if the model is not there or its loop has ended.
    pub(in crate::runtime) fn give(&self, to: ModelIx, message: Inbound) -> Result<(), Inbound> {
        let inboxes = self.read();
        let Some(inbox) = inbox(&inboxes, to) else { return Err(message) };
        inbox.put(message).map_err(|error| error.into_inner())?;
        inbox.ring();
        Ok(())
    }

    /// A model has this inbox from now on.
    pub(super) fn open(&self, at: ModelIx, inbox: Inbox<Inbound>) {
        let mut inboxes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let slots = inboxes.len().max(at.index() + 1);
        inboxes.resize(slots, None);
        inboxes[at.index()] = Some(inbox);
    }

    /// A model is there no more.
    pub(super) fn close(&self, at: ModelIx) {
        let mut inboxes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        inboxes[at.index()] = None;
    }

    /// Uncontended but while a model comes or goes, and once for each step that hands over.
    fn read(&self) -> RwLockReadGuard<'_, Vec<Option<Inbox<Inbound>>>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn inbox(inboxes: &[Option<Inbox<Inbound>>], at: ModelIx) -> Option<&Inbox<Inbound>> {
    inboxes.get(at.index())?.as_ref()
}

/// What a decode loop has for its peers.
///
/// It is collected during a step and sent when the step is over and told to the group: a peer then sees all that came of
/// it at once, and not the first of several journeys alone.
pub(super) struct Outgoing {
    here: ModelIx,
    own: Inbox<Inbound>,
    peers: Arc<Peers>,
    messages: Vec<(ModelIx, Inbound)>,
}

impl Outgoing {
    pub(super) fn new(here: ModelIx, own: Inbox<Inbound>, peers: Arc<Peers>) -> Self {
        Self { here, own, peers, messages: Vec::new() }
    }

    /// The way back into the loop that this belongs to.
    pub(super) fn own_inbox(&self) -> &Inbox<Inbound> {
        &self.own
    }

    /// For a peer, with the next [`Self::send`].
    pub(super) fn add(&mut self, to: ModelIx, message: Inbound) {
        self.messages.push((to, message));
    }

    /// Sends everything, then wakes those who got something.
    pub(super) fn send(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let peers = self.peers.read();
        let mut woken = vec![false; peers.len()];
        for (to, message) in self.messages.drain(..) {
            let put = inbox(&peers, to).is_some_and(|peer| peer.put(message).is_ok());
            if put {
                woken[to.index()] = true;
            } else {
                // An inbox has room for all journeys, so this is a peer that has stopped. A traveller that is
                // dropped closes its client's stream, so nobody waits for it.
                tracing::debug!(from = self.here.0, to = to.0, "the peer has stopped; the journey ends here");
            }
        }
        let rung = woken.iter().zip(&*peers).filter(|(woken, _)| **woken);
        rung.filter_map(|(_, peer)| peer.as_ref()).for_each(Inbox::ring);
    }
}
