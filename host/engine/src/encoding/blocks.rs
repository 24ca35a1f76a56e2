//! Blocks of 32 weights: one scale, or a scale and a minimum, and the codes.

use super::{Parts, half_at, nibbles};

/// Bytes of a block: the scale and 4-bit codes.
pub(super) const Q4_0: usize = 2 + 16;
/// Scale, minimum and 4-bit codes.
pub(super) const Q4_1: usize = 4 + 16;
/// Scale, fifth bits and 4-bit codes.
pub(super) const Q5_0: usize = 2 + 4 + 16;
/// Scale, minimum, fifth bits and 4-bit codes.
pub(super) const Q5_1: usize = 4 + 4 + 16;
/// Scale and signed bytes.
pub(super) const Q8_0: usize = 2 + 32;

pub(super) fn q4_0(block: &[u8; Q4_0], parts: &mut Parts<'_>) {
    parts.scales[0] = half_at(block, 0);
    nibbles(&block[2..], parts.codes);
}

pub(super) fn q4_1(block: &[u8; Q4_1], parts: &mut Parts<'_>) {
    parts.scales[0] = half_at(block, 0);
    parts.mins[0] = half_at(block, 2);
    nibbles(&block[4..], parts.codes);
}

pub(super) fn q5_0(block: &[u8; Q5_0], parts: &mut Parts<'_>) {
    parts.scales[0] = half_at(block, 0);
    nibbles(&block[6..], parts.codes);
    fifth_bits([block[2], block[3], block[4], block[5]], parts.codes);
}

pub(super) fn q5_1(block: &[u8; Q5_1], parts: &mut Parts<'_>) {
    parts.scales[0] = half_at(block, 0);
    parts.mins[0] = half_at(block, 2);
    nibbles(&block[8..], parts.codes);
    fifth_bits([block[4], block[5], block[6], block[7]], parts.codes);
}

pub(super) fn q8_0(block: &[u8; Q8_0], parts: &mut Parts<'_>) {
    parts.scales[0] = half_at(block, 0);
    for (byte, code) in block[2..].iter().zip(parts.codes.iter_mut()) {
        // From two's complement to an offset of 128.
        *code = byte ^ 0x80;
    }
}

fn fifth_bits(bits: [u8; 4], codes: &mut [u8]) {
    let bits = u32::from_le_bytes(bits);
    for (index, code) in codes.iter_mut().enumerate() {
        *code |= ((bits >> index & 1) << 4) as u8;
    }
}
