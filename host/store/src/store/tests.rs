//! Changes, the log that tells of them, and what happens to who tampers.

use super::*;
use crate::change::Why;
use crate::policy_history::{Manifest, Uploaded};

const WHY: Why<'static> = Why { action: "test", detail: "a test" };

fn put(store: &Store, kind: Kind, name: &str, value: &str) -> u64 {
    store.change("tester", 7, |change| change.put::<str>(kind, name, value, WHY)).unwrap()
}

fn opened() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    (folder, store)
}

#[test]
fn records_outlive_the_process_and_count_their_changes() {
    let (folder, store) = opened();
    assert_eq!([put(&store, Kind::Tenant, "a", "1"), put(&store, Kind::Tenant, "a", "2")], [1, 2]);
    let removed =
        |store: &Store| store.change("tester", 8, |change| change.remove(Kind::Tenant, "a", WHY)).unwrap();
    assert_eq!([removed(&store), removed(&store)], [true, false]);
    assert_eq!(put(&store, Kind::Tenant, "a", "3"), 4, "no two states have one version");
    drop(store);
    let store = Store::open(folder.path()).unwrap();
    let record = store.get::<String>(Kind::Tenant, "a").unwrap().unwrap();
    assert_eq!(record, Record { version: 4, changed_unix_ms: 7, value: "3".to_owned() });
    assert_eq!(store.list::<String>(Kind::Tenant).unwrap().len(), 1);
    assert!(store.list::<String>(Kind::Key).unwrap().is_empty());
}

#[test]
fn a_second_process_is_refused() {
    let (folder, _store) = opened();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::InUse(_))));
}

#[test]
fn a_first_start_that_was_cut_short_is_made_up_for() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("state.new"), b"half a database").unwrap();
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(put(&store, Kind::Tenant, "a", "1"), 1);
}

#[test]
fn only_this_user_can_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("data");
    let _store = Store::open(&inside).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&inside), mode(&inside.join("state.redb"))), (0o700, 0o600));
}

#[test]
fn a_change_that_fails_has_not_happened_and_is_not_logged() {
    let (_folder, store) = opened();
    put(&store, Kind::Key, "k", "old");
    let failed = store.change("tester", 9, |change| {
        change.put(Kind::Key, "k", "new", WHY)?;
        change.put(Kind::Key, "other", "new", WHY)?;
        assert_eq!(change.get::<String>(Kind::Key, "k")?.unwrap().value, "new");
        Err::<(), _>(StoreError::Audit("stop".to_owned()))
    });
    assert!(failed.is_err());
    assert_eq!(store.get::<String>(Kind::Key, "k").unwrap().unwrap().value, "old");
    assert_eq!(store.audit(1, 10).unwrap().len(), 1);
    store.verify(None).unwrap();
}

#[test]
fn the_log_tells_who_did_what_with_digests_and_an_anchor() {
    let (_folder, store) = opened();
    put(&store, Kind::Experiment, "p", "one");
    put(&store, Kind::Experiment, "p", "two");
    let anchor = store.verify(None).unwrap().head;
    store.change("admin", 8, |change| change.remove(Kind::Experiment, "p", WHY)).unwrap();
    let entries = store.audit(1, 10).unwrap();
    assert_eq!(entries.len(), 3);
    assert_eq!((entries[0].before, entries[2].after), (None, None));
    assert_eq!((entries[0].after, entries[1].after), (entries[1].before, entries[2].before));
    assert_eq!((entries[2].who.as_str(), entries[2].sequence), ("admin", 3));
    assert_eq!(store.audit(3, 10).unwrap(), entries[2..]);
    let verified = store.verify(Some(anchor)).unwrap();
    assert_eq!((verified.head.sequence, verified.records), (3, 0));
    let other = Anchor { digest: Digest::of(b"other"), ..anchor };
    assert!(store.verify(Some(other)).unwrap_err().to_string().contains("not the one that was noted"));
    let gone = Anchor { sequence: 4, ..anchor };
    assert!(store.verify(Some(gone)).unwrap_err().to_string().contains("is gone"));
}

