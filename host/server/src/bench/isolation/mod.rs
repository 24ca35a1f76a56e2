//! Whether one tenant's policy holds up another tenant: B streams beside an A that is idle, benign, or hostile.
//!
//! Requests go straight into the runtime, without HTTP. Every case is a server of its own, so that none begins with what
//! another one has taught it. Besides the gaps between B's tokens, its ids are compared with those beside an idle A.

mod report;
mod streams;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

pub use report::{Report, Row};

use super::Folder;
use super::routing::{RoutingError, started};
use crate::config::{Config, PolicySource, Route};
use crate::runtime::Runtime;
use streams::{Ids, Load, Seen};

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Models `small` and `large`, simulated or not.
    pub config: Config,
    /// Streams of B.
    pub streams: usize,
    /// Journeys of A.
    pub journeys: usize,
    /// Before tokens are counted, and while they are.
    pub seconds: (f64, f64),
    /// Most tokens of an answer.
    pub tokens: usize,
}

/// What A does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// Nothing.
    Idle,
    /// What B does.
    Benign,
    /// Every call loops until its fuel is used up.
    Spin,
    /// Every call takes almost all its fuel and answers.
    Burn,
    /// Every call traps.
    Trap,
    /// Every call takes and touches 60 MiB, then traps: the next one has a new memory.
    Bomb,
    /// Every call logs almost a megabyte.
    Flood,
}

impl Harm {
    /// All, the two to compare with first.
    pub const ALL: [Self; 7] =
        [Self::Idle, Self::Benign, Self::Spin, Self::Burn, Self::Trap, Self::Bomb, Self::Flood];

    /// As tables call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Benign => "benign",
            Self::Spin => "spin",
            Self::Burn => "burn",
            Self::Trap => "trap",
            Self::Bomb => "bomb",
            Self::Flood => "flood",
        }
    }

    /// The policy's component; `tests/all/hostile.rs` makes them.
    fn component(self) -> Option<&'static [u8]> {
        Some(match self {
            Self::Idle | Self::Benign => return None,
            Self::Spin => include_bytes!("guests/spin.wasm"),
            Self::Burn => include_bytes!("guests/burn.wasm"),
            Self::Trap => include_bytes!("guests/trap.wasm"),
            Self::Bomb => include_bytes!("guests/bomb.wasm"),
            Self::Flood => include_bytes!("guests/flood.wasm"),
        })
    }
}

/// Runs all cases, `progress` before each.
///
/// # Errors
/// [`RoutingError`].
pub async fn run(plan: &Plan, mut progress: impl FnMut(&str)) -> Result<Report, RoutingError> {
    let mut rows: Vec<Row> = Vec::new();
    let mut idle = Ids::new();
    for harm in Harm::ALL {
        progress(harm.name());
        let (mut row, ids) = case(plan, harm).await?;
        if harm == Harm::Idle {
            idle = ids;
        } else {
            row.same_ids = ids.iter().all(|(which, ids)| idle.get(which).is_none_or(|idle| agree(ids, idle)));
        }
        rows.push(row);
    }
    Ok(Report { rows, simulated: plan.config.models.values().any(|model| model.sim.is_some()) })
}

async fn case(plan: &Plan, harm: Harm) -> Result<(Row, Ids), RoutingError> {
    let folder = Folder::new()?;
    let mut config = plan.config.clone();
    let benign = config.routes.get(BENIGN).cloned();
    if let (Some(component), Some(benign)) = (harm.component(), benign) {
        let file = folder.path().join("hostile.wasm");
        std::fs::write(&file, component)?;
        let hostile = Route { policy: PolicySource::File(file), settings: BTreeMap::new(), ..benign };
        config.routes.insert(HOSTILE.to_owned(), hostile);
    }
    config.server.journeys_max = JOURNEYS_MAX;
    let runtime = started(config).await?;
    let seen = measured(plan, harm, &runtime).await;
    let policies = runtime.policies();
    runtime.shut_down(Duration::ZERO).await;
    let (b, a) = seen?;
    Ok((Row::new(harm, (&b, &a), plan.seconds.1, &policies), b.ids))
}

async fn measured(plan: &Plan, harm: Harm, runtime: &Runtime) -> Result<(Seen, Seen), RoutingError> {
    let load = |route: &str, (tenant, count): (u64, usize)| -> Result<Load, RoutingError> {
        let selected = runtime.catalog().select(route)?;
        let (before, measured) = plan.seconds;
        let seconds = (Duration::from_secs_f64(before), Duration::from_secs_f64(measured));
        Ok(Load { selected, tenant, count, tokens: plan.tokens, seconds })
    };
    let b = load(BENIGN, (2, plan.streams))?;
    let a = match harm {
        Harm::Idle => load(BENIGN, (1, 0))?,
        Harm::Benign => load(BENIGN, (1, plan.journeys))?,
        _ => load(HOSTILE, (1, plan.journeys))?,
    };
    tokio::try_join!(b.run(runtime), a.run(runtime))
}

/// The same as far as both go: a stream is cut off where the time is over.
fn agree(one: &[u32], other: &[u32]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}

/// The route of whoever means no harm.
const BENIGN: &str = "pair/entropy";
const HOSTILE: &str = "hostile";

const JOURNEYS_MAX: NonZeroUsize = NonZeroUsize::new(256).expect("not 0");
