#!/usr/bin/env python3
"""Tiny random checkpoints of every family, with logits: the goldens of tests of the whole model.

    tools/golden/models.py [--out DIR] [CASE...]

Each case is a folder below DIR (default tests/golden/models) with what transformers saves (config.json,
*.safetensors), golden.safetensors with the token ids and FP32 logits that transformers gives on the CPU with eager
attention, and for most a GGUF twin of the same weights, written by the gguf package with the names and value changes
that GGUF converters make. Weights are rounded to BF16 first, so that files may store them as BF16 without a difference.
Sizes that could be confused differ from each other.
"""

import argparse
import importlib.metadata
import json
import math
import os
import shutil
import sys

import gguf
import numpy as np
import safetensors.torch
import torch

# Where transformers finds fla it calls fla's GPU kernels, also on a CPU: let it not find any.
sys.modules["fla"] = None
import transformers

import models_qwen

VOCAB = 97
TOKENS = 48

SIZES = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=40, num_attention_heads=4, num_key_value_heads=2,
             head_dim=12, num_hidden_layers=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2,
             pad_token_id=None)
# For families whose head size is always hidden_size / heads.
EVEN_SIZES = {key: value for key, value in SIZES.items() if key != "head_dim"} | dict(hidden_size=48)

OSS_SIZES = SIZES | dict(
    hidden_size=24, num_local_experts=5, num_experts_per_tok=3, sliding_window=9, tie_word_embeddings=False,
    rope_parameters=dict(rope_type="yarn", rope_theta=150.0, factor=4.0, original_max_position_embeddings=16,
                         beta_fast=4.0, beta_slow=1.0, truncate=False))

# Value heads three to a key head, so that no order of them is its own reverse.
QWEN_SIZES = SIZES | dict(head_dim=16, linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=8,
                          linear_value_head_dim=5, linear_conv_kernel_dim=4)

