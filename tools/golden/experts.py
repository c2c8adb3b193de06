#!/usr/bin/env python3
"""Blocks of experts alone: the goldens of tests of their configuration, their weights and their sum.

    tools/golden/experts.py [--out DIR]

Writes DIR/qwen3_next.safetensors and DIR/kimi_linear.safetensors (default tests/golden/experts): a block's weights
under the names of public checkpoints, one tensor for each expert and projection; inputs x [T, M] and what transformers
makes of them, once for each setting; and in the metadata, as JSON, the configuration and who wrote it. Names and
configuration of Kimi-Linear's block are those that transformers gives a whole model when it saves it.
"""

import argparse
import json
import math
import os
import tempfile

import safetensors.torch
import torch
import transformers
from transformers.models.kimi_linear.configuration_kimi_linear import KimiLinearConfig
from transformers.models.kimi_linear.modeling_kimi_linear import KimiLinearForCausalLM
from transformers.models.qwen3_next.configuration_qwen3_next import Qwen3NextConfig
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextSparseMoeBlock

TOKENS = 11
QWEN_SIZES = dict(hidden_size=20, moe_intermediate_size=12, shared_expert_intermediate_size=28, num_experts=7,
                  num_experts_per_tok=3, hidden_act="silu", num_hidden_layers=4, decoder_sparse_step=2,
                  mlp_only_layers=[3])
KIMI_SIZES = dict(hidden_size=16, moe_intermediate_size=8, n_shared_experts=2, num_local_experts=16,
                  num_experts_per_tok=4, routed_scaling_factor=2.446, n_group=4, topk_group=2, num_hidden_layers=3)
# What the experts of a whole model do without.
KIMI_REST = dict(vocab_size=8, intermediate_size=8, num_attention_heads=1, num_key_value_heads=1, kv_lora_rank=8,
                 qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, linear_head_dim=8, linear_num_heads=1,
                 pad_token_id=0, bos_token_id=1, eos_token_id=2)
KIMI_KEYS = ("hidden_size", "num_hidden_layers", "moe_", "num_expert", "num_shared_experts", "topk_group", "routed_",
             "mlp_layer_types")


def randomise(tensors, generator):
    for tensor in tensors:
        value = torch.randn(tensor.shape, generator=generator) * 1.5 / math.sqrt(tensor.shape[-1])
        tensor.data.copy_(value)


def qwen3_next():
    """Tensors and configuration of a block of Qwen3-Next, y with and y_plain without norm_topk_prob."""
    generator = torch.Generator().manual_seed(7)
    config = Qwen3NextConfig(**QWEN_SIZES)
    config._experts_implementation = "eager"
    block = Qwen3NextSparseMoeBlock(config).eval().float()
    randomise(block.parameters(), generator)
    x = torch.randn(TOKENS, config.hidden_size, generator=generator)
    outputs = {}
    with torch.no_grad():
        for name, sums_to_one in (("y", True), ("y_plain", False)):
            block.gate.norm_topk_prob = sums_to_one
            outputs[name] = block(x[None])[0]

    weights = {}
    for name, value in block.state_dict().items():
        if name == "experts.gate_up_proj":
            gate, up = value.chunk(2, dim=1)
            for e in range(config.num_experts):
                weights[f"experts.{e}.gate_proj.weight"] = gate[e]
                weights[f"experts.{e}.up_proj.weight"] = up[e]
        elif name == "experts.down_proj":
            for e in range(config.num_experts):
                weights[f"experts.{e}.down_proj.weight"] = value[e]
        else:
            weights[name] = value
    tensors = {f"model.layers.1.mlp.{name}": value for name, value in weights.items()} | {"x": x} | outputs
    return tensors, QWEN_SIZES | dict(norm_topk_prob=True)


def kimi_linear():
    """Of Kimi-Linear: y with groups, y_one_group without, y_plain with groups and without moe_renormalize."""
    generator = torch.Generator().manual_seed(8)
    config = KimiLinearConfig(**KIMI_SIZES, **KIMI_REST)
    config._experts_implementation = "eager"
    model = KimiLinearForCausalLM(config).eval().float()
    block = model.model.layers[1].mlp
    randomise(block.parameters(), generator)
    randomise(block.buffers(), generator)  # the correction of ranks
    x = torch.randn(TOKENS, config.hidden_size, generator=generator)
    outputs = {}
    with torch.no_grad():
        gate = block.gate
        for name, *settings in (("y", 4, 2, True), ("y_one_group", 1, 1, True), ("y_plain", 4, 2, False)):
            gate.num_group, gate.topk_group, gate.norm_topk_prob = settings
            outputs[name] = block(x[None])[0]

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            saved = {key: value for key, value in json.load(file).items() if key.startswith(KIMI_KEYS)}
        stored = safetensors.torch.load_file(os.path.join(folder, "model.safetensors"))
    weights = {name: value for name, value in stored.items() if name.startswith("model.layers.1.block_sparse_moe.")}
    return weights | {"x": x} | outputs, saved


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(root, "tests/golden/experts"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    os.makedirs(arguments.out, exist_ok=True)
    for name, write in (("qwen3_next", qwen3_next), ("kimi_linear", kimi_linear)):
        tensors, config = write()
        path = os.path.join(arguments.out, f"{name}.safetensors")
        about = {"config": config, "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
        safetensors.torch.save_file({name: value.contiguous() for name, value in tensors.items()}, path,
                                    metadata={"about": json.dumps(about)})  # one key: the order of several is random
        os.chmod(path, 0o644)
        print(f"{name}: {os.path.getsize(path)} bytes, outputs within ±{tensors['y'].abs().max():.2f}")


if __name__ == "__main__":
    main()
