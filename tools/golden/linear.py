#!/usr/bin/env python3
"""Writes tests/golden/linear/*.json: linear-attention recurrences and whole sublayers, computed in FP32 on the CPU by
fla-core, mlstm_kernels and transformers. Inputs and weights have three decimals, so the files stay small."""

import importlib
import json
import os
import pathlib
import platform
import sys
from importlib.metadata import version

import torch
import torch.nn.functional as F

# Where transformers finds fla it calls fla's GPU kernels, also on a CPU: let it not find any.
sys.modules["fla"] = None
CONFIGS, MODELS = ({family: importlib.import_module(f"transformers.models.{family}.{kind}_{family}") for family in (
    "glm5_next", "kimi_linear", "minimax", "olmo_hybrid", "qwen3_5", "qwen3_next", "xlstm", "zamba2")}
    for kind in ("configuration", "modeling"))
del sys.modules["fla"]
from fla.ops.delta_rule.naive import delta_rule_recurrence
from fla.ops.gated_delta_rule.naive import naive_chunk_gated_delta_rule, naive_recurrent_gated_delta_rule
from fla.ops.gla.naive import naive_recurrent_gla
from fla.ops.kda.naive import naive_chunk_kda, naive_recurrent_kda
from fla.ops.lightning_attn import chunk as fla_lightning
from fla.ops.linear_attn.naive import naive_recurrent_linear_attn
from fla.ops.rwkv6.chunk_naive import naive_chunk_rwkv6
from fla.ops.rwkv6.recurrent_naive import naive_recurrent_rwkv6
from fla.ops.simple_gla.naive import naive_chunk_simple_gla, naive_recurrent_simple_gla
from mlstm_kernels.torch.chunkwise.native import mlstm_chunkwise__native_autograd
from mlstm_kernels.torch.parallel.native.fw import mlstm_parallel_fw
from mlstm_kernels.torch.parallel.native_siging.fw import mlstm_siging_parallel_fw
from mlstm_kernels.torch.recurrent.native_sequence import mlstm_recurrent_sequence__native_fw

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/linear"
PACKAGES = ("torch", "transformers", "fla-core", "mlstm-kernels")
TOKENS = 68  # more than a chunk of 64, and 34 divides it for oracles that take whole chunks only
CHUNK = 34
K, V, QUERIES = 6, 5, 2
NORM_EPS = 1e-6


