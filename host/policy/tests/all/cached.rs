//! A host with a directory for compiled components.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use policy::{Call, Compilations, Limits, PolicyError, PolicyHost};
use tempfile::TempDir;

use crate::guest::{Guest, TRAP};
use crate::support::session;

fn host(folder: &TempDir) -> PolicyHost {
    let limits = Limits { sessions: 4, ..Limits::default() };
    PolicyHost::with_cache(limits, &folder.path().join("cache")).expect("it is made for us")
}

fn had(compiled: u64, recalled: u64) -> Compilations {
    Compilations { compiled, recalled }
}

fn files(folder: &TempDir) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.path().join("cache")).expect("the host made it");
    entries.map(|entry| entry.expect("it can be listed").path()).collect()
}

#[test]
fn known_bytes_are_compiled_once() {
    let folder = tempfile::tempdir().unwrap();
    let component = Guest::good().component();
    let first = host(&folder);
    first.load(&component).unwrap();
    first.load(&component).unwrap();
    assert_eq!(first.compilations(), had(1, 1));
    let second = host(&folder);
    let revision = second.load(&component).unwrap();
    session(&revision).route(10, &crate::support::sure()).expect("recalled code runs");
    assert_eq!(second.compilations(), had(0, 1));
    second.load(&Guest::good().always(Call::Route, "(nop)").component()).unwrap();
    assert_eq!((second.compilations(), files(&folder).len()), (had(1, 1), 2));
}

#[test]
fn damaged_code_is_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let component = Guest::good().component();
    let host = host(&folder);
    host.load(&component).unwrap();
    let path = files(&folder).remove(0);
    for damage in [|code: &mut Vec<u8>| code.truncate(1000), |code: &mut Vec<u8>| code[2000] ^= 0x10] {
        let before = host.compilations();
        let mut code = fs::read(&path).unwrap();
        damage(&mut code);
        fs::write(&path, &code).unwrap();
        host.load(&component).expect("damage is no error");
        host.load(&component).expect("and it is mended");
        assert_eq!(host.compilations(), had(before.compiled + 1, before.recalled + 1));
    }
}

#[test]
fn what_is_refused_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    host(&folder).load(&Guest::good().always(Call::Route, TRAP).component()).expect_err("it traps");
    assert!(files(&folder).is_empty());
}

#[test]
fn an_open_directory_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let error = PolicyHost::with_cache(Limits { sessions: 4, ..Limits::default() }, folder.path())
        .err()
        .expect("others can look in");
    assert!(matches!(error, PolicyError::Cache { .. }), "{error}");
}
