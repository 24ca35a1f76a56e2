//! What `bindgen!` makes of `wit/`. Only [`convert`](super::convert) and the calls beside it name these types.
#![allow(missing_docs, unreachable_pub, reason = "generated; the words of wit/ are its documentation")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "router",
    imports: { default: trappable },
    additional_derives: [PartialEq],
});
