#!/usr/bin/env python3
"""Writes tests/golden/rope/rope.json: inverse frequencies and attention factors of every scaling, from transformers'
rope init functions, and heads rotated by its Llama (half) and Cohere (interleaved) code."""

import json
import pathlib
import platform
from importlib.metadata import version

import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.cohere import modeling_cohere
from transformers.models.llama import modeling_llama

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/golden/rope/rope.json"
POSITIONS = [0, 1, 17, 1000, 30000]

LONG = [1.0 + 0.37 * j for j in range(12)]
SHORT = [1.0 + 0.01 * j for j in range(12)]
# name, head size, rope parameters as in config.json, length that picks longrope's list
CASES = [
    ("plain", 64, {"rope_type": "default", "rope_theta": 1e5}, None),
    ("partial", 64, {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}, None),
    ("linear", 32, {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}, None),
    ("llama3", 64, {"rope_type": "llama3", "rope_theta": 5e5, "factor": 32.0, "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}, None),
    ("yarn", 128, {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0,
                   "original_max_position_embeddings": 32768}, None),
    ("yarn_exact_ramp", 64, {"rope_type": "yarn", "rope_theta": 1.5e5, "factor": 32.0, "beta_fast": 32.0,
                             "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 4096}, None),
    ("yarn_factor_given", 32, {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0, "attention_factor": 0.7,
                               "beta_fast": 16.0, "beta_slow": 2.0, "original_max_position_embeddings": 256}, None),
    ("longrope_short", 32, {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75,
                            "factor": 32.0, "short_factor": SHORT, "long_factor": LONG,
                            "original_max_position_embeddings": 4096}, 100),
    ("longrope_long", 32, {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75,
                           "factor": 32.0, "short_factor": SHORT, "long_factor": LONG,
                           "original_max_position_embeddings": 4096}, 5000),
]


def digits(values):
    return [float(f"{x:.9g}") for x in values.tolist()]


def frequencies(config, rope_type, length):
    if rope_type == "default":
        return modeling_llama.LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    return ROPE_INIT_FUNCTIONS[rope_type](config, "cpu", length)


def rotated(inv_freq, factor, head, interleaved):
    """[positions, head] with the first 2 * len(inv_freq) elements turned, in double."""
    dim = 2 * len(inv_freq)
    angles = torch.tensor(POSITIONS, dtype=torch.float64)[:, None] * inv_freq.double()
    angles = torch.repeat_interleave(angles, 2, dim=-1) if interleaved else torch.cat([angles, angles], dim=-1)
    turn = modeling_cohere.rotate_half if interleaved else modeling_llama.rotate_half
    out = head.expand(len(POSITIONS), -1).clone()
    part = out[:, :dim]
    out[:, :dim] = part * (angles.cos() * factor) + turn(part) * (angles.sin() * factor)
    return digits(out.flatten())


def case(name, head_dim, parameters, length):
    config = LlamaConfig(hidden_size=2 * head_dim, num_attention_heads=2, head_dim=head_dim,
                         max_position_embeddings=131072, rope_parameters=dict(parameters))
    inv_freq, factor = frequencies(config, parameters["rope_type"], length)
    head = torch.linspace(-1.5, 2.0, head_dim, dtype=torch.float32).double()
    kept = dict(parameters)
    if "long_factor" in kept:
        lists = kept.pop("short_factor"), kept.pop("long_factor")
        kept["divisors"] = lists[length > kept["original_max_position_embeddings"]]
    return {
        "name": name, "head_dim": head_dim, "rotary_dim": 2 * len(inv_freq), "parameters": kept,
        "inv_freq": digits(inv_freq.double()), "attention_factor": float(factor),
        "head": digits(head),
        "half": rotated(inv_freq, factor, head, False),
        "interleaved": rotated(inv_freq, factor, head, True),
    }


def main():
    OUT.parent.mkdir(parents=True, exist_ok=True)
    golden = {
        "written_by": {"script": "tools/golden/rope.py", "python": platform.python_version(),
                       "torch": version("torch"), "transformers": version("transformers")},
        "positions": POSITIONS,
        "cases": [case(*c) for c in CASES],
    }
    OUT.write_text(json.dumps(golden, indent=None, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
