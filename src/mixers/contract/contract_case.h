// What a mixer's cases.h lists: the sizes and options that the contract suite judges it at. Keep
// sizes pairwise different, so that two swapped ones cannot hide.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "mixers/mixer.h"

namespace bifocal {

struct ContractCase {
    std::string name;  // letters, digits and '_'; the mixer's kind is put before it
    MixerSpec spec;
    LayerContext context;
    StateOptions options = {.capacity = 100, .kv_dtype = DType::f32};
    DType weight_dtype = DType::f32;  // of matrices
    int64_t n_tokens = 59;            // length of the sequences; within the capacity
    std::vector<int64_t> chunks = {1, 7, 16, 31};
    // Whether the output at `query` depends on the token at `token`, both absolute and token <=
    // query. Empty: it always does.
    std::function<bool(int64_t query, int64_t token)> sees = {};
    // How far back a token surely still changes an output that sees it: what forgets by its gates
    // may lose it before the numbers do. -1: always.
    int64_t remembers = -1;
    // Mixer::tokens_visible() at a position. Empty: as many as `sees` says.
    std::function<int64_t(int64_t pos)> tokens_visible = {};
    bool runs_long = false;  // also 100,000 steps, or up to the capacity
};

// For lists and failures of tests.
inline void PrintTo(const ContractCase& c, std::ostream* out) {
    *out << c.spec.to_string() << ", " << dtype_info(c.options.kv_dtype).name << " KV, "
         << dtype_info(c.weight_dtype).name << " weights, " << c.n_tokens << " tokens";
}

inline ops::RopeSpec rope_of(double theta, int64_t rotary_dim) {
    ops::RopeSpec rope;
    rope.theta = theta;
    rope.rotary_dim = rotary_dim;
    return rope;
}

// A small layer of pairwise different sizes: M 22, H 6, G 2, D 10.
inline LayerContext small_layer() {
    LayerContext context;
    context.layer = 3;
    context.d_model = 22;
    context.n_heads = 6;
    context.n_kv_heads = 2;
    context.head_dim = 10;
    context.scale = 0.3f;
    context.rope = rope_of(1000, 10);
    return context;
}

// The same with keys and values from latent rows: H 5, D 9, R 19, P 3, V 7.
inline LayerContext latent_layer() {
    LayerContext context = small_layer();
    context.latent =
        LatentKeys{.rank = 19, .own_dim = 6, .shared_dim = 3, .value_dim = 7, .norm_eps = 1e-4f};
    context.n_heads = context.n_kv_heads = 5;
    context.head_dim = 9;
    context.rope.reset();
    return context;
}

// One that quantised weights fit: M 96, H 4, G 1, D 16, blocks of 32.
inline LayerContext quantised_layer(Precision precision) {
    LayerContext context;
    context.d_model = 96;
    context.n_heads = 4;
    context.n_kv_heads = 1;
    context.head_dim = 16;
    context.scale = 0.25f;
    context.rope = rope_of(10000, 16);
    context.precision = precision;
    return context;
}

}  // namespace bifocal
