// What the contract suite cannot know about NAME_: hand-computed numbers.
#include "mixers/NAME_/NAME_.h"

#include <gtest/gtest.h>

namespace bifocal {
namespace {

// One head of one dimension, weights of one, half_life 1: after values 1, 0 the mean is 1/2, 1/4.
TEST(Name_, HalvesInOneHalfLife) {
    LayerContext context;
    context.d_model = context.n_heads = context.n_kv_heads = context.head_dim = 1;
    context.norm_eps = 0;
    Name_Config config;
    config.decay = 0.5;
    const ReferenceWeight one{{1, 1}, {1.0}, false};
    const ReferenceWeights weights{{"input_layernorm.weight", {{1}, {1.0}, false}},
                                   {"self_attn.v_proj.weight", one},
                                   {"self_attn.o_proj.weight", one}};
    double x[] = {1, -1, 1};  // normed: 1, -1, 1
    NAME__reference<double>(config, context, weights, View<double, 2>(x, {3, 1}));
    EXPECT_DOUBLE_EQ(x[0], 1 + 0.5);
    EXPECT_DOUBLE_EQ(x[1], -1 - 0.25);
    EXPECT_DOUBLE_EQ(x[2], 1 + 0.375);
}

}  // namespace
}  // namespace bifocal
