//! Changes of an input: bytes as damage makes them, and words as somebody would who knows the formats.

use rand::RngExt as _;
use rand::rngs::StdRng;

/// An input made of one, and perhaps of a piece of another.
pub(crate) fn mutated(rng: &mut StdRng, from: &[u8], other: &[u8]) -> Vec<u8> {
    let mut input = from.to_vec();
    // Mostly one change, so that what is read gets far; now and then many.
    let changes = if rng.random_range(0..4) == 0 { rng.random_range(2..12) } else { 1 };
    for _ in 0..changes {
        change(rng, &mut input, other);
    }
    input.truncate(BYTES_MAX);
    input
}

fn change(rng: &mut StdRng, input: &mut Vec<u8>, other: &[u8]) {
    let at = rng.random_range(0..=input.len());
    let end = (at + rng.random_range(1..=64)).min(input.len());
    match rng.random_range(0..10) {
        0 if at < input.len() => input[at] ^= 1 << rng.random_range(0..8),
        1 if at < input.len() => input[at] = BYTES[rng.random_range(0..BYTES.len())],
        2 => drop(input.drain(at..end)),
        3 => {
            let piece = input[at..end].to_vec();
            let times = rng.random_range(1..=8);
            input.splice(at..at, piece.repeat(times));
        }
        4 if !other.is_empty() => {
            let from = rng.random_range(0..other.len());
            let piece = &other[from..(from + rng.random_range(1..=256)).min(other.len())];
            input.splice(at..end, piece.iter().copied());
        }
        5 => drop(input.splice(at..at, WORDS[rng.random_range(0..WORDS.len())].bytes())),
        6 => replace_number(rng, input, at),
        7 => replace_string(rng, input, at),
        8 => input.truncate(at),
        _ => {
            // A length or a count, as binary formats have them.
            let value = LENGTHS[rng.random_range(0..LENGTHS.len())].to_le_bytes();
            let width = [1, 2, 4, 8][rng.random_range(0..4)];
            let end = (at + width).min(input.len());
            input.splice(at..end, value[..width].iter().copied());
        }
    }
}

/// Puts another number in the place of the next one.
fn replace_number(rng: &mut StdRng, input: &mut Vec<u8>, from: usize) {
    let Some(begin) = input[from..].iter().position(u8::is_ascii_digit).map(|at| from + at) else { return };
    let is_part = |byte: &u8| byte.is_ascii_digit() || b".eE+-".contains(byte);
    let length = input[begin..].iter().position(|byte| !is_part(byte)).unwrap_or(input.len() - begin);
    let number = NUMBERS[rng.random_range(0..NUMBERS.len())];
    input.splice(begin..begin + length, number.bytes());
}

/// Puts something else in the place of the next string.
fn replace_string(rng: &mut StdRng, input: &mut Vec<u8>, from: usize) {
    let Some(begin) = input[from..].iter().position(|byte| *byte == b'"').map(|at| from + at) else { return };
    let rest = &input[begin + 1..];
    let Some(length) = rest.iter().position(|byte| *byte == b'"') else { return };
    let word = match rng.random_range(0..4) {
        0 => "x".repeat(rng.random_range(0..5_000)),
        _ => WORDS[rng.random_range(0..WORDS.len())].to_owned(),
    };
    input.splice(begin..begin + length + 2, word.bytes());
}

const BYTES: [u8; 12] = [0, 1, 0x7f, 0x80, 0xff, 0xc3, 0xf0, b'"', b'{', b'[', b'\\', b'\n'];
const LENGTHS: [u64; 10] =
    [0, 1, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 31, 1 << 40, i64::MAX as u64, u64::MAX];
const NUMBERS: [&str; 18] = [
    "0",
    "-0",
    "-1",
    "1e999",
    "-1e999",
    "1e-999",
    "0.1",
    "127",
    "256",
    "65536",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "18446744073709551616",
    "1000000000000000000000000000000",
    "NaN",
    "null",
    "[]",
];
const WORDS: [&str; 34] = [
    "null",
    "true",
    "{}",
    "[]",
    "[[[[[[[[",
    "{\"a\":",
    "\"\"",
    "\"\\ud800\"",
    "\\u0000",
    "\u{fffd}",
    "\u{1f468}\u{200d}\u{1f469}",
    "<|im_end|>",
    "\"model\"",
    "\"messages\"",
    "\"role\"",
    "\"content\"",
    "\"stop\"",
    "\"logit_bias\"",
    "\"n\"",
    "\"stream\"",
    "\"response_format\"",
    "\"tools\"",
    "{{",
    "}}",
    "{%",
    "%}",
    "{% for x in range(99999) %}",
    "{{ ''.join([1]) }}",
    "{% endfor %}",
    "[models.",
    "= ",
    "\"\"\"",
    "..",
    "%2e%2e/",
];
const BYTES_MAX: usize = 1 << 20;
