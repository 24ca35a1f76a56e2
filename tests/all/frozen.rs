//! A released version of the interface does not change any more.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The `.wit` files of a folder by name.
fn interface(folder: &Path) -> BTreeMap<String, String> {
    let files = fs::read_dir(folder).expect("a folder of the repository").flatten().map(|entry| entry.path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "wit"));
    let named = files.map(|path| {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(path).expect("text"))
    });
    named.collect()
}

/// The version that every file of an interface names in its package line.
fn version(files: &BTreeMap<String, String>) -> Vec<u32> {
    let mut versions = files.iter().map(|(name, text)| {
        let line = text.lines().next().and_then(|line| line.strip_prefix("package tokenrouter:policy@"));
        (name, line.and_then(|line| line.strip_suffix(';')).expect("a package line comes first"))
    });
    let (_, first) = versions.next().expect("an interface has files");
    versions.for_each(|(name, version)| assert_eq!(version, first, "{name} is of another version"));
    first.split('.').map(|part| part.parse().expect("a number")).collect()
}

#[test]
fn the_interface_is_what_was_released_or_has_a_new_version() {
    let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit");
    let ours = interface(&wit);
    let now = version(&ours);
    let released: Vec<PathBuf> =
        fs::read_dir(wit.join("frozen")).expect("wit/frozen").flatten().map(|entry| entry.path()).collect();
    assert!(!released.is_empty());
    for folder in released {
        let frozen = interface(&folder);
        let of = version(&frozen);
        let name = of.iter().map(u32::to_string).collect::<Vec<_>>().join(".");
        assert!(folder.ends_with(&name), "{} holds version {name}", folder.display());
        assert!(now >= of, "wit/ is older than what was released");
        if now == of {
            assert!(
                ours == frozen,
                "wit/ differs from version {name}, which was released: raise the version in its package lines \
                 (wit/README.md says which number)"
            );
        }
    }
}
