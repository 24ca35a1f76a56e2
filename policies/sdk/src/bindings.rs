//! What `wit-bindgen` makes of `wit/`. Nothing here is written by hand, and all `unsafe` of a policy is here or in
//! the allocator beside it.
#![allow(missing_docs, unreachable_pub, reason = "generated; the words of wit/ are its documentation")]

wit_bindgen::generate!({
    path: "../../wit",
    world: "router",
    pub_export_macro: true,
    additional_derives: [PartialEq],
});
