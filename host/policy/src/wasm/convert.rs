//! Between the generated types and those of `journey`. What comes from a guest is checked here and nowhere else.
//!
//! `shown`: what a guest is shown. `answered`: what it answers. `descriptor`: what it says about itself.

mod answered;
mod descriptor;
mod shown;

pub(super) use answered::{Context, accept, decision, entrance, parcel};
pub(super) use descriptor::descriptor;
pub(super) use shown::{candidates, handoff, model, offer, start, step};
