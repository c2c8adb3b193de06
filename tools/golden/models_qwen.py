"""What GGUF files of the architectures qwen35 and qwen3next hold, made from the weights of transformers: for models.py."""

import numpy as np

NAMES = {
    "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out",
    "post_attention_layernorm": "post_attention_norm", "nextn.eh_proj": "nextn.eh_proj",
}
# Parameters that are called neither weight nor bias.
BARE = {"linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias"}


def add_metadata(writer, config, arch):
    values = config.linear_num_value_heads
    writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
    writer.add_ssm_state_size(config.linear_key_head_dim)
    writer.add_ssm_group_count(config.linear_num_key_heads)
    writer.add_ssm_time_step_rank(values)
    writer.add_ssm_inner_size(config.linear_value_head_dim * values)
    linear = [kind == "linear_attention" for kind in config.layer_types]
    if arch == "qwen35":
        writer.add_full_attention_interval(linear.index(False) + 1)
        writer.add_rope_dimension_sections(config.rope_parameters["mrope_section"] + [0])
        writer.add_nextn_predict_layers(1)
    else:
        writer.add_array("qwen3next.attention.recurrent_layers", linear)
        if any(i not in config.mlp_only_layers and (i + 1) % config.decoder_sparse_step == 0 for i in range(len(linear))):
            writer.add_expert_count(config.num_experts)
            writer.add_expert_used_count(config.num_experts_per_tok)
            writer.add_expert_feed_forward_length(config.moe_intermediate_size)
            writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)


EXPERTS = {"mlp.gate.weight": "ffn_gate_inp", "mlp.shared_expert.gate_proj.weight": "ffn_gate_shexp",
           "mlp.shared_expert.up_proj.weight": "ffn_up_shexp", "mlp.shared_expert.down_proj.weight": "ffn_down_shexp",
           "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp", "mlp.experts.gate_up_proj": "ffn_gate_exps",
           "mlp.experts.down_proj": "ffn_down_exps"}


def add_expert_tensor(writer, name, value):
    """Whether the tensor is one of experts, and written: gate and up apart, a single row as a vector."""
    _, _, layer, part = name.split(".", 3)
    if part not in EXPERTS:
        return False
    stem = f"blk.{layer}.{EXPERTS[part]}"
    if part == "mlp.experts.gate_up_proj":
        value, up = np.split(value, 2, axis=1)
        writer.add_tensor(f"blk.{layer}.ffn_up_exps.weight", np.ascontiguousarray(up))
    writer.add_tensor(f"{stem}.weight", np.ascontiguousarray(value.squeeze(0) if value.shape[0] == 1 else value))
    return True


def tiled(value, config, head, axis=0):
    """Value heads, `head` elements each along `axis`, from groups of a key head to one of every key head in turn."""
    keys = config.linear_num_key_heads
    each = config.linear_num_value_heads // keys
    shape = value.shape
    value = value.reshape(*shape[:axis], keys, each, head, *shape[axis + 1:])
    return value.swapaxes(axis, axis + 1).reshape(shape)


def converted(tensors, config, arch):
    """By names of transformers, or as one would call what it has no name for."""
    keys, values = config.linear_num_key_heads, config.linear_num_value_heads
    dk, dv = config.linear_key_head_dim, config.linear_value_head_dim
    out = {}
    for name, value in tensors.items():
        stem = name.rsplit(".", 1)[0]
        if name.endswith("A_log"):
            value = -np.exp(value)
        if "conv1d" in name:
            value = value.squeeze(1)
        if name.endswith("in_proj_qkvz.weight"):
            group = values // keys * dv
            by_head = np.split(value.reshape(keys, -1, value.shape[-1]), np.cumsum([dk, dk, group]), axis=1)
            q, k, v, z = (part.reshape(-1, value.shape[-1]) for part in by_head)
            out[stem.replace("qkvz", "qkv") + ".weight"] = np.concatenate([q, k, v])
            out[stem.replace("qkvz", "z") + ".weight"] = z
            continue
        if arch == "qwen35":
            if name.endswith(("in_proj_qkv.weight", "conv1d.weight")):
                qk = 2 * keys * dk
                value = np.concatenate([value[:qk], tiled(value[qk:], config, dv)])
            elif name.endswith("in_proj_z.weight"):
                value = tiled(value, config, dv)
            elif name.endswith(("in_proj_a.weight", "in_proj_b.weight", "A_log", "dt_bias")):
                value = tiled(value, config, 1)
            elif name.endswith("linear_attn.out_proj.weight"):
                value = tiled(value, config, dv, axis=1)
        out[name] = value
    if arch == "qwen35":  # a block that predicts further tokens: readers of the text skip it
        layer = f"model.layers.{config.num_hidden_layers}"
        out[f"{layer}.input_layernorm.weight"] = np.ones(config.hidden_size, np.float32)
        out[f"{layer}.nextn.eh_proj.weight"] = np.ones((3, 2 * config.hidden_size), np.float32)
    return out