# name: (config class, settings, options)
# options: gguf: write a twin; bf16: store as BF16; shard: bytes per shard; mxfp4: experts as MXFP4; whole: the settings
# are the text part of this model, which also sees images; further: tensors of parts that the text model does not have
CASES = {
    "llama": ("LlamaConfig", SIZES | dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=False),
              dict(shard="30KB")),
    "llama_tied": ("LlamaConfig", SIZES | dict(tie_word_embeddings=True, rms_norm_eps=1e-5,
                                               rope_parameters=dict(rope_type="default", rope_theta=100000.0),
                                               eos_token_id=[2, 5]), dict(gguf=True)),
    "llama3_rope": ("LlamaConfig", SIZES | dict(
        rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0,
                             high_freq_factor=4.0, original_max_position_embeddings=16)), dict(gguf=True, bf16=True)),
    "llama_linear_rope": ("LlamaConfig", SIZES | dict(
        rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)), dict(gguf=True, bf16=True)),
    "llama_yarn_rope": ("LlamaConfig", SIZES | dict(
        rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0, original_max_position_embeddings=16,
                             beta_fast=8.0, beta_slow=1.0, truncate=False)), dict(bf16=True)),
    "smollm3": ("SmolLM3Config", SIZES | dict(num_hidden_layers=4, tie_word_embeddings=True, no_rope_layer_interval=4,
                                              head_dim=12), dict(gguf=True, bf16=True)),
    "smollm3_layers": ("SmolLM3Config", SIZES | dict(no_rope_layers=[0, 1], use_sliding_window=True, sliding_window=11,
                                                     tie_word_embeddings=False), dict(bf16=True)),
    "mistral": ("MistralConfig", SIZES | dict(sliding_window=9), dict(gguf=True, bf16=True)),
    "qwen2": ("Qwen2Config", EVEN_SIZES | dict(
        tie_word_embeddings=True, rope_parameters=dict(rope_type="yarn", rope_theta=1000.0, factor=4.0,
                                                       original_max_position_embeddings=16)),
              dict(gguf=True, bf16=True)),
    "qwen2_window": ("Qwen2Config", EVEN_SIZES | dict(num_hidden_layers=3, use_sliding_window=True, sliding_window=7,
                                                      max_window_layers=1), dict(bf16=True)),
    "qwen3": ("Qwen3Config", SIZES | dict(tie_word_embeddings=True), dict(gguf=True)),
    "phi3": ("Phi3Config", EVEN_SIZES | dict(sliding_window=13, original_max_position_embeddings=64),
             dict(gguf=True, bf16=True)),
    "phi3_longrope": ("Phi3Config", EVEN_SIZES | dict(
        hidden_size=64, tie_word_embeddings=True, original_max_position_embeddings=20,
        rope_parameters=dict(rope_type="longrope", rope_theta=1000.0, partial_rotary_factor=0.75,
                             original_max_position_embeddings=20,
                             short_factor=[1.0, 1.1, 1.2, 1.3, 1.4, 1.5],
                             long_factor=[1.0, 1.5, 2.5, 3.0, 3.5, 4.0])), dict(gguf=True, bf16=True, short=18)),
    "gemma3": ("Gemma3TextConfig", SIZES | dict(
        num_hidden_layers=3, sliding_window=10, sliding_window_pattern=2, query_pre_attn_scalar=20,
        tie_word_embeddings=True,
        rope_parameters=dict(sliding_attention=dict(rope_type="default", rope_theta=100.0),
                             full_attention=dict(rope_type="linear", rope_theta=10000.0, factor=2.0))),
               dict(gguf=True, bf16=True)),
    "gpt_oss": ("GptOssConfig", OSS_SIZES, dict(gguf=True, bf16=True)),
    "gpt_oss_mxfp4": ("GptOssConfig", OSS_SIZES | dict(hidden_size=32, intermediate_size=64, num_local_experts=6,
                                                       num_hidden_layers=3), dict(gguf=True, bf16=True, mxfp4=True)),
    "minimax": ("MiniMaxConfig", SIZES | dict(
        num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"], block_size=16,
        num_local_experts=5, num_experts_per_tok=2, tie_word_embeddings=False, full_attn_alpha_factor=1.3,
        full_attn_beta_factor=0.8, linear_attn_alpha_factor=1.1, linear_attn_beta_factor=0.7, mlp_alpha_factor=0.9,
        mlp_beta_factor=1.2), dict(bf16=True)),
    # Epsilons above the usual 1e-6: what a state gives at first is near 0, and a norm would blow up its rounding.
    "qwen3_5": ("Qwen3_5TextConfig", QWEN_SIZES | dict(
        num_hidden_layers=3, rms_norm_eps=1e-4, layer_types=["linear_attention", "full_attention", "linear_attention"],
        tie_word_embeddings=True, attention_bias=True, rope_parameters=dict(
            rope_type="default", rope_theta=1000.0, partial_rotary_factor=0.5, mrope_section=[2, 1, 1],
            mrope_interleaved=True)), dict(gguf=True, bf16=True)),
    "qwen3_5_whole": ("Qwen3_5Config", QWEN_SIZES | dict(num_hidden_layers=4, rms_norm_eps=1e-3), dict(
        bf16=True, whole=dict(tie_word_embeddings=False, image_token_id=90, video_token_id=91, vision_start_token_id=92,
                              vision_end_token_id=93, vision_config=dict(
                                  depth=1, hidden_size=8, intermediate_size=8, num_heads=2, patch_size=2,
                                  spatial_merge_size=2, temporal_patch_size=1, out_hidden_size=32,
                                  num_position_embeddings=4)), further=("mtp.fc.weight", "mtp.norm.weight"))),
    # Dense by mlp_only_layers (1 and 3) or by decoder_sparse_step (0 and 2).
    "qwen3_next": ("Qwen3NextConfig", QWEN_SIZES | dict(
        num_hidden_layers=4, num_experts=4, decoder_sparse_step=2, mlp_only_layers=[1, 3],
        rope_parameters=dict(rope_type="default", rope_theta=5000.0, partial_rotary_factor=0.25)),
                   dict(gguf=True, bf16=True)),
    # Layers 1 and 3 have experts and a shared one.
    "qwen3_next_experts": ("Qwen3NextConfig", QWEN_SIZES | dict(
        num_hidden_layers=4, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=20,
        shared_expert_intermediate_size=28, decoder_sparse_step=2, norm_topk_prob=True,
        rope_parameters=dict(rope_type="default", rope_theta=5000.0, partial_rotary_factor=0.25)), dict(bf16=True)),
    # Two of three groups of experts are open to a token; two shared experts are one of twice the width.
    "kimi_linear": ("KimiLinearConfig", {key: SIZES[key] for key in SIZES if key != "head_dim"} | dict(
        num_hidden_layers=4, num_key_value_heads=4, rms_norm_eps=1e-4, kv_lora_rank=20, qk_nope_head_dim=8,
        qk_rope_head_dim=6, v_head_dim=10, linear_num_heads=3, linear_head_dim=9, linear_conv_kernel_dim=4,
        layer_types=["linear_attention", "full_attention", "linear_attention", "full_attention"],
        num_local_experts=6, num_experts_per_tok=2, n_group=3, topk_group=2, n_shared_experts=2,
        moe_intermediate_size=12, tie_word_embeddings=False), dict(bf16=True)),
    # Experts in every layer, as GGUF files of this architecture have them.
    "qwen3_next_sparse": ("Qwen3NextConfig", QWEN_SIZES | dict(
        num_hidden_layers=2, layer_types=["linear_attention", "full_attention"], num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=12, shared_expert_intermediate_size=20, decoder_sparse_step=1, norm_topk_prob=True,
        rope_parameters=dict(rope_type="default", rope_theta=5000.0, partial_rotary_factor=0.25)),
                          dict(gguf=True, bf16=True)),
}

