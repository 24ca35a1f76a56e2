//! Blocks of 256 weights, whose groups' scales are themselves small whole numbers times one scale of the block.

use super::{Parts, half_at, nibbles};

/// Bytes of a block: 16 pairs of 4-bit scale and minimum, 2-bit codes, scale of scales and of minimums.
pub(super) const Q2K: usize = 16 + 64 + 2 + 2;
/// Third bits, 2-bit codes, 16 scales of 6 bits, scale of scales.
pub(super) const Q3K: usize = 32 + 64 + 12 + 2;
/// Scale of scales and of minimums, 8 pairs of 6 bits, 4-bit codes.
pub(super) const Q4K: usize = 2 + 2 + 12 + 128;
/// As [`Q4K`] with fifth bits before the codes.
pub(super) const Q5K: usize = 2 + 2 + 12 + 32 + 128;
/// 4-bit codes, fifth and sixth bits, 16 scales of 8 bits, scale of scales.
pub(super) const Q6K: usize = 128 + 64 + 16 + 2;

/// Where the scale of scales is in a block; that of minimums, where there are any, follows it.
pub(super) const Q2K_FACTORS: usize = 80;
pub(super) const Q3K_FACTOR: usize = 108;
/// Of [`Q5K`] too.
pub(super) const Q4K_FACTORS: usize = 0;
pub(super) const Q6K_FACTOR: usize = 208;

/// What groups' whole numbers are multiplied with: for a scale, and for a minimum, which is taken away.
pub(super) fn pair_of_factors(block: &[u8], at: usize) -> (f32, f32) {
    (half_at(block, at), -half_at(block, at + 2))
}

pub(super) fn q2k(block: &[u8; Q2K], parts: &mut Parts<'_>) {
    let (scale, min) = pair_of_factors(block, Q2K_FACTORS);
    for (group, byte) in block[..16].iter().enumerate() {
        parts.scales[group] = scale * f32::from(byte & 15);
        parts.mins[group] = min * f32::from(byte >> 4);
    }
    pairs(&block[16..80], parts.codes);
}

pub(super) fn q3k(block: &[u8; Q3K], parts: &mut Parts<'_>) {
    let (scale, packed) = (half_at(block, Q3K_FACTOR), &block[96..Q3K_FACTOR]);
    for (group, out) in parts.scales.iter_mut().enumerate() {
        let low = packed[group % 8] >> (group / 8 * 4) & 15;
        let high = packed[8 + group % 4] >> (group / 4 * 2) & 3;
        *out = scale * f32::from(i16::from(low | high << 4) - 32);
    }
    pairs(&block[32..96], parts.codes);
    bit_above(&block[..32], 2, parts.codes);
}

pub(super) fn q4k(block: &[u8; Q4K], parts: &mut Parts<'_>) {
    six_bit_scales(block, parts);
    for (bytes, codes) in block[16..].chunks_exact(32).zip(parts.codes.chunks_exact_mut(64)) {
        nibbles(bytes, codes);
    }
}

pub(super) fn q5k(block: &[u8; Q5K], parts: &mut Parts<'_>) {
    six_bit_scales(block, parts);
    for (bytes, codes) in block[48..].chunks_exact(32).zip(parts.codes.chunks_exact_mut(64)) {
        nibbles(bytes, codes);
    }
    bit_above(&block[16..48], 4, parts.codes);
}

pub(super) fn q6k(block: &[u8; Q6K], parts: &mut Parts<'_>) {
    let scale = half_at(block, Q6K_FACTOR);
    for (byte, out) in block[192..Q6K_FACTOR].iter().zip(parts.scales.iter_mut()) {
        *out = scale * f32::from(byte.cast_signed());
    }
    let halves = block[..128].chunks_exact(64).zip(block[128..192].chunks_exact(32));
    for ((low, high), codes) in halves.zip(parts.codes.chunks_exact_mut(128)) {
        nibbles(low, codes);
        for (quarter, codes) in codes.chunks_exact_mut(32).enumerate() {
            for (byte, code) in high.iter().zip(codes) {
                *code |= (byte >> (quarter * 2) & 3) << 4;
            }
        }
    }
}

/// 2-bit numbers: each half of 128 weights takes 32 bytes, whose lowest bits come first.
fn pairs(bytes: &[u8], codes: &mut [u8]) {
    for (bytes, codes) in bytes.chunks_exact(32).zip(codes.chunks_exact_mut(128)) {
        for (quarter, codes) in codes.chunks_exact_mut(32).enumerate() {
            for (byte, code) in bytes.iter().zip(codes) {
                *code = byte >> (quarter * 2) & 3;
            }
        }
    }
}

/// Sets one more bit of each code: 32 bytes, whose bit n belongs to the n-th 32 weights.
fn bit_above(bytes: &[u8], place: u8, codes: &mut [u8]) {
    for (eighth, codes) in codes.chunks_exact_mut(32).enumerate() {
        for (byte, code) in bytes.iter().zip(codes) {
            *code |= (byte >> eighth & 1) << place;
        }
    }
}

/// Eight scales and eight minimums of 6 bits in 12 bytes: the first four of each whole in the low bits of bytes 0..4
/// and 4..8, the others' low halves in bytes 8..12 and their upper two bits above the first ones.
fn six_bit_scales<const BYTES: usize>(block: &[u8; BYTES], parts: &mut Parts<'_>) {
    let ((scale, min), packed) = (pair_of_factors(block, Q4K_FACTORS), &block[4..16]);
    for group in 0..8 {
        let (of_scale, of_min) = match group {
            0..4 => (packed[group] & 63, packed[group + 4] & 63),
            _ => (
                packed[group + 4] & 15 | packed[group - 4] >> 6 << 4,
                packed[group + 4] >> 4 | packed[group] >> 6 << 4,
            ),
        };
        parts.scales[group] = scale * f32::from(of_scale);
        parts.mins[group] = min * f32::from(of_min);
    }
}
