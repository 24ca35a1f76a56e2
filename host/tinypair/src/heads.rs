//! Router heads of the pair, embedded in the binary like the models they belong to.
//!
//! Separate from [`crate::models`] because a head is another kind of file, for another loader, and not part of a
//! checkpoint. Nothing here parses a file; the example `train_head` makes them and measures them.

/// A small network that scores the tokens of one model of the pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmbeddedHead {
    /// The name it is known by.
    pub name: &'static str,
    /// The model it was trained on, by its name in [`crate::models`]; of no use to any other.
    pub model: &'static str,
    /// From this score on a token is better written by the large model; the README has what that gives.
    pub threshold: f32,
    /// The file of `files` that is the graph.
    pub graph: &'static str,
    /// File name and content.
    pub files: &'static [(&'static str, &'static [u8])],
}

/// Scores how likely it is that replacing a token of the small model saves the answer, as R2R's router does.
pub const R2R: EmbeddedHead = EmbeddedHead {
    name: "r2r",
    model: "small",
    threshold: 0.01,
    graph: "r2r.toml",
    files: &[
        ("r2r.toml", include_bytes!("../models/small/heads/r2r.toml")),
        ("r2r.safetensors", include_bytes!("../models/small/heads/r2r.safetensors")),
    ],
};

/// All heads.
pub const ALL: [EmbeddedHead; 1] = [R2R];

/// The embedded head called `name`.
#[must_use]
pub fn by_name(name: &str) -> Option<EmbeddedHead> {
    ALL.into_iter().find(|head| head.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_head_is_found_by_name_and_belongs_to_a_model() {
        for head in ALL {
            assert_eq!(by_name(head.name), Some(head));
            assert!(crate::models::by_name(head.model).is_some());
            assert!(head.files.iter().any(|(name, _)| *name == head.graph));
        }
        assert_eq!(by_name("other"), None);
    }

    #[test]
    fn the_heads_stay_under_a_hundred_kilobytes() {
        let bytes: usize = ALL.iter().flat_map(|head| head.files).map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes < 100_000, "{bytes} bytes");
    }
}
