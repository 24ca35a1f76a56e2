//! Makes components out of `guest.wat`: guests whose every call can be made to do anything.

use std::fs;
use std::path::Path;

use policy::Call;
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// A guest to be made.
#[derive(Clone)]
pub(crate) struct Guest {
    module: String,
    /// Replaced in every file of `wit/` before the module is wrapped: from, to.
    wit: Vec<(&'static str, &'static str)>,
    /// A package that `wit/` does not have.
    dependency: Option<&'static str>,
}

impl Guest {
    /// A guest that does what `guest.wat` says.
    pub(crate) fn good() -> Self {
        Self { module: include_str!("guest.wat").to_owned(), wit: Vec::new(), dependency: None }
    }

    /// A guest made of a module of its own.
    pub(crate) fn module(text: &str) -> Self {
        Self { module: text.to_owned(), ..Self::good() }
    }

    /// Runs this code first in every such call.
    pub(crate) fn always(self, call: Call, code: &str) -> Self {
        self.put(place(call), code)
    }

    /// Runs this code first in such a call once the guest is armed: see `guest.wat`. A rehearsal never arms it.
    pub(crate) fn armed(self, call: Call, code: &str) -> Self {
        self.put(place(call), &format!("(if (global.get $armed) (then {code}))"))
    }

    /// Fills a place of the module.
    pub(crate) fn put(mut self, place: &str, code: &str) -> Self {
        self.module = self.module.replace(place, code);
        self
    }

    /// Replaces text in `wit/`.
    pub(crate) fn wit(mut self, from: &'static str, to: &'static str) -> Self {
        self.wit.push((from, to));
        self
    }

    /// Replaces text in the module and in `wit/`.
    pub(crate) fn everywhere(self, from: &'static str, to: &'static str) -> Self {
        self.put(from, to).wit(from, to)
    }

    /// Adds a package beside `wit/`.
    pub(crate) fn dependency(mut self, text: &'static str) -> Self {
        self.dependency = Some(text);
        self
    }

    /// The core module alone.
    pub(crate) fn core(&self) -> Vec<u8> {
        let mut text = self.module.replace("@NAME@", "\\05\\00\\00\\00");
        for place in
            ["@IMPORTS@", "@DESCRIBE@", "@START@", "@ENTER@", "@ROUTE@", "@SEND@", "@RECEIVE@", "@END@"]
        {
            text = text.replace(place, "");
        }
        wat::parse_str(text).expect("the guest's text is a module")
    }

    /// The component.
    pub(crate) fn component(&self) -> Vec<u8> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        self.write_wit(folder.path());
        let mut resolve = Resolve::default();
        let (package, _) = resolve.push_dir(folder.path()).expect("wit/ parses");
        let world = resolve.select_world(&[package], Some("router")).expect("wit/ has the world");
        let mut module = self.core();
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)
            .expect("a module takes metadata");
        let mut encoder = ComponentEncoder::default();
        encoder
            .module(&module)
            .expect("the module fits the world")
            .validate(true)
            .encode()
            .expect("it is a component")
    }

    fn write_wit(&self, folder: &Path) {
        // This file is used from several crates.
        let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let root = above.find(|folder| folder.join("wit/world.wit").is_file()).expect("wit/ is there");
        for file in fs::read_dir(root.join("wit")).expect("wit/ is there") {
            let path = file.expect("wit/ can be listed").path();
            if path.extension().is_some_and(|extension| extension == "wit") {
                let text = fs::read_to_string(&path).expect("a WIT file is text");
                let text = self.wit.iter().fold(text, |text, (from, to)| text.replace(from, to));
                fs::write(folder.join(path.file_name().expect("a file")), text).expect("the folder is ours");
            }
        }
        if let Some(dependency) = self.dependency {
            fs::create_dir_all(folder.join("deps/extra")).expect("the folder is ours");
            fs::write(folder.join("deps/extra/extra.wit"), dependency).expect("the folder is ours");
        }
    }
}

/// Code that writes these words from an address on.
pub(crate) fn words(at: u32, words: &[u32]) -> String {
    let store =
        |(index, word): (u32, &u32)| format!("(i32.store (i32.const {}) (i32.const {word}))", at + 4 * index);
    (0..).zip(words).map(store).collect()
}

/// Code of `route` or `receive` that answers these words: the discriminant, then what the case holds.
pub(crate) fn answer(of: &[u32]) -> String {
    format!("{} (return (i32.const {ANSWER}))", words(ANSWER, of))
}

/// Where an answer is written; beyond it, up to 65536, is room for lists.
const ANSWER: u32 = 4096;

fn place(call: Call) -> &'static str {
    match call {
        Call::Describe => "@DESCRIBE@",
        Call::Start => "@START@",
        Call::Enter => "@ENTER@",
        Call::Route => "@ROUTE@",
        Call::Send => "@SEND@",
        Call::Receive => "@RECEIVE@",
        Call::End => "@END@",
        Call::Instantiate => panic!("a guest has no code at instantiation"),
    }
}

/// Code that traps.
pub(crate) const TRAP: &str = "(unreachable)";
/// Code that never ends.
pub(crate) const LOOP: &str = "(loop $again (br $again))";
/// Code whose every instruction writes 64 KiB, and that never ends.
pub(crate) const FILL: &str =
    "(loop $again (memory.fill (i32.const 131072) (i32.const 0) (i32.const 65536)) (br $again))";
/// Code that takes memory until it is refused, and then gives up as compiled guests do.
pub(crate) const HOARD: &str =
    "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (unreachable)";
/// Code that recurses without end.
pub(crate) const RECURSE: &str = "(call $deeper)";
/// Code that gives the host a string of 2 MB.
pub(crate) const SHOUT: &str =
    "(drop (memory.grow (i32.const 64))) (call $log (i32.const 0) (i32.const 2000000))";
