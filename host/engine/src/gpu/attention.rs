//! Attention of a step's groups over the pages of one layer.
//!
//! Scores are a padded and masked product for each group, in f32 from the product on.

use candle_core::{DType, Result, Tensor};
use candle_nn::ops::softmax_last_dim;

use super::pages::Pages;
use super::plan::{Group, Plan};
use crate::config::Config;

/// What a layer's scores go through.
pub(super) struct Attention<'a> {
    /// Heads, and what they do to scores.
    pub(super) config: &'a Config,
    /// The layer.
    pub(super) layer: usize,
    /// Index of its window among the reaches of a group.
    pub(super) window: usize,
}

impl Attention<'_> {
    /// From queries (tokens, heads, head_dim) to (tokens, heads * head_dim).
    pub(super) fn forward(&self, plan: &Plan, queries: &Tensor, pages: &Pages) -> Result<Tensor> {
        let attended = plan.groups.iter().map(|group| self.group(group, queries, pages));
        let attended = attended.collect::<Result<Vec<_>>>()?;
        match attended.as_slice() {
            [one] => Ok(one.clone()),
            several => Tensor::cat(several, 0),
        }
    }

    fn group(&self, group: &Group, queries: &Tensor, pages: &Pages) -> Result<Tensor> {
        let &Config { heads, kv_heads, head_dim: dim, .. } = self.config;
        let (shared, reach) = (heads / kv_heads, &group.reaches[self.window]);
        let &Group { start, rows, each, .. } = group;
        let (keys, values) = pages.read(self.layer, &reach.blocks, rows)?;
        let positions = keys.dim(1)?;
        let compute = queries.dtype();
        let queries = queries.narrow(0, start, rows * each)?.reshape((rows, each, kv_heads, shared, dim))?;
        let queries = queries.permute([2, 0, 3, 1, 4])?.contiguous()?;
        let queries = queries.reshape((kv_heads * rows, shared * each, dim))?;
        let scores = queries.matmul(&keys.to_dtype(compute)?.transpose(1, 2)?)?.to_dtype(DType::F32)?;
        let scale = f64::from(self.config.attention_scale);
        let scores = match self.config.attention_softcap.map(f64::from) {
            Some(cap) => (scores.affine(scale / cap, 0.0)?.tanh()? * cap)?,
            None => scores.affine(scale, 0.0)?,
        };
        let scores = scores.reshape((kv_heads, rows, shared, each, positions))?;
        let weights = softmax_last_dim(&scores.broadcast_add(&reach.mask)?)?.to_dtype(compute)?;
        let weights = weights.reshape((kv_heads * rows, shared * each, positions))?;
        let attended = weights.matmul(&values.to_dtype(compute)?)?;
        let attended = attended.reshape((kv_heads, rows, shared, each, dim))?.permute([1, 3, 0, 2, 4])?;
        attended.contiguous()?.reshape((rows * each, heads * dim))
    }
}
