// A prompt of three windows at the sizes people use, in chunks around the window: every way gives
// what the dense masked definition gives in double, with the same bits; and the promised bytes.
#include "mixers/contract/subject.h"

namespace bifocal {
namespace {

struct Layout {
    std::string name;
    int64_t window, sinks;
    std::string positions;
    DType kv_dtype;
};

class LongPrompt : public ::testing::TestWithParam<Layout> {};

TEST_P(LongPrompt, IsExactForEveryChunkSize) {
    const Layout& layout = GetParam();
    ContractCase c{.name = layout.name,
                   .spec = {"sliding_window",
                            {{"window", layout.window},
                             {"sink_tokens", layout.sinks},
                             {"sink_positions", layout.positions}}},
                   .context = small_layer()};
    c.context.d_model = 14;
    c.context.n_heads = 3;
    c.context.n_kv_heads = 1;
    c.context.head_dim = 8;
    c.context.rope->rotary_dim = 8;
    c.options.kv_dtype = layout.kv_dtype;
    c.n_tokens = 3 * 512 + 5;
    const contract::Subject subject(c);
    const std::vector<float> x = subject.rows();
    const std::vector<float> whole = subject.run(x, c.n_tokens);
    EXPECT_TRUE(contract::is_good(subject.judge(x, whole)));
    for (const int64_t chunk : {1, 7, 64, 511, 512, 513}) {
        const auto state = subject.fresh_state();
        const std::vector<float> y = subject.run(x, chunk, *state, 0, chunk == 512 ? 2 : 1);
        EXPECT_TRUE(contract::is_good(subject.judge(x, y))) << "chunks of " << chunk;
        EXPECT_TRUE(contract::same_bits(y, whole, c.context.d_model)) << "chunks of " << chunk;
    }
}

std::string layout_name(const ::testing::TestParamInfo<Layout>& info) {
    return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(SlidingWindow, LongPrompt,
                         ::testing::Values(Layout{"w512_f32", 512, 0, "absolute", DType::f32},
                                           Layout{"w508_s4_bf16", 508, 4, "absolute", DType::bf16},
                                           Layout{"w508_s4_cache_f32", 508, 4, "cache",
                                                  DType::f32}),
                         layout_name);

LayerContext smollm2_layer() {
    LayerContext context;
    context.d_model = 576;
    context.n_heads = 9;
    context.n_kv_heads = 3;
    context.head_dim = 64;
    context.scale = 0.125f;
    context.rope = rope_of(100000, 64);
    return context;
}

size_t layer_bytes(const std::string& spec, StateOptions options) {
    const auto mixer = make_mixer(parse_mixer_spec(spec).value(), smollm2_layer());
    return (*mixer)->state_layout(options).bytes;
}

// 30 layers of SmolLM2-135M: 2 (k, v) · 3 heads · 64 dims · 2 bytes = 768 bytes a slot.
TEST(SlidingWindowBytes, AreExactlyWindowAndSinks) {
    EXPECT_EQ(30 * layer_bytes("sliding_window:window=508,sink_tokens=4", {}), 11'796'480u);
    EXPECT_EQ(layer_bytes("sliding_window:window=508", {}), 508u * 768);
    EXPECT_EQ(layer_bytes("sliding_window:window=509", {}), 509u * 768);
    EXPECT_EQ(layer_bytes("sliding_window:window=500,rewind=12", {}), 512u * 768);
    EXPECT_EQ(layer_bytes("sliding_window:window=508,sink_tokens=4", {.kv_dtype = DType::f32}),
              512u * 1536);
    EXPECT_EQ(layer_bytes("full", {.capacity = 3001}), 3001u * 768);
}

}  // namespace
}  // namespace bifocal
