//! AVX-512 with VNNI: one register holds all sixteen lanes.
#![expect(
    unsafe_code,
    reason = "intrinsics; every call's SAFETY is that a value of Avx512 exists, see the parent"
)]

use std::arch::x86_64::*;

use super::avx2::{largest_of_eight, sum_of_eight};
use super::{Isa, LANES, Work};

/// AVX-512 F, BW, DQ, VL and VNNI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512 {
    /// Keeps others from making one.
    _proof: (),
}

impl Avx512 {
    /// If the processor has the instructions.
    pub(super) fn detect() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni");
        has.then_some(Self { _proof: () })
    }
}

impl Isa for Avx512 {
    type Floats = __m512;
    type Ints = __m512i;
    type Codes = __m512i;

    const BYTES_ZERO: i32 = 0;

    fn run<W: Work>(self, work: W) -> W::Output {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
        fn run<W: Work>(isa: Avx512, work: W) -> W::Output {
            work.with(isa)
        }
        // SAFETY: see the head of the file.
        unsafe { run(self, work) }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: see the head of the file; so for all below.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> __m512 {
        unsafe { _mm512_loadu_ps(x.as_ptr()) }
    }

    #[inline(always)]
    fn load_half(self, x: &[u16; LANES]) -> __m512 {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast())) }
    }

    #[inline(always)]
    fn load_brain(self, x: &[u16; LANES]) -> __m512 {
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(x.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }

    #[inline(always)]
    fn load_bytes(self, x: &[i8; LANES]) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(x.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn store(self, x: __m512, into: &mut [f32; LANES]) {
        unsafe { _mm512_storeu_ps(into.as_mut_ptr(), x) }
    }

    #[inline(always)]
    fn store_half(self, x: __m512, into: &mut [u16; LANES]) {
        unsafe {
            let half = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
            _mm256_storeu_si256(into.as_mut_ptr().cast(), half);
        }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_div_ps(a, b) }
    }

    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_max_ps(a, b) }
    }

    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_min_ps(a, b) }
    }

    #[inline(always)]
    fn abs(self, x: __m512) -> __m512 {
        unsafe { _mm512_abs_ps(x) }
    }

    #[inline(always)]
    fn first(self, x: __m512, count: usize, fill: f32) -> __m512 {
        let mask = if count >= LANES { u16::MAX } else { (1 << count) - 1 };
        unsafe { _mm512_mask_blend_ps(mask, _mm512_set1_ps(fill), x) }
    }

    #[inline(always)]
    fn any_above(self, x: __m512, bound: f32) -> bool {
        unsafe { _mm512_cmp_ps_mask::<_CMP_GT_OQ>(x, _mm512_set1_ps(bound)) != 0 }
    }

    #[inline(always)]
    fn power_of_two(self, n: __m512) -> __m512 {
        unsafe { _mm512_scalef_ps(_mm512_set1_ps(1.0), n) }
    }

    #[inline(always)]
    fn largest(self, x: __m512) -> f32 {
        unsafe { largest_of_eight(_mm256_max_ps(_mm512_extractf32x8_ps::<1>(x), _mm512_castps512_ps256(x))) }
    }

    #[inline(always)]
    fn sum(self, x: __m512) -> f32 {
        unsafe { sum_of_eight(_mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps::<1>(x))) }
    }

    #[inline(always)]
    fn splat_int(self, x: i32) -> __m512i {
        unsafe { _mm512_set1_epi32(x) }
    }

    #[inline(always)]
    fn round(self, x: __m512) -> __m512i {
        unsafe { _mm512_cvt_roundps_epi32::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x) }
    }

    #[inline(always)]
    fn to_floats(self, x: __m512i) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(x) }
    }

    #[inline(always)]
    fn store_bytes(self, x: __m512i, into: &mut [i8; LANES]) {
        unsafe { _mm_storeu_si128(into.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(x)) }
    }

    #[inline(always)]
    fn sum_int(self, x: __m512i) -> i32 {
        unsafe { _mm512_reduce_add_epi32(x) }
    }

    #[inline(always)]
    fn codes(self, x: &[u8; 4 * LANES]) -> __m512i {
        unsafe { _mm512_loadu_si512(x.as_ptr().cast()) }
    }

    #[inline(always)]
    fn low(self, x: __m512i) -> __m512i {
        unsafe { _mm512_and_si512(x, _mm512_set1_epi8(15)) }
    }

    #[inline(always)]
    fn high(self, x: __m512i) -> __m512i {
        unsafe { _mm512_and_si512(_mm512_srli_epi16::<4>(x), _mm512_set1_epi8(15)) }
    }

    #[inline(always)]
    fn dot_nibbles(self, sum: __m512i, codes: __m512i, x: i32) -> __m512i {
        self.dot_bytes(sum, codes, x)
    }

    #[inline(always)]
    fn dot_bytes(self, sum: __m512i, codes: __m512i, x: i32) -> __m512i {
        unsafe { _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(x)) }
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
