#!/usr/bin/env python3
"""Writes tests/golden/attention/*.json: softmax layers of transformers in FP32 on the CPU, with eager attention. Weights and
inputs have three decimals, so the files stay small. Each is held to what layer goldens are held to, 2e-5 of the largest
output; that whole models agree is in models.py."""

import importlib
import json
import pathlib
import platform
import sys
from importlib.metadata import version

import torch

sys.modules["fla"] = None  # else its GPU kernels would be called, also on a CPU
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/attention"
TOKENS = 41
NORM_EPS = 1e-6
# M 16, H 4, G 2, D 8
SIZES = dict(hidden_size=16, num_attention_heads=4, num_key_value_heads=2, head_dim=8, num_hidden_layers=2,
             max_position_embeddings=64, rms_norm_eps=NORM_EPS)
LAYER = dict(layer=0, d_model=16, n_heads=4, n_kv_heads=2, head_dim=8, norm_eps=NORM_EPS, scale=8 ** -0.5)


def rounded(x):
    return (x.double() * 1000).round().div(1000).float()


def numbers(tensor):
    return [float(str(x)) for x in tensor.detach().float().contiguous().flatten().numpy()]


def part(family, kind, name):
    return getattr(importlib.import_module(f"transformers.models.{family}.{kind}_{family}"), name)


def mask(window):
    query, key = torch.arange(TOKENS)[:, None], torch.arange(TOKENS)[None, :]
    seen = (key <= query) & (query - key < window)
    return torch.where(seen, 0.0, float("-inf"))[None, None]


def write(name, family, layer_class, config_class, layer, settings, rotary=None, window=TOKENS, index=0, spec=None):
    """`layer`: what this engine's layer is told; `spec`: its mixer."""
    generator = torch.Generator().manual_seed(len(name) * 1000 + TOKENS)
    config = part(family, "configuration", config_class)(**settings)
    config._attn_implementation = "eager"
    module = part(family, "modeling", layer_class)(config, index).float()
    weights = {}
    for key, parameter in module.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        is_norm = key.endswith("norm.weight")
        neutral = 1.0 - layer.get("norm_offset", 0) if is_norm else 0.0
        size = 0.2 if is_norm else 0.6 if parameter.ndim == 1 else 1.5 / parameter.shape[-1] ** 0.5
        parameter.data.copy_(rounded(neutral + size * noise))
        weights[f"self_attn.{key}"] = parameter
    weights["input_layernorm.weight"] = torch.full((16,), 1.0 - layer.get("norm_offset", 0))
    x = rounded(0.7 * torch.randn((TOKENS, 16), generator=generator))
    normed = (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + NORM_EPS))[None]
    arguments = {"attention_mask": mask(window)}
    if rotary:
        turn = part(family, "modeling", rotary)(config)
        arguments["position_embeddings"] = turn(normed, torch.arange(TOKENS)[None])
    with torch.no_grad():
        y = module(normed, **arguments)[0]
    written_by = {"script": "tools/golden/attention.py", "python": platform.python_version(),
                  **{package: version(package) for package in ("torch", "transformers")}}
    golden = {"written_by": written_by, "name": name, "oracle": f"transformers {layer_class}", "layer": LAYER | layer,
              "mixer": spec or {"kind": "full_attention"},
              "weights": {key: {"shape": list(w.shape), "values": numbers(w)} for key, w in weights.items()},
              "x": numbers(x), "y": numbers(y[0])}
    text = json.dumps(golden, separators=(",", ":"), allow_nan=False)
    for key in ("weights", "x", "y"):
        text = text.replace(f'"{key}":', f'\n"{key}":', 1)
    (OUT / f"{name}.json").write_text(text + "\n")
    print(f"{name}: {len(text)} bytes")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for file in OUT.glob("*.json"):
        file.unlink()
    gated = dict(qk_norm=True, norm_offset=1, output_gate=True, rope=dict(theta=1000.0, rotary_dim=4))
    turned = dict(rope_type="default", rope_theta=1000.0, partial_rotary_factor=0.5)
    write("qwen3_5", "qwen3_5", "Qwen3_5Attention", "Qwen3_5TextConfig", gated | dict(qkv_bias=True, out_bias=True),
          SIZES | dict(attention_bias=True, layer_types=["full_attention"] * 2,
                       rope_parameters=turned | dict(mrope_section=[1, 1, 0], mrope_interleaved=True)),
          "Qwen3_5TextRotaryEmbedding")
    write("qwen3_next", "qwen3_next", "Qwen3NextAttention", "Qwen3NextConfig", gated,
          SIZES | dict(layer_types=["full_attention"] * 2, rope_parameters=turned), "Qwen3NextRotaryEmbedding")
    # YaRN without truncation, and betas between which the frequencies of so narrow a head lie.
    yarn = dict(rope_type="yarn", rope_theta=150.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0,
                beta_slow=1.0, truncate=False)
    biased = dict(qkv_bias=True, out_bias=True, rope=dict(
        theta=150.0, rotary_dim=8, yarn=dict(factor=4.0, original_context=16, beta_fast=4.0, beta_slow=1.0, truncate=False)))
    oss = SIZES | dict(rope_parameters=yarn, sliding_window=9, layer_types=["full_attention", "sliding_attention"])
    write("gpt_oss_full", "gpt_oss", "GptOssAttention", "GptOssConfig", biased, oss, "GptOssRotaryEmbedding",
          spec={"kind": "full_attention", "sink": "learned"})
    write("gpt_oss_sliding", "gpt_oss", "GptOssAttention", "GptOssConfig", biased | dict(layer=1), oss,
          "GptOssRotaryEmbedding", window=9, index=1, spec={"kind": "sliding_window", "window": 9, "sink": "learned"})
    write("minimax", "minimax", "MiniMaxAttention", "MiniMaxConfig", dict(rope=dict(theta=1000.0, rotary_dim=8)),
          SIZES | dict(layer_types=["full_attention"] * 2,
                       rope_parameters=dict(rope_type="default", rope_theta=1000.0)), "MiniMaxRotaryEmbedding")
    latent = dict(rank=11, own_dim=6, shared_dim=3, value_dim=7)
    kimi = {key: value for key, value in SIZES.items() if key != "head_dim"} | dict(
        num_key_value_heads=4, kv_lora_rank=11, qk_nope_head_dim=6, qk_rope_head_dim=3, v_head_dim=7,
        layer_types=["full_attention"] * 2)
    told = dict(n_kv_heads=4, head_dim=9, scale=9 ** -0.5, latent=latent)
    write("kimi_linear", "kimi_linear", "KimiLinearAttention", "KimiLinearConfig", told, kimi)
    write("kimi_linear_sliding", "kimi_linear", "KimiLinearAttention", "KimiLinearConfig", told, kimi, window=7,
          spec={"kind": "sliding_window", "window": 7})


if __name__ == "__main__":
    main()
