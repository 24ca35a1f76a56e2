//! Between journeys and what the engine and the scheduler know of them: rows, shares and fates.

use std::collections::BTreeMap;
use std::ops::Range;

use engine::Row;
use journey::{Draw, Effect, Journey, JourneyId};
use scheduler::law::Load;
use scheduler::{Scheduler, Share, Turn};

use crate::runtime::group::{Fate, Whereto};
use crate::runtime::traveller::Traveller;

/// What becomes of a row, as its scheduling is told.
pub(super) fn fate(traveller: &Traveller, effect: Effect, token: bool) -> Fate {
    let next = match effect {
        Effect::Decode => Whereto::Stays,
        Effect::Leave { to } => Whereto::Leaves(traveller.route.models[to.index()]),
        Effect::Finish(_) => Whereto::Ends,
    };
    Fate { token, next }
}

/// The rows of the next step, and what it carries.
pub(super) fn choose(
    scheduler: &mut Scheduler,
    residents: &BTreeMap<JourneyId, Box<Traveller>>,
) -> (Vec<Share>, Load) {
    let Turn::Run(shares) = scheduler.next_turn() else { return (Vec::new(), Load::default()) };
    let context = shares.iter().map(|share| resident(residents, *share).journey.pending().0).sum();
    let tokens = shares.iter().map(|share| share.tokens).sum();
    let load = Load { rows: shares.len(), tokens, context };
    (shares, load)
}

pub(super) fn resident(residents: &BTreeMap<JourneyId, Box<Traveller>>, share: Share) -> &Traveller {
    residents.get(&share.journey).expect("the scheduler knows residents only")
}

/// The positions of a share after which a token is drawn: usually one, when everything that is pending is fed.
pub(super) fn drawn_after(journey: &Journey, share: Share) -> Range<usize> {
    let (end, wanted) = (journey.pending().0 + share.tokens, journey.wanted());
    wanted.start.min(end)..wanted.end.min(end)
}

pub(super) fn row<'a>(traveller: &'a Traveller, share: Share, draws: &'a [Draw<'a>]) -> Row<'a> {
    let (from, pending) = traveller.journey.pending();
    let salt = traveller.tenant().0;
    Row { journey: share.journey, salt, from, tokens: &pending[..share.tokens], draws }
}
