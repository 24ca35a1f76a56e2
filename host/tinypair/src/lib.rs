//! The tiny trained pair: two small language models and the word problems they were trained on.
//!
//! Both models are committed with the source, so the server, its benchmark and its tests have a real pair to route
//! between without a download, and a router head that was trained on them. This crate is pure data and pure functions:
//! it reads no file, loads no weights into an engine and knows nothing about routing. The program that trained the pair
//! is the example `train`, the one that trained the head the example `train_head`.

pub mod heads;
pub mod models;
pub mod problems;
