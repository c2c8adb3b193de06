// lost_mass() against its definition in double, and what it is for: a sink with that logit gives a
// window the teacher's own weights.
#include "mixers/shared/lost_mass.h"

#include <gtest/gtest.h>

#include "mixers/contract/subject.h"
#include "mixers/shared/attention_reference.h"

namespace bifocal {
namespace {

double defined(const DenseAttention& dense, const std::vector<double>& stream, int64_t h,
               int64_t window, int64_t sinks, int64_t n_first) {
    const LayerContext& c = dense.context;
    const int64_t T = std::ssize(stream) / c.d_model, D = c.head_dim;
    std::vector<double> copy = stream;
    const auto in = dense.inputs(View<double, 2>(copy.data(), {T, c.d_model}));
    double sum = 0;
    int64_t n = 0;
    for (int64_t t = window + sinks; t < T; ++t, ++n) {
        double mass = 0;
        for (int64_t j = sinks; j <= t - window && j < sinks + n_first; ++j) {
            double score = 0;
            for (int64_t d = 0; d < D; ++d)
                score += in.q[t][h * D + d] * in.k[j][h / (c.n_heads / c.n_kv_heads) * D + d];
            mass += std::exp(static_cast<double>(c.scale) * score);
        }
        sum += std::log(mass);
    }
    return sum / static_cast<double>(n);
}

TEST(LostMass, IsWhatItsDefinitionSays) {
    LayerContext with_extras = small_layer();
    with_extras.qk_norm = with_extras.qkv_bias = true;
    with_extras.norm_offset = 1;
    for (LayerContext context : {small_layer(), with_extras, latent_layer()}) {
        context.precision = Precision::exact;
        ContractCase c{.name = "full", .spec = {"full_attention"}, .context = context};
        const contract::Subject subject(c);
        const int64_t T = 75;
        const std::vector<float> x = subject.rows(9, T);
        const DenseAttention dense{.context = context,
                                   .kv_dtype = DType::f32,
                                   .weights = reference_weights(subject.weights())};
        ThreadPool pool(2);
        struct Case {
            int64_t window, sinks, n_first;
        };
        for (const Case& at : {Case{1, 0, 75},
                               {9, 0, 75},
                               {20, 4, 75},
                               {74, 0, 75},
                               {9, 0, 4},
                               {20, 4, 1},
                               {3, 2, 30}}) {
            const auto mass = lost_mass(context, subject.weights(),
                                        View<const float, 2>(x.data(), {T, context.d_model}),
                                        at.window, at.sinks, at.n_first, pool);
            ASSERT_TRUE(mass.ok());
            ASSERT_EQ(std::ssize(*mass), context.n_heads);
            for (int64_t h = 0; h < context.n_heads; ++h)
                EXPECT_NEAR(
                    (*mass)[h],
                    defined(dense, {x.begin(), x.end()}, h, at.window, at.sinks, at.n_first), 1e-5)
                    << "window " << at.window << ", sinks " << at.sinks << ", first " << at.n_first
                    << ", head " << h;
        }
    }
}

}  // namespace
}  // namespace bifocal
