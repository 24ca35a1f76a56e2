//! How text is split before byte-level BPE, by the names that GGUF files give to the rules of known tokenizers.
//!
//! No merge crosses a split, so a wrong rule gives other tokens than the model learnt from, silently: a name that is
//! not in this table is refused. The patterns are those of the models' own `tokenizer.json`.

/// The rules under one name.
#[derive(Debug)]
pub(super) struct Scheme {
    /// Patterns, applied one after the other: what one leaves apart or between is split by the next.
    pub(super) splits: &'static [&'static str],
    /// Whether a whole word that is a token is taken without merging.
    pub(super) whole_words: bool,
    /// Whether sequences begin with BOS unless the file says otherwise.
    pub(super) adds_bos: bool,
    /// Whether text is composed (Unicode's NFC) first.
    pub(super) composes: bool,
}

/// The rules under a name.
pub(super) fn scheme(name: &str) -> Option<&'static Scheme> {
    SCHEMES.iter().find(|(names, _)| names.contains(&name)).map(|(_, scheme)| scheme)
}

/// All names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SCHEMES.iter().flat_map(|(names, _)| names.iter().copied())
}

const PLAIN: Scheme = Scheme { splits: &[GPT2], whole_words: false, adds_bos: false, composes: false };

const SCHEMES: &[(&[&str], Scheme)] = &[
    (
        &["default"],
        Scheme { splits: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"], ..PLAIN },
    ),
    (&["gpt-2"], PLAIN),
    (&["smollm", "starcoder", "refact", "minerva-7b"], Scheme { splits: &[r"\p{N}", GPT2], ..PLAIN }),
    (
        &["llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"],
        Scheme { splits: &[LLAMA3], whole_words: true, adds_bos: true, ..PLAIN },
    ),
    (&["dbrx", "smaug-bpe"], Scheme { splits: &[LLAMA3], ..PLAIN }),
    (&["qwen2"], Scheme { splits: &[QWEN2], composes: true, ..PLAIN }),
    (&["deepseek-r1-qwen", "stablelm2"], Scheme { splits: &[QWEN2], ..PLAIN }),
    (&["qwen35"], Scheme { splits: &[QWEN35], composes: true, ..PLAIN }),
    (&["tekken"], Scheme { splits: &[TEKKEN], whole_words: true, adds_bos: true, ..PLAIN }),
    (&["gpt-4o"], Scheme { splits: &[GPT4O], ..PLAIN }),
    (
        &["deepseek-llm"],
        Scheme {
            splits: &[
                "[\r\n]",
                CASED,
                "\\s?[!-/:-~\u{ff01}-\u{ff0f}\u{ff1a}-\u{ff5e}\u{2018}-\u{201f}\u{3000}-\u{3002}]+",
                r"\s+$",
                IDEOGRAPHS,
                r"\p{N}+",
            ],
            ..PLAIN
        },
    ),
    (
        &["deepseek-coder"],
        Scheme { splits: &["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", IDEOGRAPHS, r"\p{N}"], ..PLAIN },
    ),
    (
        &["deepseek-v3"],
        Scheme {
            splits: &[r"\p{N}{1,3}", "[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+", DEEPSEEK_V3],
            ..PLAIN
        },
    ),
];

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

const QWEN35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

const GPT4O: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

const DEEPSEEK_V3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"##,
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

const IDEOGRAPHS: &str = "[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+";

/// Letters of scripts with capitals, as far as this tokenizer's makers listed them.
const CASED: &str = concat!(
    r"\s?[A-Za-z",
    "\u{b5}\u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{1ba}\u{1bc}-\u{1bf}\u{1c4}-\u{293}\u{295}-\u{2af}",
    "\u{370}-\u{373}\u{376}\u{377}\u{37b}-\u{37d}\u{37f}\u{386}\u{388}-\u{38a}\u{38c}\u{38e}-\u{3a1}",
    "\u{3a3}-\u{3f5}\u{3f7}-\u{481}\u{48a}-\u{52f}\u{531}-\u{556}\u{10a0}-\u{10c5}\u{13a0}-\u{13f5}",
    "\u{13f8}-\u{13fd}\u{1c90}-\u{1cba}\u{1cbd}-\u{1cbf}\u{1d00}-\u{1d2b}\u{1d6b}-\u{1d77}",
    "\u{1d79}-\u{1d9a}\u{1e00}-\u{1f15}\u{1f18}-\u{1f1d}\u{1f20}-\u{1f45}\u{1f48}-\u{1f4d}",
    "\u{1f50}-\u{1f57}\u{1f59}\u{1f5b}\u{1f5d}\u{1f5f}-\u{1f7d}\u{1f80}-\u{1fb4}\u{1fb6}-\u{1fbc}\u{1fbe}",
    "\u{1fc2}-\u{1fc4}\u{1fc6}-\u{1fcc}\u{1fd0}-\u{1fd3}\u{1fd6}-\u{1fdb}\u{1fe0}-\u{1fec}",
    "\u{1ff2}-\u{1ff4}\u{1ff6}-\u{1ffc}\u{2102}\u{2107}\u{210a}-\u{2113}\u{2115}\u{2119}-\u{211d}\u{2124}",
    "\u{2126}\u{2128}\u{212a}-\u{212d}\u{212f}-\u{2134}\u{2139}\u{213c}-\u{213f}\u{2145}-\u{2149}\u{214e}",
    "\u{2183}\u{2184}\u{2c00}-\u{2c7b}\u{2c7e}-\u{2ce4}\u{2ceb}-\u{2cee}\u{2cf2}\u{2cf3}\u{a640}-\u{a66d}",
    "\u{a680}-\u{a69b}\u{a722}-\u{a76f}\u{a771}-\u{a787}\u{a78b}-\u{a78e}\u{ab70}-\u{abbf}",
    "\u{fb00}-\u{fb06}\u{fb13}-\u{fb17}\u{ff21}-\u{ff3a}\u{ff41}-\u{ff5a}\u{10400}-\u{1044f}",
    "\u{104b0}-\u{104d3}\u{104d8}-\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}\u{118a0}-\u{118df}",
    "\u{1e900}-\u{1e943}",
    "]+",
);
