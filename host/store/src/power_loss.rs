//! What is there after the power fails, at any moment: everything acknowledged, at most the change in progress on top.
//!
//! Killing a process loses nothing that the system has in its cache, so this is tested apart: a database in memory notes
//! every write and sync. For a moment chosen at random, the disk has all writes up to the last sync before it, and of those
//! after it any, in whole or only their beginning.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use redb::{Builder, StorageBackend};

use crate::blobs::Blobs;
use crate::change::Why;
use crate::records::Kind;
use crate::store::Store;

#[test]
fn whatever_the_disk_had_not_yet_written_the_store_is_one_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let tape = Tape::default();
    let store = open(&tape, folder.path()).unwrap();
    tape.note(Event::Acknowledged);
    for step in 1..=STEPS {
        change(&store, step);
        tape.note(Event::Acknowledged);
    }
    let events = tape.0.lock().unwrap().events.clone();
    let is_ready = |event: &Event| matches!(event, Event::Acknowledged);
    // Before the first one the file has another name.
    let ready = events.iter().position(is_ready).unwrap() + 1;
    let mut rng = StdRng::seed_from_u64(1);
    for _ in 0..600 {
        let moment = rng.random_range(ready..=events.len());
        let acknowledged = events[..moment].iter().filter(|event| is_ready(event)).count();
        let after = Tape::of(disk(&events[..moment], &mut rng));
        let store = open(&after, folder.path()).unwrap_or_else(|error| panic!("at {moment}: {error:?}"));
        store.verify(None).unwrap_or_else(|error| panic!("at {moment}: {error}"));
        let state = state(&store);
        // The first one was the opening of an empty store.
        let possible = acknowledged - 1..=acknowledged;
        let step = possible.into_iter().find(|&step| state == expected(step as u64));
        assert!(step.is_some(), "at {moment}, {acknowledged} acknowledged: {state:?}");
    }
}

fn change(store: &Store, step: u64) {
    let why = Why { action: "step", detail: "" };
    let made = store.change("tester", step, |change| {
        change.put(Kind::Tenant, &format!("t{}", step % 5), &step, why)?;
        change.put(Kind::Experiment, &format!("e{}", step % 3), &step, why)?;
        change.remove(Kind::Tenant, &format!("t{}", (step + 2) % 5), why)
    });
    made.unwrap();
}

fn expected(steps: u64) -> BTreeMap<String, u64> {
    let mut state = BTreeMap::new();
    for step in 1..=steps {
        state.insert(format!("t{}", step % 5), step);
        state.insert(format!("e{}", step % 3), step);
        state.remove(&format!("t{}", (step + 2) % 5));
    }
    state
}

fn state(store: &Store) -> BTreeMap<String, u64> {
    let of = |kind| store.list::<u64>(kind).unwrap().into_iter().map(|(name, record)| (name, record.value));
    of(Kind::Tenant).chain(of(Kind::Experiment)).collect()
}

fn open(tape: &Tape, blobs: &std::path::Path) -> Result<Store, crate::StoreError> {
    let database = Builder::new().create_with_backend(tape.clone())?;
    Store::of(database, Blobs::open(blobs.to_owned())?)
}

/// What a disk may have after these events.
fn disk(events: &[Event], rng: &mut StdRng) -> Vec<u8> {
    let synced = events.iter().rposition(|event| matches!(event, Event::Sync)).unwrap_or(0);
    let mut bytes = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let luck = if at < synced { 0 } else { rng.random_range(0..3) };
        match event {
            Event::Length(length) if luck < 2 => bytes.resize(*length, 0),
            Event::Write(offset, data) => match luck {
                0 => write(&mut bytes, *offset, data),
                1 => write(&mut bytes, *offset, &data[..rng.random_range(0..=data.len())]),
                _ => {}
            },
            Event::Length(_) | Event::Sync | Event::Acknowledged => {}
        }
    }
    bytes
}

fn write(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    bytes.resize(bytes.len().max(offset + data.len()), 0);
    bytes[offset..offset + data.len()].copy_from_slice(data);
}

#[derive(Clone, Debug)]
enum Event {
    Write(usize, Vec<u8>),
    Length(usize),
    Sync,
    /// The store said that a change is durable.
    Acknowledged,
}

/// A disk in memory that notes what happens to it.
#[derive(Clone, Debug, Default)]
struct Tape(Arc<Mutex<Noted>>);

#[derive(Debug, Default)]
struct Noted {
    bytes: Vec<u8>,
    events: Vec<Event>,
}

impl Tape {
    fn of(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(Noted { bytes, events: Vec::new() })))
    }

    fn note(&self, event: Event) {
        self.0.lock().unwrap().events.push(event);
    }
}

impl StorageBackend for Tape {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.0.lock().unwrap().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let noted = self.0.lock().unwrap();
        let from = offset as usize;
        let bytes = noted.bytes.get(from..from + out.len());
        out.copy_from_slice(bytes.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.note(Event::Length(len as usize));
        self.0.lock().unwrap().bytes.resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.note(Event::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.note(Event::Write(offset as usize, data.to_vec()));
        write(&mut self.0.lock().unwrap().bytes, offset as usize, data);
        Ok(())
    }
}

const STEPS: u64 = 30;
