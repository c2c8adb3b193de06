#!/usr/bin/env python3
"""Writes the seeds of the gguf and safetensors fuzz targets: small files, good ones and ones that each break
one rule, so that a fuzzer starts behind every check. tests/fuzz/corpus/{gguf,safetensors}/."""

import json
import pathlib
import struct

ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests/fuzz/corpus"
U8, U32, F32, BOOL, STRING, ARRAY, U64 = 0, 4, 6, 7, 8, 9, 10
# ggml type: elements and bytes of a block
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 12: (256, 144),
          13: (256, 176), 14: (256, 210), 24: (1, 1), 28: (1, 8), 30: (1, 2), 39: (32, 17)}


def text(s):
    raw = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(raw)) + raw


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def u32(x):
    return struct.pack("<I", x)


def array(kind, count, raw):
    return struct.pack("<IQ", kind, count) + raw


def tensor(name, dims, kind, offset):
    return text(name) + u32(len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", kind, offset)


def gguf(keys=(), tensors=(), data=0, version=3, n_keys=None, n_tensors=None, alignment=32):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors) if n_tensors is None else n_tensors,
                                len(keys) if n_keys is None else n_keys)
    out += b"".join(keys) + b"".join(tensors)
    if data:
        out += b"\0" * (-len(out) % alignment) + bytes(range(256)) * (data // 256) + bytes(data % 256)
    return out


def every_type():
    entries, offset = [], 0
    for kind, (elems, size) in BLOCKS.items():
        entries.append(tensor(f"t{kind}", [elems], kind, offset))
        offset += -(-size // 32) * 32
    return gguf([], entries, offset)


def llama():
    keys = [key("general.architecture", STRING, text("llama"))]
    for name, value in [("block_count", 1), ("context_length", 8), ("embedding_length", 4), ("feed_forward_length", 4),
                        ("attention.head_count", 2), ("attention.head_count_kv", 1), ("rope.dimension_count", 2)]:
        keys.append(key("llama." + name, U32, u32(value)))
    keys.append(key("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-5)))
    keys.append(key("tokenizer.ggml.tokens", ARRAY, array(STRING, 2, text("a") + text(b"\xff"))))
    keys.append(key("flags", ARRAY, array(BOOL, 2, b"\0\1")))
    return gguf(keys, [tensor("token_embd.weight", [4, 2], 0, 0)], 32)


def gguf_seeds():
    one = tensor("t", [8], 0, 0)
    yield "empty", gguf()
    yield "version2", gguf(version=2)
    yield "version4", gguf(version=4)
    yield "every_type", every_type()
    yield "llama", llama()
    yield "llama_cut", llama()[:-40]
    yield "aligned64", gguf([key("general.alignment", U32, u32(64))], [one], 64, alignment=64)
    yield "alignment0", gguf([key("general.alignment", U32, u32(0))], [one], 32)
    yield "alignment_text", gguf([key("general.alignment", STRING, text("32"))], [one], 32)
    yield "hole", gguf([], [one, tensor("u", [8], 0, 128)], 160)
    yield "overlap", gguf([], [tensor("t", [16], 0, 0), tensor("u", [8], 0, 32)], 64)
    yield "twice", gguf([], [one, tensor("t", [8], 0, 32)], 64)
    yield "unpadded", gguf([], [tensor("t", [3], 0, 0)], 12)
    yield "dims0", gguf([], [tensor("t", [], 0, 0)], 32)
    yield "extent0", gguf([], [tensor("t", [0, 4], 0, 0)], 32)
    yield "overflow", gguf([], [tensor("t", [1 << 32, 1 << 32], 0, 0)], 32)
    yield "ragged_row", gguf([], [tensor("t", [48], 2, 0)], 64)
    yield "removed_type", gguf([], [tensor("t", [8], 4, 0)], 32)
    yield "nested_array", gguf([key("k", ARRAY, array(ARRAY, 1, array(ARRAY, 1, b"")))])
    yield "long_array", gguf([key("k", ARRAY, array(U64, 1 << 60, b""))])
    yield "bool2", gguf([key("k", BOOL, b"\2")])
    yield "many_keys", gguf(n_keys=1 << 60)
    yield "many_tensors", gguf(n_tensors=1 << 60)
    yield "split", gguf([key("split.no", U32, u32(0)), key("split.count", U32, u32(2))])


def safetensors(header, data=0):
    raw = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(raw)) + raw + bytes(data)


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_seeds():
    good = {"__metadata__": {"format": "pt"}, "a": entry("F32", [2, 3], 0, 24), "b": entry("BF16", [], 24, 26),
            "c": entry("U8", [0], 26, 26)}
    yield "empty", safetensors({})
    yield "good", safetensors(good, 26)
    yield "cut", safetensors(good, 20)
    yield "padded", safetensors(json.dumps(good).encode() + b"   ", 26)
    for dtype, size in [("F64", 8), ("I64", 8), ("I32", 4), ("I16", 2), ("F16", 2), ("I8", 1), ("BOOL", 1)]:
        yield dtype.lower(), safetensors({"t": entry(dtype, [1], 0, size)}, size)
    yield "f8", safetensors({"t": entry("F8_E4M3", [1], 0, 1)}, 1)
    yield "hole", safetensors({"t": entry("U8", [1], 1, 2)}, 2)
    yield "overlap", safetensors({"t": entry("U8", [2], 0, 2), "u": entry("U8", [2], 1, 3)}, 3)
    yield "trailing", safetensors({"t": entry("U8", [1], 0, 1)}, 2)
    yield "wrong_size", safetensors({"t": entry("F32", [1], 0, 2)}, 2)
    yield "overflow", safetensors({"t": entry("U8", [1 << 32, 1 << 32], 0, 0)})
    yield "negative", safetensors({"t": entry("U8", [-1], 0, 1)}, 1)
    yield "fraction", safetensors(b'{"t":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}', 1)
    yield "twice", safetensors(b'{"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"t":{}}')
    yield "deep", safetensors(b'{"t":' + b"[" * 20)
    yield "long_header", struct.pack("<Q", 1 << 40) + b"{}"


def main():
    for target, seeds in (("gguf", gguf_seeds()), ("safetensors", safetensors_seeds())):
        folder = ROOT / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in seeds:
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
