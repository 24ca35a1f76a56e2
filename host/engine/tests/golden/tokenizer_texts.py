"""Texts that tell tokenizers apart: code, digits, spaces, many scripts, emoji, and what looks like control tokens."""

import random

FIXED = [
    "",
    " ",
    "  ",
    "\n",
    "\n\n\n",
    "\t\tx",
    " a",
    "a ",
    "a  b   c    d",
    "Hello, world! It's 2024; we've 12345678 things, I'll say they're FINE.",
    "IT'S WE'VE I'LL THEY'RE x'S 'T 'tis o'clock",
    "3.14159 1,000,000 0x1F 1e-9 12:34:56 2024-11-29 100% $5.00 +1-1=0",
    "def f(x: int) -> int:\n    if x <= 1:\n        return 1\n\n    return x * f(x - 1)  # recursion\n",
    "fn main() {\r\n\tlet v: Vec<u8> = vec![0; 16];\r\n\tprintln!(\"{v:?}\");\r\n}\r\n",
    "#include <stdio.h>\nint main(void){printf(\"%d\\n\",1<<4);return 0;}",
    "SELECT id, name FROM users WHERE age >= 21 AND name LIKE '%ann%' ORDER BY id DESC;",
    "https://example.org/a/b?c=d&e=f#g user@example.com /usr/local/bin C:\\temp\\x",
    '{"a": [1, 2.5, null, true], "b": {"c": "d\\n"}}',
    "HTTPServerError camelCaseWord snake_case_word SCREAMING_CASE kebab-case-word iOS McDonald",
    "na\u00efve caf\u00e9 \u00fcber Stra\u00dfe \u00c5ngstr\u00f6m \u0141\u00f3d\u017a ni\u00f1o fa\u00e7ade",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u041a\u0430\u043a \u0434\u0435\u043b\u0430? 42",
    "\u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 \u03ba\u03cc\u03c3\u03bc\u03b5",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u4eca\u5929\u662f2024\u5e7411\u670829\u65e5\u3002",
    "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c\u3001\u30c6\u30b9\u30c8\u3067\u3059\u3002\u30ab\u30bf\u30ab\u30ca",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4 123",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0661\u0662\u0663",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "\u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0 \u0532\u0561\u0580\u0587",
    "\U0001f600\U0001f680 ok\U0001f44d\U0001f3fd \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \U0001f1e9\U0001f1ea",
    "\u2200x\u2208\u211d: \u2308x\u2309 = \u2212\u230a\u2212x\u230b, \u03b1\u00b2+\u03b2\u00b2\u2264\u03b3\u00b2 \u2192 \u221e",
    "\u00bd \u00b2 \u2167 \u2460 \u0663 \uff11\uff12\uff13 \u5341\u4e8c",
    "\u00a0nbsp\u2003em\u3000ideographic\u200bzero\u2028line\u0085next",
    "\u201cquotes\u201d \u2018single\u2019 \u2014 dash \u2026 \u00abguillemets\u00bb \u2022 bullet",
    "\x00\x01\x1b[0m\x7f",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|></s><s>[INST] <bos><eos><unk>",
    "<start_of_turn>user\nhi<end_of_turn>\n",
    "<table><tr><td>x</td></tr></table>\n\n\n<h1>y</h1>",
    "\u2581under\u2581score <0x0A> \u0120space",
    "ab" * 40,
    "a" * 97,
    " " * 33 + "x" + "\n" * 33 + "y" + "\t" * 33,
    "!!!???...,,,;;;:::---___***///\\\\\\|||@@@###$$$%%%^^^&&&((()))",
    "x=1;y=2 ;z= 3\n\n \n  \n\t\n",
    "\u01c5 \u02b0 \u00aa \ua78f \u2c7e \U00010400 \u1e9e \ufb01",
]

PARTS = [
    ["the", "of", "and", "House", "ENGINE", "quick", "isn't", "We'll", "don", "token", "izers", "unbelievable"],
    ["0", "7", "42", "128", "1999", "65536", "3.5", "1,234,567"],
    [" ", " ", " ", "  ", "\n", "\n\n", "\t", "\r\n", "    ", " \n "],
    [".", ",", "!", "?", ":", ";", "--", "...", "(", ")", "[]", "{}", "=>", "!=", "'", '"', "`", "_", "/", "\\"],
    ["return", "self.", "lambda", "#include", "int*", "&mut", "->", "std::", "0x", "//", "<div>", "</a>"],
    ["\u00e9", "\u00df", "\u044f", "\u03a9", "\u4e2d\u6587", "\u65e5\u672c\u8a9e", "\ud55c\uad6d", "\u0639", "\u0e44\u0e17\u0e22"],
    ["\U0001f600", "\U0001f680", "\u2764", "\u2192", "\u20ac", "\u00b0", "\u2014", "\u2026"],
]


def varied(count, seed=1):
    """The fixed texts, then random mixtures up to a count."""
    source = random.Random(seed)
    texts = list(FIXED)
    while len(texts) < count:
        kinds = source.sample(PARTS, source.randint(2, len(PARTS)))
        texts.append("".join(source.choice(source.choice(kinds)) for _ in range(source.randint(1, 24))))
    return texts[:count]
