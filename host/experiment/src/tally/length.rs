//! Lists whose length is part of the program: tallies of a version that counts otherwise are refused, not misread.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A list of exactly N, for `#[serde(deserialize_with)]`.
pub(crate) fn of_length<'de, const N: usize, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let list = Vec::deserialize(deserializer)?;
    if list.len() == N {
        Ok(list)
    } else {
        Err(D::Error::invalid_length(list.len(), &"the length of this version"))
    }
}