# Layouts that replace a checkpoint's own, for one case: (window, sink tokens).
REPLACED = {"llama_tied": {"window=9": (9, 0), "window=6,sink_tokens=3": (6, 3)},
            "gpt_oss": {"window=6,sink_tokens=3,sink=learned": (6, 3)},
            "qwen3_5": {"window=7,sink_tokens=2": (7, 2)},
            "kimi_linear": {"window=7,sink_tokens=2": (7, 2)}}


def has_offset(model_type, name):
    """Whether a norm is stored as w and applied as 1 + w."""
    return "gemma" in model_type or ("qwen3_" in model_type and not name.endswith("linear_attn.norm.weight"))


def randomize(model, generator):
    """Weights large enough that every part shows in the logits; norms near the value that does nothing."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("sinks"):
            value = noise
        elif "experts." in name and name.endswith("_bias"):
            value = 0.3 * noise
        elif "experts." in name and type(model).__name__.startswith("GptOss"):  # [E, in, out]; some past the clamp
            value = noise * 3.5 / math.sqrt(parameter.shape[-2])
        elif name.endswith("norm.weight"):
            neutral = 0.0 if has_offset(model.config.model_type, name) else 1.0
            value = neutral + 0.2 * noise
        elif name.endswith(".bias"):
            value = 0.3 * noise
        elif "embed_tokens" in name:
            value = 0.5 * noise
        else:
            value = noise * 1.2 / math.sqrt(parameter.shape[-1])
        parameter.data.copy_(value.to(torch.bfloat16).float())
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):  # a parameter in all but name
            buffer.copy_((0.3 * torch.randn(buffer.shape, generator=generator)).to(torch.bfloat16).float())


def additive_mask(n, window, sinks):
    """[1, 1, n, n]: query t sees key j iff j <= t and (t - j < window or j < sinks)."""
    query, key = torch.arange(n)[:, None], torch.arange(n)[None, :]
    visible = (key <= query) & ((query - key < window) | (key < sinks))
    return torch.where(visible, 0.0, torch.finfo(torch.float32).min)[None, None]


# The values of MXFP4's codes: sign, then 0 to 6.
MXFP4_VALUES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
MXFP4_VALUES = torch.cat([MXFP4_VALUES, -MXFP4_VALUES])


def mxfp4(weight):
    """Blocks of 32 along the last dimension: (codes [..., blocks, 32], exponents [..., blocks], values as weight).
    The scale is the power of two that brings the largest value below 8, the code the nearest value."""
    blocks = weight.reshape(*weight.shape[:-1], -1, 32)
    largest = blocks.abs().amax(-1).clamp(min=2.0 ** -100)
    exponents = torch.floor(torch.log2(largest)).to(torch.int64) - 2 + 127
    scales = torch.exp2((exponents - 127).float())[..., None]
    codes = (blocks[..., None] / scales[..., None] - MXFP4_VALUES).abs().argmin(-1)
    return codes, exponents, (MXFP4_VALUES[codes] * scales).reshape(weight.shape)


def expert_matrices(model):
    """Each projection of a gpt-oss layer's experts as [E, out, in], with the name it has in files."""
    for i, layer in enumerate(model.model.layers):
        for part in ("gate_up_proj", "down_proj"):
            parameter = getattr(layer.mlp.experts, part)
            yield f"model.layers.{i}.mlp.experts.{part}", parameter, parameter.data.transpose(1, 2)


