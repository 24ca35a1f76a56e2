//! From one model to another: journeys, and the news of their end, go straight into the peers' inboxes.

use std::sync::Arc;

use super::Inbound;
use crate::runtime::catalog::ModelIx;
use crate::runtime::group::Inbox;

/// What a decode loop has for its peers.
///
/// It is collected during a step and sent when the step is over and told to the group: a peer then sees all that came of
/// it at once, and not the first of several journeys alone.
pub(super) struct Outgoing {
    here: ModelIx,
    peers: Arc<[Inbox<Inbound>]>,
    messages: Vec<(ModelIx, Inbound)>,
}

impl Outgoing {
    pub(super) fn new(here: ModelIx, peers: Arc<[Inbox<Inbound>]>) -> Self {
        Self { here, peers, messages: Vec::new() }
    }

    /// The way back into the loop that this belongs to.
    pub(super) fn own_inbox(&self) -> &Inbox<Inbound> {
        &self.peers[self.here.index()]
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
        let mut woken = vec![false; self.peers.len()];
        for (to, message) in self.messages.drain(..) {
            woken[to.index()] = true;
            if let Err(error) = self.peers[to.index()].put(message) {
                // A inbox has room for all journeys, so this is a peer that has stopped. A traveller that is
                // dropped closes its client's stream, so nobody waits for it.
                tracing::debug!(from = self.here.0, to = to.0, %error, "the peer has stopped; the journey ends here");
            }
        }
        woken.iter().zip(&*self.peers).filter(|(woken, _)| **woken).for_each(|(_, peer)| peer.ring());
    }
}
