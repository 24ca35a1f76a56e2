//! Client-server loop: gives each waiting request a place, a journey and a policy session, when it is its turn.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use journey::{Journey, Request};
use policy::{Lane, Revision, Start};
use scheduler::Line;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::{Inbound, Peers, Shared, Submission};
use crate::runtime::answer::{Event, SHUTTING_DOWN};
use crate::runtime::traveller::{Place, Traveller};

pub(super) async fn run(
    mut submitted: mpsc::Receiver<Submission>,
    peers: Arc<Peers>,
    shared: Shared,
    stop: CancellationToken,
) {
    let mut line = Line::default();
    // Kept from turn to turn, as whoever asks again is behind the loops of other models; none where nobody waits, or a place
    // could be given to nobody.
    let mut place = None;
    let mut sweep = tokio::time::interval(SWEEPS_APART);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return give_up(line, submitted, &shared),
            submission = submitted.recv() => {
                let Some(submission) = submission else { return };
                line.push(submission.behalf, submission);
            }
            permit = next(&mut place) => {
                place = None;
                admit_next(&mut line, permit, &peers, &shared);
            }
            _ = sweep.tick(), if !line.is_empty() => line.retain(|waiting| !has_gone(waiting, &shared)),
        }
        if line.is_empty() {
            place = None;
        } else {
            place.get_or_insert_with(|| Box::pin(shared.places.next()));
        }
    }
}

/// The server shuts down: whoever waits is told.
fn give_up(mut line: Line<Submission>, mut submitted: mpsc::Receiver<Submission>, shared: &Shared) {
    // Nobody can come any more whom nobody tells.
    submitted.close();
    let in_line = std::iter::from_fn(|| line.pop(|_| 0));
    let coming = std::iter::from_fn(|| submitted.try_recv().ok());
    for submission in in_line.chain(coming) {
        let last = Event::Failed { message: SHUTTING_DOWN.to_owned() };
        shared.metrics.journey_ended(&last, &submission.stopwatch);
        if submission.client.try_send(last).is_err() {
            tracing::debug!(journey = %submission.id, "the client had gone");
        }
    }
}

/// The place that is waited for, if one is.
async fn next<F: Future>(place: &mut Option<Pin<Box<F>>>) -> F::Output {
    match place {
        Some(place) => place.await,
        None => std::future::pending().await,
    }
}

/// Gives a place to whose turn it is among those who are still there.
fn admit_next(
    line: &mut Line<Submission>,
    permit: OwnedSemaphorePermit,
    peers: &Arc<Peers>,
    shared: &Shared,
) {
    while let Some(submission) = line.pop(|tenant| shared.places.held(tenant)) {
        if !has_gone(&submission, shared) {
            return admit(submission, permit, peers, shared);
        }
    }
}

/// Whether the client has left, which is counted.
fn has_gone(submission: &Submission, shared: &Shared) -> bool {
    let has_gone = submission.client.is_closed();
    if has_gone {
        shared.metrics.journey_cancelled();
    }
    has_gone
}

fn admit(submission: Submission, permit: OwnedSemaphorePermit, peers: &Arc<Peers>, shared: &Shared) {
    let begin = start(&submission);
    let Submission {
        id,
        behalf,
        told,
        stopwatch,
        span,
        request,
        translations,
        route,
        client,
        accepted,
        waiting,
        ..
    } = submission;
    drop(waiting);
    let (mut bill, mut witness) = told;
    let prompt = if submission.counts_prompt { request.prompt.len() } else { 0 };
    bill.add(prompt);
    witness.begins(prompt);
    shared.metrics.journey_begins(prompt);
    let journey = (Journey::new(id, request), translations);
    let place = Place::new(shared.places.hold(behalf.tenant, permit), accepted);
    let told = (bill, witness, stopwatch, span);
    let mut traveller = Box::new(Traveller::new((journey, behalf, told), route, client, place, shared));
    traveller.lead(submission.followers);
    if let Some((revision, start)) = begin {
        if revision.lane(behalf.tenant.0) == Lane::Own {
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
        tenant: submission.behalf.tenant.0,
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

/// How long a request whose client has gone may stay in line.
const SWEEPS_APART: Duration = Duration::from_millis(200);
