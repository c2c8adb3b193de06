#!/usr/bin/env python3
"""Writes tests/golden/dequant/blocks.json: random blocks of every quantised type beside the floats that
the PyPI package gguf decodes them to, and rows of floats beside the blocks it encodes them to."""

import json
import pathlib
import platform
from importlib.metadata import version

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/golden/dequant/blocks.json"

# type, block bytes, blocks written, offsets of binary16 numbers in a block
DECODED = [
    (T.Q4_0, 18, 12, [0]),
    (T.Q4_1, 20, 12, [0, 2]),
    (T.Q5_0, 22, 12, [0]),
    (T.Q5_1, 24, 12, [0, 2]),
    (T.Q8_0, 34, 12, [0]),
    (T.Q4_K, 144, 6, [0, 2]),
    (T.Q5_K, 176, 6, [0, 2]),
    (T.Q6_K, 210, 6, [208]),
    (T.MXFP4, 17, 12, []),
]
ENCODED = [T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0]
SPECIAL_HALVES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF]  # zeros, subnormals, smallest, largest


def decoded(rng):
    for kind, size, count, halves in DECODED:
        blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
        for row in range(count):
            for at in halves:
                if row < len(SPECIAL_HALVES) and at == halves[0]:
                    half = np.array([SPECIAL_HALVES[row]], np.uint16)
                else:
                    half = rng.normal(0, 0.05, 1).astype(np.float16).view(np.uint16)
                blocks[row, at : at + 2] = half.view(np.uint8)
            if kind == T.MXFP4:
                blocks[row, 0] = [0, 1, 2, 126, 127, 128][row] if row < 6 else rng.integers(100, 150)
        values = quants.dequantize(blocks.reshape(-1), kind).astype("<f4")
        yield {"type": kind.name.lower(), "blocks": blocks.tobytes().hex(), "values": values.tobytes().hex()}


def encoded(rng):
    rows = rng.normal(0, 1, (4, 64)).astype(np.float32)
    rows[1, :32] = 0
    rows[2] *= np.float32(1e-4)
    for kind in ENCODED:
        blocks = quants.quantize(rows.reshape(-1), kind)
        yield {"type": kind.name.lower(), "values": rows.astype("<f4").tobytes().hex(), "blocks": blocks.tobytes().hex()}


def main():
    rng = np.random.default_rng(20260801)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    golden = {
        "written_by": {
            "script": "tools/golden/dequant.py",
            "python": platform.python_version(),
            "gguf": version("gguf"),
            "numpy": np.__version__,
        },
        "decoded": list(decoded(rng)),
        "encoded": list(encoded(rng)),
    }
    OUT.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