def quantise_experts(model):
    """Experts take the values of MXFP4. Returns what files hold instead of them."""
    packed = {}
    for name, parameter, matrices in expert_matrices(model):
        codes, exponents, values = mxfp4(matrices)
        parameter.data.copy_(values.transpose(1, 2))
        packed[name + "_blocks"] = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)  # neighbours
        packed[name + "_scales"] = exponents.to(torch.uint8)
    return packed


def pack_experts(folder, packed):
    """Puts the packed experts in the place of those that were saved."""
    path = os.path.join(folder, "model.safetensors")
    tensors = safetensors.torch.load_file(path)
    for name in packed:
        tensors.pop(name.rsplit("_", 1)[0], None)
    safetensors.torch.save_file(tensors | packed, path, metadata={"format": "pt"})


def add_gguf_experts(writer, model, is_mxfp4):
    """One tensor for each projection: gate and up apart; blocks hold columns j and j + 16 in a byte."""
    for i, (_, _, matrices) in enumerate(expert_matrices(model)):
        parts = {"gate": matrices[:, 0::2], "up": matrices[:, 1::2]} if i % 2 == 0 else {"down": matrices}
        for part, matrix in parts.items():
            name = f"blk.{i // 2}.ffn_{part}_exps.weight"
            if not is_mxfp4:
                writer.add_tensor(name, matrix.contiguous().numpy().astype(np.float32))
                continue
            codes, exponents, _ = mxfp4(matrix.contiguous())
            halves = codes[..., :16] | codes[..., 16:] << 4
            blocks = torch.cat([exponents[..., None], halves], dim=-1).to(torch.uint8)
            writer.add_tensor(name, blocks.flatten(2).numpy(), raw_dtype=gguf.GGMLQuantizationType.MXFP4)


def gguf_permuted(weight, n_heads):
    """Rows of each head from (half, pair) order to (pair, half): what converters do for interleaved rotation."""
    head = weight.shape[0] // n_heads
    return weight.reshape(n_heads, 2, head // 2, -1).swapaxes(1, 2).reshape(weight.shape)


GGUF_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "self_attn.qkv_proj": "attn_qkv", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate_up_proj": "ffn_up",
    "post_attention_layernorm": "ffn_norm",
}
GEMMA_NAMES = GGUF_NAMES | {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                            "post_feedforward_layernorm": "post_ffw_norm"}
OSS_NAMES = GGUF_NAMES | {"post_attention_layernorm": "post_attention_norm", "mlp.router": "ffn_gate_inp"}
ARCHITECTURES = {"llama": "llama", "mistral": "llama", "smollm3": "smollm3", "qwen2": "qwen2", "qwen3": "qwen3",
                 "phi3": "phi3", "gemma3_text": "gemma3", "gpt_oss": "gpt-oss",
                 "qwen3_5_text": "qwen35", "qwen3_next": "qwen3next"}
