#!/usr/bin/env python3
"""A block of experts of Qwen3-Next alone: the golden of tests of its configuration, its weights and its sum.

    tools/golden/experts.py [--out DIR]

Writes DIR/qwen3_next.safetensors (default tests/golden/experts): the block's weights under the names of public
checkpoints, one tensor for each expert and projection; inputs x [T, M] and what transformers makes of them, y with and
y_plain without norm_topk_prob; and in the metadata, as JSON, the configuration and who wrote it.
"""

import argparse
import json
import math
import os

import safetensors.torch
import torch
import transformers
from transformers.models.qwen3_next.configuration_qwen3_next import Qwen3NextConfig
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextSparseMoeBlock

SIZES = dict(hidden_size=20, moe_intermediate_size=12, shared_expert_intermediate_size=28, num_experts=7,
             num_experts_per_tok=3, hidden_act="silu", num_hidden_layers=4, decoder_sparse_step=2, mlp_only_layers=[3])
TOKENS = 11


def main():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.path.join(root, "tests/golden/experts"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(7)
    config = Qwen3NextConfig(**SIZES)
    config._experts_implementation = "eager"
    block = Qwen3NextSparseMoeBlock(config).eval().float()
    for parameter in block.parameters():
        value = torch.randn(parameter.shape, generator=generator) * 1.5 / math.sqrt(parameter.shape[-1])
        parameter.data.copy_(value)
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
    os.makedirs(arguments.out, exist_ok=True)
    path = os.path.join(arguments.out, "qwen3_next.safetensors")
    about = {"config": SIZES | dict(norm_topk_prob=True), "transformers": transformers.__version__,
             "torch": torch.__version__.split("+")[0]}
    safetensors.torch.save_file({name: value.contiguous() for name, value in tensors.items()}, path,
                                metadata={"about": json.dumps(about)})  # one key: the order of several is random
    os.chmod(path, 0o644)
    print(f"qwen3_next: {os.path.getsize(path)} bytes, outputs within ±{outputs['y'].abs().max():.2f}")


if __name__ == "__main__":
    main()
