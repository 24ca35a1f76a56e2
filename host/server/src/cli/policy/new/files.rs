//! The files of a new project: where they go, and what they hold.
//!
//! The interface, the SDK and the wrappers are the repository's own; only the policies themselves are templates.

use super::Language;

/// Path within the project, and content; a template's own name is still in both.
pub(super) fn of(language: Language) -> Vec<(&'static str, &'static str)> {
    match language {
        Language::Rust => [RUST, SDK, &WIT_OF_SDK].concat(),
        Language::Python => [PYTHON, &WIT].concat(),
        Language::Js => [JS, &WIT].concat(),
    }
}

const RUST: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("../templates/rust/Cargo.toml.in")),
    ("src/lib.rs", include_str!("../templates/rust/lib.rs")),
    ("tokenrouter/policies/sdk/Cargo.toml", include_str!("../templates/rust/sdk.toml.in")),
];

const PYTHON: &[(&str, &str)] = &[
    ("doubt.py", include_str!("../templates/python/doubt.py")),
    ("tokenrouter.py", include_str!("../../../../../../examples/policies/python/tokenrouter.py")),
    ("build.sh", include_str!("../../../../../../examples/policies/python/build.sh")),
];

const JS: &[(&str, &str)] = &[
    ("doubt.js", include_str!("../templates/js/doubt.js")),
    ("tokenrouter.js", include_str!("../../../../../../examples/policies/javascript/tokenrouter.js")),
    ("build.sh", include_str!("../../../../../../examples/policies/javascript/build.sh")),
];

/// A file of the SDK, at the place that it has in the repository.
macro_rules! sdk {
    ($($name:literal),*) => {
        &[$((
            concat!("tokenrouter/policies/sdk/src/", $name),
            include_str!(concat!("../../../../../../policies/sdk/src/", $name)),
        )),*]
    };
}

/// A file of `wit/`, in a folder.
macro_rules! wit {
    ($folder:literal) => {
        [
            (concat!($folder, "host.wit"), include_str!("../../../../../../wit/host.wit")),
            (concat!($folder, "manifest.wit"), include_str!("../../../../../../wit/manifest.wit")),
            (concat!($folder, "router.wit"), include_str!("../../../../../../wit/router.wit")),
            (concat!($folder, "types.wit"), include_str!("../../../../../../wit/types.wit")),
            (concat!($folder, "view.wit"), include_str!("../../../../../../wit/view.wit")),
            (concat!($folder, "world.wit"), include_str!("../../../../../../wit/world.wit")),
        ]
    };
}

const SDK: &[(&str, &str)] =
    sdk!["bindings.rs", "host.rs", "lib.rs", "session.rs", "shown.rs", "testing.rs", "values.rs", "wasm.rs"];
const WIT_OF_SDK: [(&str, &str); 6] = wit!("tokenrouter/wit/");
const WIT: [(&str, &str); 6] = wit!("wit/");

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn names(folder: &str, extension: &str) -> Vec<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        let files = fs::read_dir(folder).expect("a folder of the repository").flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(extension)).collect();
        names.sort();
        names
    }

    fn written(files: &[(&str, &str)]) -> Vec<String> {
        files.iter().filter_map(|(path, _)| path.rsplit('/').next()).map(str::to_owned).collect()
    }

    #[test]
    fn the_whole_sdk_and_the_whole_interface_are_written() {
        assert_eq!(written(SDK), names("policies/sdk/src", ".rs"));
        assert_eq!(written(&WIT), names("wit", ".wit"));
    }

    #[test]
    fn the_sdk_is_built_with_the_versions_of_the_repository() {
        let ours = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml"));
        let ours = ours.expect("the workspace's manifest");
        let (_, manifest) = RUST[2];
        for line in
            manifest.lines().filter(|line| ["libm", "wit-b", "dlmal"].iter().any(|p| line.starts_with(p)))
        {
            assert!(ours.contains(line), "{line}");
        }
    }
}
