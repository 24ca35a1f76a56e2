//! Whether a component is of the world that is served, and what to do about it if not.

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::error::PolicyError;

/// The first eight bytes tell components, core modules and everything else apart.
pub(crate) fn check_kind(bytes: &[u8]) -> Result<(), PolicyError> {
    if bytes.starts_with(COMPONENT) {
        Ok(())
    } else if bytes.starts_with(CORE_MODULE) {
        Err(PolicyError::ModuleNotComponent)
    } else {
        let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_BYTES)]);
        Err(PolicyError::NotWasm { bytes: bytes.len(), head: format!("{head:?}") })
    }
}

/// Checks imports and exports by name, for errors that people understand. The linker then checks the types.
pub(super) fn check_names(engine: &Engine, component: &Component) -> Result<(), PolicyError> {
    let ty = component.component_type();
    for (name, _) in ty.imports(engine) {
        if ![HOST, VIEW, TYPES, MANIFEST].contains(&name) {
            return Err(wrong(forbidden(name)));
        }
    }
    let mut others = Vec::new();
    for (name, export) in ty.exports(engine) {
        if name != POLICY {
            others.push(name.to_owned());
            continue;
        }
        let ComponentItem::ComponentInstance(interface) = export.ty else { continue };
        let names: Vec<&str> = interface.exports(engine).map(|(name, _)| name).collect();
        let missing = FUNCTIONS.iter().find(|function| !names.contains(function));
        return missing.map_or(Ok(()), |function| {
            Err(wrong(format!("its {POLICY} lacks `{function}`; build it against wit/")))
        });
    }
    let found = if others.is_empty() { "nothing".to_owned() } else { others.join(", ") };
    Err(wrong(format!("it does not export {POLICY}; it exports {found}; build it against wit/")))
}

/// What the linker says about a component whose names are right.
pub(super) fn mismatch(error: &wasmtime::Error) -> PolicyError {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    wrong(format!("{}; build it against wit/", causes.join(": ")))
}

fn forbidden(import: &str) -> String {
    if import.starts_with("wasi:") {
        return format!(
            "it imports {import}, and a policy gets no WASI; build without it: in Rust \
             `#![cfg_attr(target_arch = \"wasm32\", no_std)]` and policy-sdk, in Python `--stub-wasi`, in JavaScript \
             with every feature disabled"
        );
    }
    if import.starts_with(PACKAGE) {
        return format!("it imports {import}, but {HOST} is served; build it against this server's wit/");
    }
    format!("it imports {import}; a policy may import {HOST} and {VIEW} only")
}

fn wrong(problem: String) -> PolicyError {
    PolicyError::WrongWorld { world: WORLD, problem }
}

/// The world that is served.
const WORLD: &str = "tokenrouter:policy/router@0.1.0";
const PACKAGE: &str = "tokenrouter:policy/";
const HOST: &str = "tokenrouter:policy/host@0.1.0";
const VIEW: &str = "tokenrouter:policy/view@0.1.0";
/// Types alone; components import it to name them.
const TYPES: &str = "tokenrouter:policy/types@0.1.0";
const MANIFEST: &str = "tokenrouter:policy/manifest@0.1.0";
const POLICY: &str = "tokenrouter:policy/policy@0.1.0";
const FUNCTIONS: [&str; 7] = [
    "describe",
    "session",
    "[constructor]session",
    "[method]session.enter",
    "[method]session.route",
    "[method]session.send",
    "[method]session.receive",
];
const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";
const HEAD_BYTES: usize = 16;
