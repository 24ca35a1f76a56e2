//! All subservers: how one begins among the others, and how it ends.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::cross_model::{Outgoing, Peers};
use super::decode_loop::DecodeLoop;
use super::{Bounds, Inbound, Powered, Shared, Subserver, client_loop, thread};
use crate::runtime::catalog::ModelIx;
use crate::runtime::group::Inbox;

/// The subservers that run, connected to each other.
pub(in crate::runtime) struct Fleet {
    bounds: Bounds,
    shared: Shared,
    peers: Arc<Peers>,
    /// Places of models that run, or are about to end.
    taken: Mutex<BTreeSet<ModelIx>>,
    /// Ends all of them.
    stop: CancellationToken,
    /// One task for each, which joins its loops.
    running: TaskTracker,
    /// Where tasks run, whoever asks for a subserver.
    tokio: Handle,
}

impl Fleet {
    /// Must be called within the tokio runtime that its tasks are to run on.
    pub(in crate::runtime) fn new(bounds: Bounds, shared: Shared, stop: CancellationToken) -> Self {
        let (peers, taken, running) = (Arc::default(), Mutex::default(), TaskTracker::new());
        Self { bounds, shared, peers, taken, stop, running, tokio: Handle::current() }
    }

    /// Begins a subserver for an engine.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub(in crate::runtime) fn seat(self: &Arc<Self>, powered: Powered) -> io::Result<(ModelIx, Subserver)> {
        let here = self.take_place();
        let bell = self.shared.group.join(here, &powered.seating());
        // One message per journey at most, and the one that stops the loop.
        let (inbox, received) = Inbox::new(self.bounds.journeys_max + 1, Arc::clone(&bell));
        self.peers.open(here, inbox.clone());
        let stop = self.stop.child_token();
        let alive = Arc::new(AtomicBool::new(true));
        let (submissions, submitted) = mpsc::channel(self.bounds.queue_max);
        let name = powered.name.clone();
        let outgoing = Outgoing::new(here, inbox.clone(), Arc::clone(&self.peers));
        let decode = DecodeLoop::new(powered, (received, bell), outgoing, (here, &self.shared));
        let decoding = match thread::on_its_thread(&name, decode, Arc::clone(&alive)) {
            Ok(decoding) => decoding,
            Err(error) => {
                self.leave(here);
                return Err(error);
            }
        };
        let admitting =
            client_loop::run(submitted, Arc::clone(&self.peers), self.shared.clone(), stop.clone());
        let mut loops = JoinSet::new();
        let (fleet, stopped) = (Arc::clone(self), stop.clone());
        let keeping = async move {
            loops.spawn(decoding);
            loops.spawn(admitting);
            stopped.cancelled().await;
            fleet.end(here, inbox, loops).await;
        };
        self.running.spawn_on(keeping, &self.tokio);
        let (queue_max, stop) = (self.bounds.queue_max, stop.drop_guard());
        Ok((here, Subserver { submissions, queue_max, alive, _stop: stop }))
    }

    /// Waits until all have ended; they do once the runtime has told them to stop.
    pub(in crate::runtime) async fn join(&self) {
        self.running.close();
        self.running.wait().await;
    }

    async fn end(&self, here: ModelIx, inbox: Inbox<Inbound>, mut loops: JoinSet<()>) {
        if inbox.send(Inbound::Stop).await.is_err() {
            tracing::debug!("the decode loop had already ended");
        }
        while let Some(ended) = loops.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a loop ended badly");
            }
        }
        self.leave(here);
    }

    /// The lowest place that is free: it is given again once the loops of its model have ended.
    fn take_place(&self) -> ModelIx {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let free = (0..=u16::MAX).map(ModelIx).find(|place| taken.insert(*place));
        free.expect("memory ends before places do")
    }

    fn leave(&self, here: ModelIx) {
        self.peers.close(here);
        self.shared.group.leave(here);
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&here);
    }
}
