//! Within which span a journey was asked for: the header `traceparent` of W3C's trace context.

/// A trace, and the span in it that asks; none for a trace that begins here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    pub(super) trace: [u8; 16],
    pub(super) span: Option<[u8; 8]>,
    is_sampled: bool,
}

impl Parent {
    /// What a header says; none if it says nothing that can be.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Later versions may have more parts, this one has not.
        let [version] = bytes::<1>(version)?;
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let (trace, span, [flags]) = (bytes::<16>(trace)?, bytes::<8>(span)?, bytes::<1>(flags)?);
        let is_there = trace != [0; 16] && span != [0; 8];
        is_there.then_some(Self { trace, span: Some(span), is_sampled: flags & 1 == 1 })
    }

    /// A trace that begins here, with an identity from these random bytes; such a share of them is told.
    pub(super) fn root(random: &[u8; 32], ratio: f64) -> Self {
        let mut trace = [0; 16];
        trace.copy_from_slice(&random[..16]);
        let mut low = [0; 8];
        low.copy_from_slice(&trace[8..]);
        // As OpenTelemetry's TraceIdRatioBased sampler does it, so that services agree.
        let is_sampled =
            ratio >= 1.0 || ((u64::from_be_bytes(low) >> 1) as f64) < ratio * (1_u64 << 63) as f64;
        Self { trace, span: None, is_sampled }
    }

    pub(super) fn is_sampled(&self) -> bool {
        self.is_sampled
    }
}

/// Lower-case hexadecimal digits.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_header_is_taken_as_the_standard_says() {
        let parse =
            |version: &str, trace: &str, rest: &str| Parent::parse(&format!("{version}-{trace}-{rest}"));
        let parent = parse("00", TRACE, "00f067aa0ba902b7-01").expect("valid");
        assert_eq!(
            (parent.trace[0], parent.span.map(|span| span[7]), parent.is_sampled()),
            (0x4b, Some(0xb7), true)
        );
        assert!(!parse("00", TRACE, "00f067aa0ba902b7-00").expect("valid").is_sampled());
        assert!(parse("cc", TRACE, "00f067aa0ba902b7-01-what").is_some(), "a later version may say more");
        for (version, trace, rest) in [
            ("00", TRACE, "00f067aa0ba902b7-01-what"),
            ("ff", TRACE, "00f067aa0ba902b7-01"),
            ("00", &"0".repeat(32), "00f067aa0ba902b7-01"),
            ("00", TRACE, "0000000000000000-01"),
            ("00", &TRACE.to_uppercase(), "00f067aa0ba902b7-01"),
            ("00", TRACE, "00f067aa0ba902b7"),
            ("00", "\u{e9}\u{e9}", "00f067aa0ba902b7-01"),
        ] {
            assert_eq!(parse(version, trace, rest), None, "{version}-{trace}-{rest}");
        }
    }

    #[test]
    fn such_a_share_of_traces_is_told() {
        let sampled = |ratio: f64| {
            let random = |ix: u8| [ix.wrapping_mul(37); 32];
            (0..=255).filter(|ix| Parent::root(&random(*ix), ratio).is_sampled()).count()
        };
        assert_eq!((sampled(0.0), sampled(1.0)), (0, 256));
        assert!((100..156).contains(&sampled(0.5)), "{}", sampled(0.5));
    }
}
