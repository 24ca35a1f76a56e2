//! Many small lists of numbers to the device in one copy.

use std::ops::Range;

use candle_core::{Device, Result, Tensor, WithDType};

/// Lists that are still here.
#[derive(Default)]
pub(super) struct Packing<N> {
    numbers: Vec<N>,
}

/// Lists that are on the device.
pub(super) struct Uploaded(Option<Tensor>);

impl<N: WithDType> Packing<N> {
    /// Adds a list; the result finds it again.
    pub(super) fn put(&mut self, list: impl IntoIterator<Item = N>) -> Range<usize> {
        let start = self.numbers.len();
        self.numbers.extend(list);
        start..self.numbers.len()
    }

    /// The one copy.
    pub(super) fn upload(self, device: &Device) -> Result<Uploaded> {
        let count = self.numbers.len();
        let all = if count == 0 { None } else { Some(Tensor::from_vec(self.numbers, count, device)?) };
        Ok(Uploaded(all))
    }
}

impl Uploaded {
    /// A list that is not empty, as a tensor of one dimension.
    pub(super) fn list(&self, at: &Range<usize>) -> Result<Tensor> {
        match &self.0 {
            Some(all) => all.narrow(0, at.start, at.len()),
            None => candle_core::bail!("an empty list has no tensor"),
        }
    }
}
