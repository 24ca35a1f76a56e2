//! AVX2 with FMA and F16C: two registers of eight lanes.
#![expect(
    unsafe_code,
    reason = "intrinsics; every call's SAFETY is that a value of Avx2 exists, see the parent"
)]

use std::arch::x86_64::*;

use super::{Isa, LANES, Work};

/// AVX2, FMA and F16C.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2 {
    /// Keeps others from making one.
    _proof: (),
}

impl Avx2 {
    /// If the processor has the instructions.
    pub(super) fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Self { _proof: () })
    }
}

/// The two halves of sixteen floats.
type Pair = [__m256; 2];
/// The two halves of sixteen integers.
type IntPair = [__m256i; 2];

impl Isa for Avx2 {
    type Floats = Pair;
    type Ints = IntPair;
    type Codes = IntPair;

    const BYTES_ZERO: i32 = 128;

    fn run<W: Work>(self, work: W) -> W::Output {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn run<W: Work>(isa: Avx2, work: W) -> W::Output {
            work.with(isa)
        }
        // SAFETY: see the head of the file.
        unsafe { run(self, work) }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Pair {
        // SAFETY: see the head of the file; so for all below.
        unsafe { [_mm256_set1_ps(x); 2] }
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Pair {
        unsafe { [_mm256_loadu_ps(x.as_ptr()), _mm256_loadu_ps(x[8..].as_ptr())] }
    }

    #[inline(always)]
    fn load_half(self, x: &[u16; LANES]) -> Pair {
        let eight = |x: &[u16]| unsafe { _mm256_cvtph_ps(_mm_loadu_si128(x.as_ptr().cast())) };
        [eight(&x[..8]), eight(&x[8..])]
    }

    #[inline(always)]
    fn load_brain(self, x: &[u16; LANES]) -> Pair {
        let eight = |x: &[u16]| unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(x.as_ptr().cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        };
        [eight(&x[..8]), eight(&x[8..])]
    }

    #[inline(always)]
    fn load_bytes(self, x: &[i8; LANES]) -> Pair {
        let eight = |x: &[i8]| unsafe {
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(x.as_ptr().cast())))
        };
        [eight(&x[..8]), eight(&x[8..])]
    }

    #[inline(always)]
    fn store(self, x: Pair, into: &mut [f32; LANES]) {
        let (low, high) = into.split_at_mut(8);
        unsafe {
            _mm256_storeu_ps(low.as_mut_ptr(), x[0]);
            _mm256_storeu_ps(high.as_mut_ptr(), x[1]);
        }
    }

    #[inline(always)]
    fn store_half(self, x: Pair, into: &mut [u16; LANES]) {
        let (low, high) = into.split_at_mut(8);
        for (x, into) in x.into_iter().zip([low, high]) {
            unsafe {
                let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
                _mm_storeu_si128(into.as_mut_ptr().cast(), half);
            }
        }
    }

