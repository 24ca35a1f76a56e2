//! A decoder's layer, and how it is put together of a checkpoint's tensors: the same for every device.

use crate::EngineError;
use crate::config::{Config, Span};
use crate::weights::{LayerTensors, Layout, Needed};

/// One layer of products `P` and norms `N`. Post norms are those of what joins the residual stream.
pub(crate) struct Layer<P, N> {
    pub(crate) span: Span,
    pub(crate) attention_norm: N,
    /// Queries, keys and values.
    pub(crate) qkv: P,
    pub(crate) query_norm: Option<N>,
    pub(crate) key_norm: Option<N>,
    pub(crate) output: P,
    pub(crate) attention_post_norm: Option<N>,
    pub(crate) feed_forward_norm: N,
    /// The gate and its other half.
    pub(crate) gate_up: P,
    pub(crate) down: P,
    pub(crate) feed_forward_post_norm: Option<N>,
}

/// What makes a device's products and norms of tensors.
pub(crate) trait Assemble {
    /// Matrices with the same inputs.
    type Product;
    /// A norm.
    type Norm;

    /// Makes one product of matrices; the biases are those of all of them.
    fn product(&mut self, matrices: &[&Needed], biases: &[&Needed]) -> Result<Self::Product, EngineError>;

    /// Makes a norm.
    fn norm(&mut self, needed: &Needed) -> Result<Self::Norm, EngineError>;

    /// Makes a norm that not every architecture has.
    fn optional_norm(&mut self, needed: Option<&Needed>) -> Result<Option<Self::Norm>, EngineError> {
        needed.map(|needed| self.norm(needed)).transpose()
    }

    /// Makes layer `index`.
    fn layer(
        &mut self,
        (config, layout): (&Config, Layout),
        index: usize,
    ) -> Result<Layer<Self::Product, Self::Norm>, EngineError> {
        let tensors = LayerTensors::of(config, layout, index);
        let qkv_bias = [&tensors.query_bias, &tensors.key_bias, &tensors.value_bias];
        let qkv_bias: Vec<&Needed> = qkv_bias.into_iter().flatten().collect();
        let output_bias: Vec<&Needed> = tensors.output_bias.iter().collect();
        Ok(Layer {
            span: config.attention[index],
            attention_norm: self.norm(&tensors.attention_norm)?,
            qkv: self.product(&[&tensors.query, &tensors.key, &tensors.value], &qkv_bias)?,
            query_norm: self.optional_norm(tensors.query_norm.as_ref())?,
            key_norm: self.optional_norm(tensors.key_norm.as_ref())?,
            output: self.product(&[&tensors.output], &output_bias)?,
            attention_post_norm: self.optional_norm(tensors.attention_post_norm.as_ref())?,
            feed_forward_norm: self.norm(&tensors.feed_forward_norm)?,
            gate_up: self.product(&[&tensors.gate, &tensors.up], &[])?,
            down: self.product(&[&tensors.down], &[])?,
            feed_forward_post_norm: self.optional_norm(tensors.feed_forward_post_norm.as_ref())?,
        })
    }
}
