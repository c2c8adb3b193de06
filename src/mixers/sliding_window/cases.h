// Sizes at which the contract suite judges sliding windows: windows below, at and above the 16 and
// 64 that kernels like, sinks inside and outside of the window, both conventions of their
// positions.
#pragma once

#include "mixers/contract/contract_case.h"

namespace bifocal {

inline std::vector<ContractCase> sliding_window_cases() {
    std::vector<ContractCase> cases;
    const auto add = [&](std::string name, int64_t window, int64_t sinks, auto change) {
        ContractCase c{.name = std::move(name),
                       .spec = {"sliding_window", {{"window", window}, {"sink_tokens", sinks}}},
                       .context = small_layer()};
        c.n_tokens = 3 * (window + sinks) + 32;
        c.chunks = {1, 7, window + 1, 64};
        if (window > 1) c.chunks.push_back(window - 1);
        if (window > 7) c.chunks.push_back(window);
        c.sees = [=](int64_t query, int64_t token) {
            return query - token < window || token < sinks;
        };
        change(c);
        cases.push_back(std::move(c));
    };
    add("w9", 9, 0, [](ContractCase& c) { c.runs_long = true; });
    add("w1", 1, 0, [](ContractCase&) {});
    add("w2_s1", 2, 1, [](ContractCase& c) { c.options.kv_dtype = DType::bf16; });
    add("w17_s4_bf16", 17, 4, [](ContractCase& c) {
        c.options.kv_dtype = DType::bf16;
        c.runs_long = true;
    });
    add("w28_s4_cache_positions", 28, 4, [](ContractCase& c) {
        c.spec.options["sink_positions"] = "cache";
        c.context.rope->style = ops::RopeStyle::interleaved;
    });
    add("w21_s3_learned_cache_bf16", 21, 3, [](ContractCase& c) {
        c.spec.options["sink_positions"] = "cache";
        c.spec.options["sink"] = "learned";
        c.options.kv_dtype = DType::bf16;
        c.context.qk_norm = true;
    });
    add("w40_s20_learned", 40, 20, [](ContractCase& c) { c.spec.options["sink"] = "learned"; });
    add("w12_s2_rewind5", 12, 2, [](ContractCase& c) { c.spec.options["rewind"] = 5; });
    add("w19_rewind1_no_positions", 19, 0, [](ContractCase& c) {
        c.spec.options["rewind"] = 1;
        c.context.rope.reset();
        c.context.n_heads = c.context.n_kv_heads = 3;
        c.context.head_dim = 34;
    });
    add("w66_s5_biases_post_norm", 66, 5, [](ContractCase& c) {
        c.context.qkv_bias = c.context.out_bias = c.context.post_norm = true;
        c.context.norm_offset = 1;
        c.context.qk_norm = true;
        c.n_tokens = 170;
    });
    add("w18_s2_output_gate_bf16", 18, 2, [](ContractCase& c) {
        c.context.output_gate = c.context.post_norm = true;
        c.options.kv_dtype = DType::bf16;
    });
    add("w11_s2_latent", 11, 2, [](ContractCase& c) {
        c.context = latent_layer();
        c.spec.options["rewind"] = 3;
    });
    add("w37_s4_latent_bf16", 37, 4, [](ContractCase& c) {
        c.context = latent_layer();
        c.context.residual = ops::NormedResidual{0.8f, 1.3f};
        c.options.kv_dtype = DType::bf16;
        c.runs_long = true;
    });
    add("w10_latent_q8_0_fast", 10, 0, [](ContractCase& c) {
        c.context = quantised_layer(Precision::fast);
        c.context.latent = LatentKeys{.rank = 32, .own_dim = 20, .shared_dim = 12, .value_dim = 8};
        c.context.n_kv_heads = c.context.n_heads;
        c.context.head_dim = 32;
        c.context.rope.reset();
        c.weight_dtype = DType::q8_0;
    });
    add("w14_s2_q8_0_fast", 14, 2, [](ContractCase& c) {
        c.context = quantised_layer(Precision::fast);
        c.weight_dtype = DType::q8_0;
        c.options.kv_dtype = DType::bf16;
    });
    add("w23_s3_q4_k_exact", 23, 3, [](ContractCase& c) {
        c.context = quantised_layer(Precision::exact);
        c.context.d_model = 256;
        c.context.head_dim = 64;
        c.weight_dtype = DType::q4_k;
        c.n_tokens = 60;
    });
    return cases;
}

}  // namespace bifocal