/// Whoever can write the file: does it show?
#[test]
fn tampering_shows() {
    let tampered = |with: &dyn Fn(&redb::WriteTransaction)| {
        let (_folder, store) = opened();
        for at in 1..=3 {
            put(&store, Kind::Tenant, &format!("t{at}"), "value");
        }
        let transaction = store.database().begin_write().unwrap();
        with(&transaction);
        transaction.commit().unwrap();
        store.verify(None).unwrap_err().to_string()
    };
    let record = tampered(&|transaction| {
        let mut records = transaction.open_table(RECORDS).unwrap();
        records.insert(("tenant", "t1"), b"{}".as_slice()).unwrap();
    });
    assert!(record.contains("the tenant \"t1\" was changed without an entry"), "{record}");
    let removed = tampered(&|transaction| {
        transaction.open_table(RECORDS).unwrap().remove(("tenant", "t2")).unwrap();
    });
    assert!(removed.contains("a record was removed without an entry"), "{removed}");
    let dropped = tampered(&|transaction| {
        transaction.open_table(AUDIT).unwrap().remove(2).unwrap();
    });
    assert!(dropped.contains("entry 2 is missing"), "{dropped}");
    let last = tampered(&|transaction| {
        transaction.open_table(AUDIT).unwrap().remove(3).unwrap();
    });
    assert!(last.contains("the tenant \"t3\" was changed without an entry"), "{last}");
    let edited = tampered(&|transaction| {
        let mut log = transaction.open_table(AUDIT).unwrap();
        let text = String::from_utf8(log.get(2).unwrap().unwrap().value().to_vec()).unwrap();
        log.insert(2, text.replace("tester", "nobody").as_bytes()).unwrap();
    });
    assert!(edited.contains("entry 3 does not follow the one before it"), "{edited}");
}

#[test]
fn a_revision_without_its_bytes_shows() {
    let (_folder, store) = opened();
    let upload = |digest| {
        let (by, policy, doc) = ("k".to_owned(), "p".to_owned(), "d".to_owned());
        let manifest = Manifest::default();
        let uploaded = Uploaded { digest, at_unix_ms: 1, by, bytes: 1, policy, doc, manifest };
        let history = PolicyHistory::default().upload(uploaded).unwrap();
        store.change("tester", 1, |change| change.put(Kind::Policy, "p", &history, WHY)).unwrap();
    };
    upload(store.blobs().put(b"component").unwrap());
    assert_eq!(store.verify(None).unwrap().revisions, 1);
    upload(Digest::of(b"never put"));
    assert!(matches!(store.verify(None), Err(StoreError::NoBlob(_))));
}

#[test]
fn observations_replace_each_other_and_are_forgotten() {
    let (_folder, store) = opened();
    store.observe(Area::Feedback, 10, [("r1", &0.5), ("r2", &0.75)]).unwrap();
    store.observe(Area::Feedback, 20, [("r1", &1.0)]).unwrap();
    store.observe(Area::Tallies, 5, [("e", &7.0)]).unwrap();
    assert_eq!(store.forget_before(Area::Feedback, 20).unwrap(), 1);
    let got = |area, key| store.observed::<f64>(area, key).unwrap();
    assert_eq!([got(Area::Feedback, "r1"), got(Area::Feedback, "r2")], [Some(1.0), None]);
    assert_eq!(got(Area::Tallies, "e"), Some(7.0));
    assert!(store.audit(1, 1).unwrap().is_empty());
}

#[test]
fn a_store_of_the_future_is_left_alone() {
    let (folder, store) = opened();
    let transaction = store.database().begin_write().unwrap();
    transaction.open_table(META).unwrap().insert("format", FORMAT + 1).unwrap();
    transaction.commit().unwrap();
    drop(store);
    assert!(matches!(Store::open(folder.path()), Err(StoreError::Newer { found: 2, known: 1 })));
}
