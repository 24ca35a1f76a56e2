//! Cross-model loop: carries journeys, and the news of their end, to the subservers of other models.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::{Inbound, Outbound};
use crate::runtime::group::Inbox;

pub(super) async fn run(mut outgoing: mpsc::Receiver<Outbound>, peers: Arc<[Inbox<Inbound>]>) {
    while let Some(outbound) = outgoing.recv().await {
        let (to, inbound) = match outbound {
            Outbound::Handoff { to, traveller } => (to, Inbound::Arrive(traveller)),
            Outbound::Release { at, journey, place } => (at, Inbound::Release(journey, place)),
        };
        if peers[to.index()].send(inbound).await.is_err() {
            // A traveller that is dropped closes its client's stream, so nobody waits for it.
            tracing::debug!(model = to.0, "the peer has stopped; the journey ends here");
        }
    }
}
