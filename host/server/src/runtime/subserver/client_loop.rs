//! Client-server loop: gives each waiting request a place, a journey and a policy session, in order of arrival.

use std::sync::Arc;

use journey::{Journey, Request};
use policy::{Lane, Revision, Start};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Inbound, Peers, Shared, Submission};
use crate::runtime::traveller::{Place, Traveller};

pub(super) async fn run(
    mut submitted: mpsc::Receiver<Submission>,
    peers: Arc<Peers>,
    shared: Shared,
    stop: CancellationToken,
) {
    loop {
        let submission = tokio::select! {
            () = stop.cancelled() => return,
            submission = submitted.recv() => submission,
        };
        let Some(submission) = submission else { return };
        admit(submission, &peers, &shared).await;
    }
}

/// Waits for a place, unless the client goes first.
async fn admit(submission: Submission, peers: &Arc<Peers>, shared: &Shared) {
    let waiting = shared.metrics.waiting();
    let place = tokio::select! {
        () = submission.client.closed() => return,
        place = Arc::clone(&shared.places).acquire_owned() => place,
    };
    drop(waiting);
    let Ok(permit) = place else { return };
    let begin = start(&submission);
    let Submission { id, tenant, told: (mut bill, mut witness), request, route, client, accepted, .. } =
        submission;
    bill.add(request.prompt.len());
    witness.begins(request.prompt.len());
    let journey = Journey::new(id, request);
    let place = Place::new(permit, accepted);
    let mut traveller =
        Box::new(Traveller::new((journey, tenant, (bill, witness)), route, client, place, shared));
    if let Some((revision, start)) = begin {
        if revision.lane(tenant.0) == Lane::Own {
            return shared.lane.begin(traveller, revision, start, peers);
        }
        traveller.begin(&revision, revision.session(start));
    }
    // Usually this loop's own model; a policy, or the fallback of one that failed, may choose another.
    // There is room for every journey, so nothing is waited for.
    if let Err(lost) = peers.give(traveller.here(), Inbound::Arrive(traveller)) {
        tracing::error!(journey = %id, "the decode loop has ended");
        lost.give_up();
    }
}

/// The revision that decides, and what its session begins with; none for a single model.
fn start(submission: &Submission) -> Option<(Arc<Revision>, Start)> {
    let (revision, settings) = submission.decider.as_ref()?;
    let start = Start {
        journey: submission.id,
        tenant: submission.tenant.0,
        models: Arc::clone(&submission.route.model_infos),
        settings: settings.clone(),
        prompt_tokens: submission.request.prompt.len() as u32,
        max_tokens: submission.request.max_tokens as u32,
        prompt: end_of_prompt(&submission.request, revision.descriptor().prompt),
        seed: submission.request.seed,
    };
    Some((Arc::clone(revision), start))
}

/// At most the last so many bytes of a prompt's text, cut at a character.
fn end_of_prompt(request: &Request, most: usize) -> String {
    if most == 0 {
        return String::new();
    }
    let bytes = request.vocabulary.bytes_of(&request.prompt);
    let text = String::from_utf8_lossy(&bytes);
    let from = text.len().saturating_sub(most);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text[from..].to_owned()
}