def versions():
    return {"script": "tools/golden/linear.py", "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES}}


def numbers(tensor):
    """The shortest decimals that read back as the same floats: nine digits at most."""
    return [float(str(x)) for x in tensor.detach().float().contiguous().flatten().numpy()]


def write(name, golden):
    text = json.dumps({"written_by": versions(), "name": name} | golden, separators=(",", ":"), allow_nan=False)
    for key in ("inputs", "outputs", "weights", "x", "y"):
        text = text.replace(f'"{key}":', f'\n"{key}":', 1)
    (OUT / f"{name}.json").write_text(text + "\n")
    print(f"{name}: {len(text)} bytes")


class Source:
    """Random numbers of three decimals, in FP32."""

    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    @staticmethod
    def rounded(x):
        return (x.double() * 1000).round().div(1000).float()

    def normal(self, *shape, size=1.0, mean=0.0):
        return self.rounded(mean + size * torch.randn(shape, generator=self.generator))

    def uniform(self, low, high, *shape):
        return self.rounded(low + (high - low) * torch.rand(shape, generator=self.generator))


# ---- Recurrences: one state that QUERIES query heads read. Oracles have a state for each query head: they get k, v and
# the gates twice and end with two equal states. Arrays are [1, T, heads, ...]; heads first where `heads_first`.


def heads(x, heads_first=False):
    many = x[:, None].expand(x.shape[0], QUERIES, *x.shape[1:])[None].contiguous()
    return many.transpose(1, 2).contiguous() if heads_first else many


def qkv(source, key_dim=K, value_dim=V):
    return (source.normal(TOKENS, QUERIES, key_dim), source.normal(TOKENS, key_dim), source.normal(TOKENS, value_dim))


def output(oracle, y, s=None, n=None, m=None, heads_first=False):
    """What the file says about one oracle; states are those of the first head."""
    y = y[0].transpose(0, 1) if heads_first else y[0]
    said = {"oracle": oracle, "y": numbers(y)}
    for key, state in (("s", s), ("n", n), ("m", m)):
        if state is not None:
            said[key] = numbers(state[0, 0])
    return said


def recurrence(name, inputs, outputs, **settings):
    rec = {"key_dim": inputs["k"].shape[1], "value_dim": inputs["v"].shape[1], "n_queries": inputs["q"].shape[1],
           "decays_by_channel": inputs["g"].ndim == 2, "write": "plain", "normaliser": "none", "scale": 1.0,
           "eps": 1e-6} | settings
    write(name, {"kind": "recurrence", "recurrence": rec, "n_tokens": TOKENS,
                 "inputs": {key: numbers(x) for key, x in inputs.items()}, "outputs": outputs})


def linear_attention():
    source = Source(1)
    q, k, v = qkv(source)
    # elu(x) + 1, rounded to inputs of its own
    q, k = (source.rounded(F.elu(x) + 1) for x in (q, k))
    inputs = {"q": q, "k": k, "v": v, "g": torch.zeros(TOKENS)}
    for name, normalize in (("linear_attention_sum", True), ("linear_attention_bare", False)):
        y, state = naive_recurrent_linear_attn(q[None], heads(k), heads(v), scale=1.0, output_final_state=True,
                                               normalize=normalize)
        s, n = state if normalize else (state, None)
        recurrence(name, inputs,
                   [output("fla.ops.linear_attn.naive_recurrent_linear_attn", y, s, n[:, 0] if normalize else None)],
                   normaliser="sum" if normalize else "none", eps=1e-10)


def simple_gla():
    source = Source(2)
    q, k, v = qkv(source)
    g = source.uniform(-0.6, 0, TOKENS)
    scale, outputs = K ** -0.5, []
    for oracle in (naive_recurrent_simple_gla, naive_chunk_simple_gla):
        y, s = oracle(q[None], heads(k), heads(v), heads(g), output_final_state=True)
        outputs.append(output(f"fla.ops.simple_gla.{oracle.__name__}", y, s))
    recurrence("simple_gla", {"q": q, "k": k, "v": v, "g": g}, outputs, scale=scale)


def lightning():
    """fla's op with its own slopes: one case for each head of four, and the slopes of some layers. Its kernel needs a
    GPU, so the same library's plain code takes the kernel's place."""
    slopes = []

    def plain(q, k, v, scale, g_gamma, initial_state, output_final_state, **_):
        slopes.append(g_gamma)
        g = g_gamma[None, None].expand(*q.shape[:3])
        return naive_recurrent_simple_gla(q, k, v, g, scale, initial_state, output_final_state)

    fla_lightning.chunk_simple_gla = plain
    source = Source(3)
    q, k, v = (source.normal(1, TOKENS, 4, size) for size in (K, K, V))
    y, s = fla_lightning.chunk_lightning_attn(q, k, v, layer_idx=4, num_layers=6, scale=1.0, output_final_state=True)
    for h in (1, 3):
        inputs = {"q": q[0, :, h:h + 1], "k": k[0, :, h], "v": v[0, :, h], "g": slopes[0][h].expand(TOKENS)}
        recurrence(f"lightning_head{h}", inputs,
                   [output("fla.ops.lightning_attn.chunk_lightning_attn", y[:, :, h:h + 1], s[:, h:h + 1])])
    tables = []
    for layer, n_layers, n_heads in ((4, 6, 4), (0, 3, 3), (2, 3, 8)):
        x = torch.zeros(1, 1, n_heads, 1)
        fla_lightning.chunk_lightning_attn(x, x, x, layer_idx=layer, num_layers=n_layers)
        minimax = theirs("minimax", "MiniMaxLightningAttention", "MiniMaxConfig", layer, num_attention_heads=n_heads,
                         num_hidden_layers=n_layers, hidden_size=n_heads, head_dim=1)
        tables.append({"layer": layer, "n_layers": n_layers, "n_heads": n_heads,
                       "fla": numbers(-slopes[-1]), "minimax": numbers(minimax.slope_rate)})
    write("lightning_slopes", {"kind": "slopes", "tables": tables})


def gla():
    source = Source(4)
    q, k, v = qkv(source)
    g = source.uniform(-0.8, 0, TOKENS, K)
    y, s = naive_recurrent_gla(q[None], heads(k), heads(v), heads(g), output_final_state=True)
    recurrence("gla", {"q": q, "k": k, "v": v, "g": g}, [output("fla.ops.gla.naive_recurrent_gla", y, s)],
               scale=K ** -0.5)


def delta_rules():
    source = Source(5)
    q, k, v = qkv(source)
    q, k = (source.rounded(F.normalize(x, dim=-1)) for x in (q, k))
    beta, many = source.uniform(0.05, 0.95, TOKENS), dict(scale=None, output_final_state=True)
    args = dict(q=q[None], k=heads(k), v=heads(v))

    g = source.uniform(-0.5, 0, TOKENS)
    for name, w in (("gated_delta_rule", beta), ("gated_delta_rule_negative", source.rounded(2 * beta))):
        outputs = []
        for oracle in (naive_recurrent_gated_delta_rule, naive_chunk_gated_delta_rule):
            y, s = oracle(**args, beta=heads(w), g=heads(g), **many)
            outputs.append(output(f"fla.ops.gated_delta_rule.{oracle.__name__}", y, s))
        recurrence(name, {"q": q, "k": k, "v": v, "g": g, "w": w}, outputs, write="delta", scale=K ** -0.5)

    y, s = delta_rule_recurrence(args["q"].transpose(1, 2), *(heads(x, True) for x in (k, v, beta)))
    recurrence("delta_rule", {"q": q, "k": k, "v": v, "g": torch.zeros(TOKENS), "w": beta},
               [output("fla.ops.delta_rule.delta_rule_recurrence", y, s, heads_first=True)],
               write="delta", scale=K ** -0.5)

    g = source.uniform(-0.7, 0, TOKENS, K)
    outputs = []
    for oracle, chunk in ((naive_recurrent_kda, {}), (naive_chunk_kda, {"chunk_size": CHUNK})):
        y, s = oracle(**args, g=heads(g), beta=heads(beta), **many, **chunk)
        outputs.append(output(f"fla.ops.kda.{oracle.__name__}", y, s))
    recurrence("kda", {"q": q, "k": k, "v": v, "g": g, "w": beta}, outputs, write="delta", scale=K ** -0.5)


def rwkv6():
    source = Source(6)
    q, k, v = qkv(source)
    g, bonus = source.uniform(-0.9, 0, TOKENS, K), source.normal(K)
    args = [q[None].transpose(1, 2).contiguous(), *(heads(x, True) for x in (k, v, g)), bonus.expand(QUERIES, K)]
    y, s = naive_recurrent_rwkv6(*args, scale=1.0, output_final_state=True)
    by_chunks = naive_chunk_rwkv6(*args, chunk_size=CHUNK)
    recurrence("rwkv6", {"q": q, "k": k, "v": v, "g": g, "bonus": bonus},
               [output("fla.ops.rwkv6.naive_recurrent_rwkv6", y, s, heads_first=True),
                output("fla.ops.rwkv6.naive_chunk_rwkv6", by_chunks, heads_first=True)], has_bonus=True)


def mlstm():
    source = Source(7)
    # Features of mostly one sign, and one query head against it: n·q stays away from 0, where outputs would grow large
    # and hide the others.
    q = source.normal(TOKENS, QUERIES, K, size=0.3, mean=0.6) * torch.tensor([1.0, -1.0])[:, None]
    k, v = source.normal(TOKENS, K, size=0.3, mean=0.6), source.normal(TOKENS, V)
    i, f = source.normal(TOKENS, size=3), source.normal(TOKENS, mean=2)
    # The step form starts with m = 0, this engine with -infinity. The divisor is at least e^-m, so in y that shows only
    # through its eps, a relative 1e-6; but states are kept times e^-m. A first exponent >= 0 becomes m either way, and
    # with an empty state nothing else depends on where m began.
    i[0] = 0.5
    scale, log_f = K ** -0.5, F.logsigmoid(f)
    args = dict(q=q[None].transpose(1, 2).contiguous(), **{key: heads(x, True) for key, x in (("k", k), ("v", v))})
    gates = dict(i=heads(i, True), f=heads(f, True))
    inputs = {"q": q, "k": k, "v": v, "g": log_f}
    steps, (s, n, m) = mlstm_recurrent_sequence__native_fw(**args, **gates, return_last_states=True)
    outputs = [output("mlstm_kernels.torch.recurrent.native_sequence", steps, s, n, m, heads_first=True)]
    # The chunk form takes a state to start from, so -infinity can be asked for.
    start = dict(c_initial=torch.zeros(1, QUERIES, K, V), n_initial=torch.zeros(1, QUERIES, K),
                 m_initial=torch.full((1, QUERIES, 1), -torch.inf))
    chunks, (s, n, m) = mlstm_chunkwise__native_autograd(**args, **gates, **start, return_last_states=True,
                                                         chunk_size=CHUNK)
    outputs.append(output("mlstm_kernels.torch.chunkwise.native", chunks, s, n, m, heads_first=True))
    matrices = [args["q"], args["k"], args["v"]]
    y, _, _ = mlstm_parallel_fw(*matrices, gates["i"], gates["f"])
    outputs.append(output("mlstm_kernels.torch.parallel.native", y, heads_first=True))
    recurrence("mlstm_exp", inputs | {"w": i}, outputs, write="exponential", normaliser="max_abs", scale=scale)
    # Exponents so low that the floor of the divisor decides, soon after the first token.
    low = source.rounded(i - 9)
    low[0] = 0.0
    outputs = []
    for oracle in (mlstm_parallel_fw, mlstm_recurrent_sequence__native_fw):
        y = oracle(*matrices, heads(low, True), gates["f"])
        outputs.append(output(f"mlstm_kernels {oracle.__name__}", y[0] if isinstance(y, tuple) else y,
                              heads_first=True))
    recurrence("mlstm_exp_low", inputs | {"w": low}, outputs, write="exponential", normaliser="max_abs", scale=scale)
    for name, normalize in (("mlstm_sigmoid", True), ("mlstm_sigmoid_bare", False)):
        y, _ = mlstm_siging_parallel_fw(*matrices, gates["i"], gates["f"], normalize=normalize)
        recurrence(name, inputs | {"w": torch.sigmoid(i)},
                   [output("mlstm_kernels.torch.parallel.native_siging", y, heads_first=True)],
                   normaliser="max_abs" if normalize else "none", scale=scale)


# ---- Sublayers: a layer of transformers with random weights, called with the RMS-normed residual stream; the file
# holds the weights under this engine's names. Where k and v have fewer heads than q, the oracle gets them repeated.

LAYER = dict(layer=0, d_model=16, n_heads=4, n_kv_heads=2, head_dim=6)


def theirs(family, layer, config, *index, **settings):
    """A layer of transformers, made from the settings of its config."""
    return getattr(MODELS[family], layer)(getattr(CONFIGS[family], config)(**settings), *index)


def randomise(module, source):
    for name, parameter in module.named_parameters():
        if name.endswith("norm.weight"):
            value = source.normal(*parameter.shape, mean=1, size=0.2)
        elif parameter.ndim > 1 and "A_log" not in name:
            value = source.normal(*parameter.shape, size=1.5 / parameter.shape[-1] ** 0.5)
        else:
            value = source.normal(*parameter.shape, size=0.5)
        parameter.data.copy_(value)


def widened(weight, layer):
    """Rows of kv heads, repeated for the query heads."""
    by_head = weight.reshape(layer["n_kv_heads"], layer["head_dim"], *weight.shape[1:])
    return by_head.repeat_interleave(layer["n_heads"] // layer["n_kv_heads"], 0).reshape(-1, *weight.shape[1:])


def attention(source, layer, conv_width=0, conv_bias=False):
    """q, k and v projections and convolutions in this engine's sizes."""
    weights = {}
    for part, n in (("q", layer["n_heads"]), ("k", layer["n_kv_heads"]), ("v", layer["n_kv_heads"])):
        rows, width = n * layer["head_dim"], layer["d_model"]
        weights[f"{part}_proj.weight"] = source.normal(rows, width, size=1.2 / width ** 0.5)
        if conv_width:
            weights[f"{part}_conv1d.weight"] = source.normal(rows, 1, conv_width, size=0.6)
        if conv_bias:
            weights[f"{part}_conv1d.bias"] = source.normal(rows, size=0.3)
    return weights


def full(weights, name, layer):
    """q, k and v of the oracle, as wide as q."""
    found = [weights[f"{part}_{name}"] for part in "qkv"]
    return [found[0], widened(found[1], layer), widened(found[2], layer)]


def set_convolved(module, weights, layer):
    """q, k and v of layers that have three projections and one convolution."""
    for part, value in zip("qkv", full(weights, "proj.weight", layer)):
        getattr(module, f"{part}_proj").weight.data.copy_(value)
    module.conv1d.weight.data.copy_(torch.cat(full(weights, "conv1d.weight", layer)))


def renamed(module, names):
    state = module.state_dict()
    return {ours: state[theirs] for ours, theirs in names.items()}


def sublayer(name, module, source, layer, options, weights, oracle, prefix="linear_attn.", **arguments):
    x = source.normal(TOKENS, layer["d_model"], size=0.7)
    normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + NORM_EPS)
    y = module(normed[None], **arguments)
    y = y[0] if isinstance(y, tuple) else y
    weights = {f"{prefix}{key}": value for key, value in weights.items()}
    weights["input_layernorm.weight"] = torch.ones(layer["d_model"])
    write(name, {"kind": "sublayer", "oracle": oracle, "layer": layer | {"norm_eps": NORM_EPS}, "options": options,
                 "weights": {key: {"shape": list(w.shape), "values": numbers(w)} for key, w in weights.items()},
                 "x": numbers(x), "y": numbers(y[0])})


QWEN = dict(hidden_size=16, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6,
            linear_value_head_dim=5, linear_conv_kernel_dim=4, num_hidden_layers=1, rms_norm_eps=1e-6,
            layer_types=["linear_attention"])
QWEN_OPTIONS = dict(rule="gdn", form="qwen", key_heads=2, value_heads=4, key_dim=6, value_dim=5)
QWEN_NAMES = {name: name for name in ("conv1d.weight", "A_log", "dt_bias", "norm.weight", "out_proj.weight")}


def qwen():
    source = Source(20)
    module = theirs("qwen3_5", "Qwen3_5GatedDeltaNet", "Qwen3_5TextConfig", 0, **QWEN)
    randomise(module, source)
    names = QWEN_NAMES | {f"in_proj_{part}.weight": f"in_proj_{part}.weight" for part in ("qkv", "z", "b", "a")}
    sublayer("gdn_qwen3_5", module, source, LAYER, QWEN_OPTIONS, renamed(module, names),
             "transformers Qwen3_5GatedDeltaNet")
    # Qwen3-Next packs the same projections by key head: [q, k, v of its heads, z of its heads] and [b, a].
    module = theirs("qwen3_next", "Qwen3NextGatedDeltaNet", "Qwen3NextConfig", 0, **QWEN)
    randomise(module, source)
    weights = renamed(module, QWEN_NAMES)
    by_head = module.in_proj_qkvz.weight.reshape(2, -1, 16).split([6, 6, 10, 10], dim=1)
    q, k, v, z = (part.reshape(-1, 16) for part in by_head)
    b, a = (part.reshape(-1, 16) for part in module.in_proj_ba.weight.reshape(2, -1, 16).split([2, 2], dim=1))
    weights |= {"in_proj_qkv.weight": torch.cat([q, k, v]), "in_proj_z.weight": z, "in_proj_b.weight": b,
                "in_proj_a.weight": a}
    sublayer("gdn_qwen3_next", module, source, LAYER, QWEN_OPTIONS, weights,
             "transformers Qwen3NextGatedDeltaNet")


def olmo():
    source, layer = Source(21), LAYER
    module = theirs("olmo_hybrid", "OlmoHybridGatedDeltaNet", "OlmoHybridConfig", 0, hidden_size=16,
                    linear_num_key_heads=4, linear_num_value_heads=4, linear_key_head_dim=6, linear_value_head_dim=6,
                    linear_conv_kernel_dim=3, linear_allow_neg_eigval=True, num_hidden_layers=2,
                    layer_types=["linear_attention", "full_attention"])
    randomise(module, source)
    weights = attention(source, layer, conv_width=3)
    set_convolved(module, weights, layer)
    same = ("a_proj.weight", "b_proj.weight", "g_proj.weight", "o_norm.weight", "o_proj.weight", "A_log", "dt_bias")
    weights |= renamed(module, {name: name for name in same})
    sublayer("gdn_olmo_hybrid", module, source, layer, dict(rule="gdn", conv_width=3, negative_eigenvalues=True),
             weights, "transformers OlmoHybridGatedDeltaNet")


def kda_layer(name, oracle, layer_types, options, family, config, **settings):
    """Kimi-Linear's layer and GLM's lack the gate's bias that fla's layer and this engine's have: it is put in."""
    source, layer = Source(22), LAYER
    module = theirs(family, oracle, config, 0, hidden_size=16, linear_num_heads=4, linear_head_dim=6,
                    linear_conv_kernel_dim=4, rms_norm_eps=1e-5, num_hidden_layers=2, layer_types=layer_types,
                    **settings)
    module.g_b_proj = torch.nn.Linear(6, 24, bias=True)
    randomise(module, source)
    weights = attention(source, layer, conv_width=4)
    set_convolved(module, weights, layer)
    weights |= renamed(module, {name: name for name in ("b_proj.weight", "o_norm.weight", "o_proj.weight")} | {
        "f_proj.0.weight": "forget_gate.f_a_proj.weight", "f_proj.1.weight": "forget_gate.f_b_proj.weight",
        "dt_bias": "forget_gate.dt_bias", "g_proj.0.weight": "g_a_proj.weight", "g_proj.1.weight": "g_b_proj.weight",
        "g_proj.1.bias": "g_b_proj.bias"}) | {"A_log": module.forget_gate.A_log.flatten()}
    sublayer(name, module, source, layer, dict(rule="kda") | options, weights,
             f"transformers {oracle}, with a bias on the gate")


def kda_layers():
    kda_layer("kda_kimi_linear", "KimiLinearDeltaAttention", ["linear_attention", "full_attention"], {},
              "kimi_linear", "KimiLinearConfig")
    kda_layer("kda_glm5", "Glm5NextTextLinearAttention", ["linear_attention", "indexed_attention"],
              dict(decay="bounded", decay_bound=-4.0), "glm5_next", "Glm5NextTextConfig", linear_lower_bound=-4.0)


def kimi():
    """The layer of Kimi-Linear as it is, with heads of its own, and its checkpoints' names: transformers puts the three
    convolutions into one and the decay into a module."""
    source, heads, head_dim = Source(27), 3, 5
    module = theirs("kimi_linear", "KimiLinearDeltaAttention", "KimiLinearConfig", 0, hidden_size=16,
                    linear_num_heads=heads, linear_head_dim=head_dim, linear_conv_kernel_dim=4, rms_norm_eps=1e-3,
                    num_hidden_layers=2, layer_types=["linear_attention", "full_attention"])
    randomise(module, source)
    same = ("q_proj", "k_proj", "v_proj", "b_proj", "g_a_proj", "g_b_proj", "o_norm", "o_proj")
    weights = renamed(module, {f"{name}.weight": f"{name}.weight" for name in same} | {
        "f_a_proj.weight": "forget_gate.f_a_proj.weight", "f_b_proj.weight": "forget_gate.f_b_proj.weight",
        "dt_bias": "forget_gate.dt_bias"}) | {"A_log": module.forget_gate.A_log.flatten()}
    for part, taps in zip("qkv", module.conv1d.weight.split(heads * head_dim)):
        weights[f"{part}_conv1d.weight"] = taps
    sublayer("kda_kimi_native", module, source, LAYER,
             dict(rule="kda", form="kimi", heads=heads, head_dim=head_dim, norm_eps=1e-3), weights,
             "transformers KimiLinearDeltaAttention", prefix="self_attn.")


def minimax():
    source, layer = Source(23), LAYER | {"layer": 2}
    module = theirs("minimax", "MiniMaxLightningAttention", "MiniMaxConfig", 2, hidden_size=16, head_dim=6,
                    num_attention_heads=4, num_hidden_layers=5, block_size=32, hidden_act="silu")
    randomise(module, source)
    weights = attention(source, layer)
    parts = [w.reshape(4, 6, 16) for w in full(weights, "proj.weight", layer)]
    module.qkv_proj.weight.data.copy_(torch.cat(parts, dim=1).reshape(-1, 16))
    weights |= renamed(module, {"o_proj.weight": "out_proj.weight", "norm.weight": "norm.weight",
                                "output_gate.weight": "output_gate.weight"})
    sublayer("lightning_minimax", module, source, layer, dict(rule="lightning", slopes="minimax", n_layers=5),
             weights, "transformers MiniMaxLightningAttention", position_embeddings=None, attention_mask=None)


def xlstm():
    source, layer = Source(24), LAYER
    module = theirs("xlstm", "xLSTMLayer", "xLSTMConfig", hidden_size=16, num_heads=4, qk_dim_factor=1.5,
                    v_dim_factor=1.5, mode="inference", chunk_size=32, return_last_states=True, use_bias=False,
                    autocast_kernel_dtype="float32", inference_state_dtype="float32", weight_mode="single")
    randomise(module, source)
    module.igate_preact.weight.data.mul_(4)  # exponents large enough that the cap of 15 shows
    weights = attention(source, layer)
    for part, value in zip("qkv", full(weights, "proj.weight", layer)):
        getattr(module, part).weight.data.copy_(value)
    weights |= renamed(module, {
        "o_proj.weight": "out_proj.weight", "norm.weight": "multihead_norm.weight",
        "g_proj.weight": "ogate_preact.weight", "input_gate.weight": "igate_preact.weight",
        "input_gate.bias": "igate_preact.bias", "forget_gate.weight": "fgate_preact.weight",
        "forget_gate.bias": "fgate_preact.bias"})
    start = (torch.zeros(1, 4, 6, 6), torch.zeros(1, 4, 6), torch.full((1, 4, 1), -torch.inf))
    sublayer("mlstm_xlstm", module, source, layer, dict(rule="mlstm", soft_cap=15.0), weights,
             "transformers xLSTMLayer", state=start)


def zamba2():
    """A group for each head, whose B and C are k and q. time_step_min is a floor of the step; this engine has none."""
    source, layer = Source(25), LAYER | dict(d_model=12)
    module = theirs("zamba2", "Zamba2MambaMixer", "Zamba2Config", 0, hidden_size=12, mamba_d_state=6, mamba_d_conv=4,
                    mamba_expand=2, mamba_ngroups=4, mamba_headdim=6, n_mamba_heads=4, time_step_min=0.0,
                    chunk_size=32, num_hidden_layers=1, layers_block_type=["mamba"], add_bias_linear=False).eval()
    randomise(module, source)
    weights = attention(source, layer, conv_width=4, conv_bias=True)
    z, dt = source.normal(24, 12, size=0.4), source.normal(4, 12, size=0.4)
    c, b, x = full(weights, "proj.weight", layer)
    module.in_proj.weight.data.copy_(torch.cat([z, x, b, c, dt]))
    for kind in ("weight", "bias"):
        c, b, x = full(weights, f"conv1d.{kind}", layer)
        getattr(module.conv1d, kind).data.copy_(torch.cat([x, b, c]))
    weights |= {"z_proj.weight": z, "dt_proj.weight": dt} | renamed(module, {
        "o_proj.weight": "out_proj.weight", "norm.weight": "norm.weight", "A_log": "A_log", "dt_bias": "dt_bias",
        "D": "D"})
    sublayer("mamba2_zamba2", module, source, layer, dict(rule="mamba2"), weights, "transformers Zamba2MambaMixer")


def gla_layer():
    """fla's layer needs a GPU. Its plain recurrence, with the steps around it as its source has them."""
    source, layer = Source(26), LAYER | dict(d_model=12)
    weights = attention(source, layer)
    for name, shape in (("gk_proj.0.weight", (3, 12)), ("gk_proj.1.weight", (12, 3)), ("gk_proj.1.bias", (12,)),
                        ("g_proj.weight", (24, 12)), ("o_proj.weight", (12, 24))):
        weights[name] = source.normal(*shape, size=1.5 / shape[-1] ** 0.5)
    weights["g_norm.weight"] = source.normal(6, mean=1, size=0.2)

    def module(x):
        low = F.linear(x, weights["gk_proj.0.weight"])
        gates = F.logsigmoid(F.linear(low, weights["gk_proj.1.weight"], weights["gk_proj.1.bias"])) / 2
        q, k, v = (F.linear(x, weights[f"{part}_proj.weight"]).unflatten(-1, (-1, 6)) for part in "qkv")
        k, v, gates = (y.repeat_interleave(2, dim=2) for y in (k, v, gates.unflatten(-1, (-1, 6))))
        y, _ = naive_recurrent_gla(q, k, v, gates)
        y = F.rms_norm(y, (6,), weights["g_norm.weight"], 1e-5).flatten(-2)
        return F.linear(y * F.silu(F.linear(x, weights["g_proj.weight"])), weights["o_proj.weight"])

    sublayer("gla_fla", module, source, layer, dict(rule="gla", state_heads="kv", gate_rank=3, gate_divisor=2.0),
             weights, "fla naive_recurrent_gla in the steps of fla.layers.gla")


def main():
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    OUT.mkdir(parents=True, exist_ok=True)
    for file in OUT.glob("*.json"):
        os.unlink(file)
    for case in (linear_attention, simple_gla, lightning, gla, delta_rules, rwkv6, mlstm, qwen, olmo, kda_layers,
                 kimi, minimax, xlstm, zamba2, gla_layer):
        case()
    with open(OUT / "versions.json", "w", encoding="utf-8") as file:
        json.dump({name: version(name) for name in PACKAGES}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