QWEN_NATIVE = ("qwen35", "qwen3next")


def write_gguf(path, config, model, is_mxfp4):
    arch = ARCHITECTURES[config.model_type]
    writer = gguf.GGUFWriter(path, arch)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_name(os.path.basename(os.path.dirname(path)))
    writer.add_block_count(config.num_hidden_layers + (arch == "qwen35"))
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    if head_dim != config.hidden_size // config.num_attention_heads:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    rope = config.rope_parameters
    if arch == "gemma3":
        writer.add_sliding_window_pattern(2)
        writer.add_float32("gemma3.rope.freq_base_swa", rope["sliding_attention"]["rope_theta"])
        writer.add_float32("gemma3.attention.scale", config.query_pre_attn_scalar ** -0.5)
        rope = rope["full_attention"]
    if arch == "gpt-oss":
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.intermediate_size)
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])  # here the usual ones would leave nothing to see
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
        add_gguf_experts(writer, model, is_mxfp4)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    writer.add_rope_freq_base(rope["rope_theta"])
    rotary_dim = int(head_dim * rope.get("partial_rotary_factor", 1.0))
    if arch not in ("qwen2", "qwen3", "gemma3"):
        writer.add_rope_dimension_count(rotary_dim)
    kind = rope["rope_type"]
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(rope["factor"])
        if kind == "yarn":
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if arch in QWEN_NATIVE:
        models_qwen.add_metadata(writer, config, arch)
    if kind == "llama3":
        original, factor = rope["original_max_position_embeddings"], rope["factor"]
        inverse = 1.0 / rope["rope_theta"] ** (np.arange(0, rotary_dim, 2) / rotary_dim)
        length = 2 * np.pi / inverse
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = (original / length - low) / (high - low)
        divisors = np.where(length < original / high, 1.0,
                            np.where(length > original / low, factor, 1 / ((1 - smooth) / factor + smooth)))
        writer.add_tensor("rope_freqs.weight", divisors.astype(np.float32))
    if kind == "longrope":
        original = rope["original_max_position_embeddings"]
        scale = config.max_position_embeddings / original
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(original)))
        writer.add_tensor("rope_factors_long.weight", np.array(rope["long_factor"], np.float32))
        writer.add_tensor("rope_factors_short.weight", np.array(rope["short_factor"], np.float32))

    names = {"gemma3": GEMMA_NAMES, "gpt-oss": OSS_NAMES}.get(arch, GGUF_NAMES)
    if arch in QWEN_NATIVE:
        names = GGUF_NAMES | models_qwen.NAMES
    tensors = {name: tensor.float().numpy() for name, tensor in model.state_dict().items()}
    if arch in QWEN_NATIVE:
        tensors = models_qwen.converted(tensors, config, arch)
    for name, value in tensors.items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stem, suffix = name.rsplit(".", 1)
        if arch in QWEN_NATIVE and ".mlp." in name and models_qwen.add_expert_tensor(writer, name, value):
            continue
        if ".experts." in name:  # biases; their weights are there
            layer = stem.split(".")[2]
            if suffix == "gate_up_proj_bias":
                writer.add_tensor(f"blk.{layer}.ffn_gate_exps.bias", value[:, 0::2])
                writer.add_tensor(f"blk.{layer}.ffn_up_exps.bias", value[:, 1::2])
            elif suffix == "down_proj_bias":
                writer.add_tensor(f"blk.{layer}.ffn_down_exps.bias", value)
            continue
        if suffix == "sinks":
            writer.add_tensor(f"blk.{stem.split('.')[2]}.attn_sinks.weight", value)
            continue
        if stem.startswith("model.layers."):
            layer, part = stem[len("model.layers."):].split(".", 1)
            bare = models_qwen.BARE.get(f"{part}.{suffix}")
            stored = f"blk.{layer}.{bare or names[part] + '.' + suffix}"
            if arch in ("llama", "smollm3") and part.endswith((".q_proj", ".k_proj")):
                value = gguf_permuted(value, config.num_attention_heads if "q_proj" in part
                                      else config.num_key_value_heads)
        else:
            stored = {"model.embed_tokens": "token_embd", "model.norm": "output_norm",
                      "lm_head": "output"}[stem] + "." + suffix
        if stored.endswith("norm.weight") and has_offset(config.model_type, name):
            value = value + 1.0
        if value.ndim == 1 or stored.endswith("ssm_conv1d.weight"):
            writer.add_tensor(stored, value.astype(np.float32))
        else:
            data = gguf.quants.quantize(value, gguf.GGMLQuantizationType.BF16)
            writer.add_tensor(stored, data, raw_dtype=gguf.GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_case(folder, index, name):
    config_name, settings, options = CASES[name]
    folder = os.path.join(folder, name)
    shutil.rmtree(folder, ignore_errors=True)
    generator = torch.Generator().manual_seed(1000 + index)
    kind = transformers.AutoModelForCausalLM
    if "whole" in options:
        settings = options["whole"] | dict(text_config=settings)
        kind = transformers.AutoModelForImageTextToText
    config = getattr(transformers, config_name)(**settings)
    config._attn_implementation = "eager"
    model = kind.from_config(config).eval().float()
    randomize(model, generator)
    packed = quantise_experts(model) if options.get("mxfp4") else {}
    model.tie_weights()
    tokens = torch.randint(0, VOCAB, (1, TOKENS), generator=generator)

    golden = {"tokens": tokens[0].to(torch.int32)}
    with torch.no_grad():
        golden["logits"] = model(tokens, use_cache=False).logits[0].float()
        if "short" in options:
            golden["logits_short"] = model(tokens[:, :options["short"]], use_cache=False).logits[0].float()
        for layout, (window, sinks) in REPLACED.get(name, {}).items():
            mask = additive_mask(TOKENS, window, sinks)
            golden[f"logits {layout}"] = model(tokens, attention_mask=mask, use_cache=False).logits[0].float()
    about = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    os.makedirs(folder)
    if options.get("gguf"):
        write_gguf(os.path.join(folder, "model.gguf"), config, model, bool(packed))
    if options.get("bf16"):
        model = model.to(torch.bfloat16)
    model.save_pretrained(folder, max_shard_size=options.get("shard", "5GB"))
    if packed:
        pack_experts(folder, packed)
    if "further" in options:
        path = os.path.join(folder, "model.safetensors")
        further = {name: torch.ones(3, 2) for name in options["further"]}
        safetensors.torch.save_file(safetensors.torch.load_file(path) | further, path, metadata={"format": "pt"})
    safetensors.torch.save_file({key: value.contiguous() for key, value in golden.items()},
                                os.path.join(folder, "golden.safetensors"),
                                metadata={"about": json.dumps(about)})  # one key: the order of several is random
    for file in os.listdir(folder):
        os.chmod(os.path.join(folder, file), 0o644)
    size = sum(os.path.getsize(os.path.join(folder, file)) for file in os.listdir(folder))
    print(f"{name}: {size} bytes, logits within ±{golden['logits'].abs().max():.2f}")


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(root, "tests/golden/models"))
    parser.add_argument("cases", nargs="*", help="default: all")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for index, name in enumerate(CASES):
        if not arguments.cases or name in arguments.cases:
            write_case(arguments.out, index, name)
    with open(os.path.join(arguments.out, "versions.json"), "w") as file:
        json.dump({"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
                   "gguf": importlib.metadata.version("gguf")}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
