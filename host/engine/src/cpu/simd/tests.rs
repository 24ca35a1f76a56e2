//! Every instruction set against plain Rust, bit for bit.

use half::f16;
use proptest::prelude::*;

use super::*;

/// Every operation on the same numbers; floats as bits, so that signs of zeros and NaNs count.
struct Everything {
    a: [f32; LANES],
    b: [f32; LANES],
    c: [f32; LANES],
    codes: [u8; 4 * LANES],
    x: i32,
    count: usize,
}

impl Work for Everything {
    type Output = Vec<u32>;

    #[inline(always)]
    fn with<I: Isa>(self, isa: I) -> Vec<u32> {
        let (a, b, c) = (isa.load(&self.a), isa.load(&self.b), isa.load(&self.c));
        let mut seen = Vec::new();
        let mut half = [0; LANES];
        isa.store_half(a, &mut half);
        let rounded = isa.round(a);
        let limited = isa.round(isa.max(isa.min(a, isa.splat(127.0)), isa.splat(-126.0)));
        let mut bytes = [0; LANES];
        isa.store_bytes(limited, &mut bytes);
        let codes = isa.codes(&self.codes);
        let zero = isa.splat_int(7);
        let dots = [
            isa.dot_nibbles(zero, isa.low(codes), self.x),
            isa.dot_nibbles(zero, isa.high(codes), self.x),
            zero,
        ];
        let sum_of_x: i32 = self.x.to_ne_bytes().iter().map(|&x| i32::from(x.cast_signed())).sum();
        let zeroed = isa.dot_bytes(isa.splat_int(I::BYTES_ZERO * sum_of_x), codes, self.x);
        let floats = [
            isa.add(a, b),
            isa.sub(a, b),
            isa.mul(a, b),
            isa.div(a, b),
            isa.fma(a, b, c),
            isa.max(a, b),
            isa.min(a, b),
            isa.abs(a),
            isa.first(a, self.count, 5.0),
            isa.load_half(&half),
            isa.load_brain(&half),
            isa.load_bytes(&bytes),
            isa.power_of_two(isa.to_floats(limited)),
            isa.to_floats(rounded),
            isa.to_floats(zeroed),
            crate::cpu::math::exp(isa, a),
            crate::cpu::math::silu(isa, a),
            crate::cpu::math::gelu_tanh(isa, a),
        ];
        for lanes in floats.into_iter().chain(dots.map(|dot| isa.to_floats(dot))) {
            let mut stored = [0.0; LANES];
            isa.store(lanes, &mut stored);
            seen.extend(stored.map(f32::to_bits));
        }
        seen.extend(half.map(u32::from));
        seen.extend(bytes.map(|byte| u32::from(byte.cast_unsigned())));
        seen.push(isa.sum(a).to_bits());
        seen.push(isa.largest(a).to_bits());
        seen.push(isa.sum_int(limited).cast_unsigned());
        seen.push(u32::from(isa.any_above(a, self.b[0])));
        seen
    }
}

fn numbers() -> impl Strategy<Value = [f32; LANES]> {
    prop::array::uniform16((-1.0f32..1.0, -20i32..12).prop_map(|(x, scale)| x * (scale as f32).exp2()))
}

proptest! {
    #[test]
    fn all_instruction_sets_give_the_same_bits(
        (a, b, c) in (numbers(), numbers(), numbers()),
        codes in prop::collection::vec(any::<u8>(), 4 * LANES),
        x in prop::array::uniform4(-127i8..=127),
        count in 0usize..20,
    ) {
        let codes: [u8; 4 * LANES] = codes.try_into().unwrap();
        let x = i32::from_ne_bytes(x.map(i8::cast_unsigned));
        let seen = |level| dispatch(level, Everything { a, b, c, codes, x, count });
        let meant = seen(Level::Portable(Portable));
        for level in Level::available() {
            prop_assert_eq!(&seen(level), &meant, "{}", level.name());
        }
    }
}

#[test]
fn functions_agree_with_double_precision() {
    struct Exp([f32; LANES]);
    impl Work for Exp {
        type Output = [f32; LANES];

        #[inline(always)]
        fn with<I: Isa>(self, isa: I) -> [f32; LANES] {
            let mut out = [0.0; LANES];
            isa.store(crate::cpu::math::exp(isa, isa.load(&self.0)), &mut out);
            out
        }
    }
    for start in (-870..870).map(|tenth| tenth as f32 / 10.0) {
        let x: [f32; LANES] = std::array::from_fn(|lane| start + lane as f32 * 0.006_1);
        for (x, got) in x.into_iter().zip(dispatch(Level::detect(), Exp(x))) {
            let exact = f64::from(x).exp();
            let error = (f64::from(got) - exact).abs() / exact;
            assert!(error < 2.0 * f64::from(f32::EPSILON), "e^{x}: relative error {error}");
        }
    }
    let ends =
        dispatch(Level::detect(), Exp(std::array::from_fn(|i| [f32::NAN, f32::NEG_INFINITY, 1e9][i % 3])));
    assert!(ends[0].is_nan());
    assert!(ends[1] < 2e-38);
    assert!(ends[2].is_finite() && ends[2] > 1e38);
}

#[test]
fn half_precision_rounds_to_even() {
    struct Rounded(f32);
    impl Work for Rounded {
        type Output = u16;

        #[inline(always)]
        fn with<I: Isa>(self, isa: I) -> u16 {
            let mut half = [0; LANES];
            isa.store_half(isa.splat(self.0), &mut half);
            half[3]
        }
    }
    for x in [0.1, 1.0 + 1.0 / 2048.0, 65_520.0, 1e-8, -3.3, 70_000.0] {
        for level in Level::available() {
            assert_eq!(dispatch(level, Rounded(x)), f16::from_f32(x).to_bits(), "{x} by {}", level.name());
        }
    }
}
