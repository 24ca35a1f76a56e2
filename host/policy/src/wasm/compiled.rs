//! From a component's bytes to machine code, and machine code that was made before or elsewhere.

use std::hash::{Hash as _, Hasher};

use wasmtime::component::Component;
use wasmtime::{Config, Engine};

use crate::digest::{Digest, Hashing};
use crate::error::PolicyError;

/// What decides about the code that is made: the same in the server and in the process that compiles for it.
pub(super) fn config() -> Config {
    let mut config = Config::new();
    // Policies are synchronous; without the concurrency machinery a call costs a third.
    config.concurrency_support(false);
    // Fuel bounds what a call does, the same under any load; epochs bound its time, whatever fuel does not see.
    config.consume_fuel(true);
    config.epoch_interruption(true);
    config.wasm_memory64(false);
    // 4 GiB of address space for each memory make bounds checks free. It is reserved, not used.
    config.memory_reservation(4 << 30);
    config
}

/// Names an engine's configuration, the version of wasmtime and the processor: code fits where they are the same.
pub(super) fn identity(engine: &Engine) -> Digest {
    let mut hashing = Hashing::default();
    engine.precompile_compatibility_hash().hash(&mut Feed(&mut hashing));
    hashing.digest()
}

/// Compiles on this thread, for an engine that runs elsewhere. Reserves no memory.
pub(crate) fn compile_for_elsewhere(bytes: &[u8]) -> wasmtime::Result<Vec<u8>> {
    let mut config = config();
    config.parallel_compilation(false);
    Engine::new(&config)?.precompile_component(bytes)
}

/// Makes machine code runnable.
pub(super) fn load(engine: &Engine, artifact: &[u8]) -> Result<Component, PolicyError> {
    // SAFETY: the bytes must be what this wasmtime made of a component. They are in our own memory and come from one of
    // two places. Either a file of the cache, whose directory nobody else can enter and whose digest was checked over
    // these very bytes; or the pipe from a child process that is this executable. Both ran the compiler that would
    // otherwise run here, so they are trusted as much as it is. Code for another engine is recognised and refused.
    #[expect(unsafe_code, reason = "running machine code from outside cannot be checked by the compiler")]
    let component = unsafe { Component::deserialize(engine, artifact) };
    component.map_err(|source| PolicyError::Compile { source })
}

/// Feeds all that is hashed to a digest that does not collide.
struct Feed<'a>(&'a mut Hashing);

impl Hasher for Feed<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.0.add(bytes);
    }

    /// Nothing that is hashed asks for it; the digest is the result.
    fn finish(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_tells_engines_apart() {
        let engine = |edit: fn(&mut Config)| {
            let mut config = config();
            edit(&mut config);
            identity(&Engine::new(&config).expect("an engine"))
        };
        let plain = engine(|_| {});
        assert_eq!(plain, engine(|_| {}));
        assert_eq!(
            plain,
            engine(|config| {
                config.parallel_compilation(false);
            })
        );
        assert_ne!(
            plain,
            engine(|config| {
                config.consume_fuel(false);
            })
        );
        assert_ne!(
            plain,
            engine(|config| {
                config.memory_reservation(1 << 20);
            })
        );
    }
}