    #[inline(always)]
    fn add(self, a: Pair, b: Pair) -> Pair {
        unsafe { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
    }

    #[inline(always)]
    fn sub(self, a: Pair, b: Pair) -> Pair {
        unsafe { [_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])] }
    }

    #[inline(always)]
    fn mul(self, a: Pair, b: Pair) -> Pair {
        unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
    }

    #[inline(always)]
    fn div(self, a: Pair, b: Pair) -> Pair {
        unsafe { [_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])] }
    }

    #[inline(always)]
    fn fma(self, a: Pair, b: Pair, c: Pair) -> Pair {
        unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
    }

    #[inline(always)]
    fn max(self, a: Pair, b: Pair) -> Pair {
        unsafe { [_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])] }
    }

    #[inline(always)]
    fn min(self, a: Pair, b: Pair) -> Pair {
        unsafe { [_mm256_min_ps(a[0], b[0]), _mm256_min_ps(a[1], b[1])] }
    }

    #[inline(always)]
    fn abs(self, x: Pair) -> Pair {
        unsafe { x.map(|x| _mm256_andnot_ps(_mm256_set1_ps(-0.0), x)) }
    }

    #[inline(always)]
    fn first(self, x: Pair, count: usize, fill: f32) -> Pair {
        unsafe {
            let count = _mm256_set1_epi32((count.min(LANES) as u32).cast_signed());
            let half = |x, lanes| {
                let mask = _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, lanes));
                _mm256_blendv_ps(_mm256_set1_ps(fill), x, mask)
            };
            [
                half(x[0], _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
                half(x[1], _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)),
            ]
        }
    }

    #[inline(always)]
    fn any_above(self, x: Pair, bound: f32) -> bool {
        unsafe {
            let bound = _mm256_set1_ps(bound);
            let above = x.map(|x| _mm256_cmp_ps::<_CMP_GT_OQ>(x, bound));
            _mm256_movemask_ps(_mm256_or_ps(above[0], above[1])) != 0
        }
    }

    #[inline(always)]
    fn power_of_two(self, n: Pair) -> Pair {
        unsafe {
            n.map(|n| {
                let biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
                _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
            })
        }
    }

    #[inline(always)]
    fn largest(self, x: Pair) -> f32 {
        unsafe { largest_of_eight(_mm256_max_ps(x[1], x[0])) }
    }

    #[inline(always)]
    fn sum(self, x: Pair) -> f32 {
        unsafe { sum_of_eight(_mm256_add_ps(x[0], x[1])) }
    }

    #[inline(always)]
    fn splat_int(self, x: i32) -> IntPair {
        unsafe { [_mm256_set1_epi32(x); 2] }
    }

    #[inline(always)]
    fn round(self, x: Pair) -> IntPair {
        let nearest = |x| unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x) };
        x.map(|x| unsafe { _mm256_cvtps_epi32(nearest(x)) })
    }

    #[inline(always)]
    fn to_floats(self, x: IntPair) -> Pair {
        x.map(|x| unsafe { _mm256_cvtepi32_ps(x) })
    }

    #[inline(always)]
    fn store_bytes(self, x: IntPair, into: &mut [i8; LANES]) {
        unsafe {
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(x[0], x[1]));
            let bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(into.as_mut_ptr().cast(), bytes);
        }
    }

    #[inline(always)]
    fn sum_int(self, x: IntPair) -> i32 {
        unsafe {
            let eight = _mm256_add_epi32(x[0], x[1]);
            let four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
            let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b00_00_11_10>(four));
            _mm_cvtsi128_si32(two) + _mm_extract_epi32::<1>(two)
        }
    }

    #[inline(always)]
    fn codes(self, x: &[u8; 4 * LANES]) -> IntPair {
        let half = |x: &[u8]| unsafe { _mm256_loadu_si256(x.as_ptr().cast()) };
        [half(&x[..32]), half(&x[32..])]
    }

    #[inline(always)]
    fn low(self, x: IntPair) -> IntPair {
        x.map(|x| unsafe { _mm256_and_si256(x, _mm256_set1_epi8(15)) })
    }

    #[inline(always)]
    fn high(self, x: IntPair) -> IntPair {
        x.map(|x| unsafe { _mm256_and_si256(_mm256_srli_epi16::<4>(x), _mm256_set1_epi8(15)) })
    }

    #[inline(always)]
    fn dot_nibbles(self, sum: IntPair, codes: IntPair, x: i32) -> IntPair {
        // 2 * 15 * 127 fits 16 bits, so the pairwise sums are exact.
        let half = |sum, codes| unsafe {
            let pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi32(x));
            _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        };
        [half(sum[0], codes[0]), half(sum[1], codes[1])]
    }

    #[inline(always)]
    fn dot_bytes(self, sum: IntPair, codes: IntPair, x: i32) -> IntPair {
        // Codes less 128 are signed; |code| * (x with the code's sign) is their product, and 2 * 128 * 127 fits 16
        // bits. The unsigned product would not.
        let half = |sum, codes| unsafe {
            let signed = _mm256_xor_si256(codes, _mm256_set1_epi8(-128));
            let x = _mm256_sign_epi8(_mm256_set1_epi32(x), signed);
            let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(signed), x);
            _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
        };
        [half(sum[0], codes[0]), half(sum[1], codes[1])]
    }

    #[inline(always)]
    fn prefetch<T: ?Sized>(self, at: &T, offset: usize) {
        let line = std::ptr::from_ref(at).cast::<i8>().wrapping_add(offset);
        // A prefetch of any address is harmless.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) }
    }

    #[inline(always)]
    fn prefetch_early<T: ?Sized>(self, at: &T, offset: usize) {
        let line = std::ptr::from_ref(at).cast::<i8>().wrapping_add(offset);
        // As above.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line) }
    }
}

/// Lane i + lane i + 4, of these i + 2, then i + 1.
#[inline(always)]
pub(super) fn sum_of_eight(x: __m256) -> f32 {
    // SAFETY: only called where AVX2 is there.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
}

/// The largest of eight.
#[inline(always)]
pub(super) fn largest_of_eight(x: __m256) -> f32 {
    // SAFETY: only called where AVX2 is there.
    unsafe {
        let four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
        let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
    }
}
