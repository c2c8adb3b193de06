#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/unicode.json: hashes of what the PyPI package `tokenizers` makes of
every assigned code point, alone and between others, in each normal form and in lower case.

    python tools/golden/tokenizer_unicode.py
"""
import json
import pathlib

import tokenizers
from tokenizers import normalizers

import tokenizer_corpus as corpus

OUT = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/golden/tokenizer/unicode.json"
BLOCK = 4096


def main():
    steps = {"nfc": normalizers.NFC(), "nfd": normalizers.NFD(), "nfkc": normalizers.NFKC(),
             "nfkd": normalizers.NFKD(), "lowercase": normalizers.Lowercase()}
    out = {"versions": {"tokenizers": tokenizers.__version__}, "block": BLOCK}
    begins = list(range(0, 0x33000, BLOCK)) + [0xE0000]
    out["begins"] = begins
    for name, step in steps.items():
        out[name] = []
        for begin in begins:
            h = corpus.Hash()
            for c in range(begin, begin + BLOCK):
                if 0xD800 <= c < 0xE000:
                    continue
                # Alone, among marks of classes 230, 220 and 1, and behind letters that compose.
                for text in (chr(c), "a" + chr(c) + "\u0301\u0316\u0334" + chr(c)):
                    h.add(step.normalize_str(text).encode())
            out[name].append(h.hex())
    OUT.write_text(json.dumps(out, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
