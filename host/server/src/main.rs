//! The binary `tokenrouter`.

fn main() {}
