#!/usr/bin/env python3
"""Writes src/formats/unicode/tables.cpp: what the tokenizers need to know of every code point.

Facts come from two packages, whose versions are checked and written into the file:
  unicodedata2 16.0.0   general categories of Unicode 16, the version of the regex engine that
                        Hugging Face's tokenizers library carries
  unicodedata           of Python 3.11, Unicode 14: the version of PCRE2 10.42, which has to be told
                        what is newer
  tokenizers 0.23.x     asked code point by code point for what it takes as a digit (Unicode 17), as
                        a word character, as known to its (older) normaliser, and as lower case

    python tools/unicode_tables.py
"""
import pathlib
import unicodedata

import tokenizers
import unicodedata2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

OUT = pathlib.Path(__file__).resolve().parent.parent / "src/formats/unicode/tables.cpp"
BLOCK = 128
SPACE_CONTROLS = {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85}
# The order is that of enum Category in category.h; "Cs" is never looked up in valid text.
CATEGORIES = ["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Zs", "Zl", "Zp",
              "space_control", "Cc", "Cf", "Cs", "Co", "Cn", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf",
              "Po", "Sm", "Sc", "Sk", "So"]
DIGIT, WORD, OPAQUE = 32, 64, 128
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def category(c):
    return "space_control" if c in SPACE_CONTROLS else unicodedata2.category(chr(c))


def probe_regex(pattern):
    """The code points that the library's regex engine lets `pattern` match."""
    split, hit = pre_tokenizers.Split(Regex(pattern), "removed"), set()
    for begin in range(0, len(ALL), 4096):
        block = ALL[begin:begin + 4096]
        kept = set()
        for _, (a, b) in split.pre_tokenize_str("".join(map(chr, block))):
            kept.update(block[a:b])
        hit.update(set(block) - kept)
    return hit


def probe_digits():
    digits = pre_tokenizers.Digits(individual_digits=True)
    return {c for c in ALL if len(digits.pre_tokenize_str("a" + chr(c) + "b")) == 3}


def probe_word():
    tokenizer = Tokenizer(models.BPE({"a": 0}, []))
    tokenizer.add_tokens([AddedToken("!!", single_word=True, normalized=False)])
    return {c for c in ALL if 1 not in tokenizer.encode(chr(c) + "!!").ids}


def probe_opaque():
    """Code points that Unicode 16 decomposes, reorders or composes and the library does not."""
    nfd, nfc, nfkd = normalizers.NFD(), normalizers.NFC(), normalizers.NFKD()
    opaque = set()
    for c in ALL:
        s = chr(c)
        combining = unicodedata2.combining(s)
        if combining > 1 and nfd.normalize_str("a" + s + "\u0334") == "a" + s + "\u0334":
            opaque.add(c)
        if combining == 1 and nfd.normalize_str("a\u0301" + s) == "a\u0301" + s:
            opaque.add(c)
        if unicodedata2.normalize("NFKD", s) != s and nfkd.normalize_str(s) == s:
            opaque.add(c)
        canonical = unicodedata2.normalize("NFD", s)
        if len(canonical) > 1 and unicodedata2.normalize("NFC", canonical) == s \
                and nfc.normalize_str(canonical) != s:
            opaque.add(ord(canonical[0]))
    return opaque


def lower_ranges():
    """(first, last, stride, delta) of every code point whose lower case is one other code point."""
    lower = normalizers.Lowercase()
    pairs = [(c, ord(m) - c) for c in ALL
             if len(m := lower.normalize_str(chr(c))) == 1 and ord(m) != c]
    ranges = []
    for c, delta in pairs:
        if ranges and ranges[-1][3] == delta:
            first, last, stride, _ = ranges[-1]
            gap = c - last
            if gap in (1, 2) and (first == last or gap == stride):
                ranges[-1] = (first, c, gap, delta)
                continue
        ranges.append((c, c, 1, delta))
    return ranges


def newer_ranges():
    """(first, last, category) of what Unicode 14 did not have, surrogates left out."""
    ranges = []
    for c in ALL:
        name = unicodedata2.category(chr(c))
        if unicodedata.category(chr(c)) != "Cn" or name == "Cn":
            continue
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == name:
            ranges[-1] = (ranges[-1][0], c, name)
        else:
            ranges.append((c, c, name))
    return ranges


def rows(values, per_line):
    return "\n".join("    " + ",".join(map(str, values[i:i + per_line])) + ","
                     for i in range(0, len(values), per_line))


def main():
    assert unicodedata2.unidata_version == "16.0.0", unicodedata2.unidata_version
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    assert tokenizers.__version__.startswith("0.23."), tokenizers.__version__
    for name in ("Lu", "Ll", "Lt", "Lm", "Lo", "M", "N", "Z", "P", "S"):
        expected = {c for c in ALL if unicodedata2.category(chr(c)).startswith(name)}
        assert probe_regex(r"\p{%s}" % name) == expected, name
    assert probe_regex(r"\s") == {c for c in ALL if category(c)[0] in "Zs"}

    digits, word, opaque = probe_digits(), probe_word(), probe_opaque()
    props = [CATEGORIES.index(category(c)) + DIGIT * (c in digits) + WORD * (c in word)
             + OPAQUE * (c in opaque) for c in range(0x110000)]
    blocks, index = {}, []
    for begin in range(0, len(props), BLOCK):
        index.append(blocks.setdefault(tuple(props[begin:begin + BLOCK]), len(blocks)))
    assert len(blocks) < 65536
    ranges, newer = lower_ranges(), newer_ranges()
    OUT.write_text(f"""\
// Properties of code points in two levels, and the lower-case ranges. Written by
// tools/unicode_tables.py from Unicode {unicodedata2.unidata_version} (unicodedata2) and tokenizers {tokenizers.__version__}; do not edit.
#include "formats/unicode/category.h"

namespace bifocal::unicode {{

// clang-format off
const uint16_t kBlockOf[{len(index)}] = {{
{rows(index, 32)}
}};

const uint8_t kProps[{len(blocks)}][{BLOCK}] = {{
{chr(10).join("    {" + ",".join(map(str, block)) + "}," for block in blocks)}
}};

const LowerRange kLowerRanges[{len(ranges)}] = {{
{chr(10).join("    {%#x, %#x, %d, %d}," % r for r in ranges)}
}};
const int kLowerRangeCount = {len(ranges)};

const NewerRange kNewerRanges[{len(newer)}] = {{
{chr(10).join('    {%#x, %#x, Category::%s},' % r for r in newer)}
}};
const int kNewerRangeCount = {len(newer)};
// clang-format on

}}  // namespace bifocal::unicode
""")
    print(f"{OUT}: {len(blocks)} blocks, {len(ranges)} lower-case ranges, "
          f"{len(digits)} digits, {len(word)} word characters, {len(opaque)} opaque")


if __name__ == "__main__":
    main()
