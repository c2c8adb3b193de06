// Formulas as in Hugging Face transformers' modeling_rope_utils, in double.
#include "ops/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.h"
#include "ops/kernels/kernels.h"

namespace bifocal::ops {
namespace {

Status check(const RopeSpec& spec) {
    const auto bad = [](std::string_view what, std::string expected, std::string got) -> Status {
        return Error{.what = fmt::format("rope: bad {}", what),
                     .expected = std::move(expected),
                     .got = std::move(got)};
    };
    const auto positive = [](double x) { return std::isfinite(x) && x > 0; };
    if (spec.rotary_dim < 0 || spec.rotary_dim % 2 != 0) {
        return bad("rotary size", "an even number", fmt::format("{}", spec.rotary_dim));
    }
    if (!positive(spec.theta)) return bad("theta", "above 0", fmt::format("{}", spec.theta));
    if (!positive(spec.factor)) return bad("factor", "above 0", fmt::format("{}", spec.factor));
    if (spec.attention_factor && !positive(*spec.attention_factor)) {
        return bad("attention factor", "above 0", fmt::format("{}", *spec.attention_factor));
    }
    if (!spec.divisors.empty() &&
        spec.divisors.size() != static_cast<size_t>(spec.rotary_dim / 2)) {
        return bad("number of frequency factors", fmt::format("{}", spec.rotary_dim / 2),
                   fmt::format("{}", spec.divisors.size()));
    }
    for (const double divisor : spec.divisors) {
        if (!positive(divisor)) {
            return bad("frequency factor", "above 0", fmt::format("{}", divisor));
        }
    }
    const bool needs_context =
        spec.scaling == RopeScaling::llama3 || spec.scaling == RopeScaling::yarn ||
        (spec.scaling == RopeScaling::longrope && !spec.attention_factor && spec.factor > 1);
    if (needs_context && !positive(spec.original_context)) {
        return bad("original context length", "above 0", fmt::format("{}", spec.original_context));
    }
    if (spec.scaling == RopeScaling::longrope && spec.divisors.empty()) {
        return bad("longrope", "a list of frequency factors", "none");
    }
    if (spec.scaling == RopeScaling::llama3 &&
        !(positive(spec.low_freq_factor) && spec.high_freq_factor > spec.low_freq_factor)) {
        return bad("llama3 factors", "0 < low < high",
                   fmt::format("low {}, high {}", spec.low_freq_factor, spec.high_freq_factor));
    }
    if (spec.scaling == RopeScaling::yarn &&
        !(positive(spec.beta_slow) && positive(spec.beta_fast) && spec.theta > 1)) {
        return bad(
            "yarn betas", "above 0, theta above 1",
            fmt::format("fast {}, slow {}, theta {}", spec.beta_fast, spec.beta_slow, spec.theta));
    }
    return {};
}

// Long wavelengths are stretched by `factor`, short ones stay, with a ramp between.
double llama3_frequency(const RopeSpec& spec, double inv) {
    const double wavelength = 2 * std::numbers::pi / inv;
    if (wavelength < spec.original_context / spec.high_freq_factor) return inv;
    if (wavelength > spec.original_context / spec.low_freq_factor) return inv / spec.factor;
    const double smooth = (spec.original_context / wavelength - spec.low_freq_factor) /
                          (spec.high_freq_factor - spec.low_freq_factor);
    return (1 - smooth) * inv / spec.factor + smooth * inv;
}

// Dimensions that turn more than beta_fast times over the original context keep their frequency,
// those below beta_slow are interpolated.
struct YarnRamp {
    double low;
    double high;
};
YarnRamp yarn_ramp(const RopeSpec& spec) {
    const auto n = static_cast<double>(spec.rotary_dim);
    const auto dim_of_turns = [&](double turns) {
        return n * std::log(spec.original_context / (turns * 2 * std::numbers::pi)) /
               (2 * std::log(spec.theta));
    };
    double low = dim_of_turns(spec.beta_fast);
    double high = dim_of_turns(spec.beta_slow);
    if (spec.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, n - 1);
    if (low == high) high += 0.001;
    return {low, high};
}

double default_attention_factor(const RopeSpec& spec) {
    if (spec.factor <= 1) return 1.0;
    switch (spec.scaling) {
        case RopeScaling::yarn:
            return 0.1 * std::log(spec.factor) + 1.0;
        case RopeScaling::longrope:
            return std::sqrt(1 + std::log(spec.factor) / std::log(spec.original_context));
        default:
            return 1.0;
    }
}

}  // namespace

Result<RopeTable> make_rope_table(const RopeSpec& spec) {
    BIFOCAL_TRY_STATUS(check(spec));
    RopeTable table;
    table.style = spec.style;
    table.rotary_dim = spec.rotary_dim;
    table.attention_factor = spec.attention_factor.value_or(default_attention_factor(spec));
    const int64_t half = spec.rotary_dim / 2;
    const YarnRamp ramp =
        spec.scaling == RopeScaling::yarn && half > 0 ? yarn_ramp(spec) : YarnRamp{};
    table.inv_freq.resize(static_cast<size_t>(half));
    for (int64_t j = 0; j < half; ++j) {
        double inv = std::pow(spec.theta,
                              -2.0 * static_cast<double>(j) / static_cast<double>(spec.rotary_dim));
        switch (spec.scaling) {
            case RopeScaling::none:
            case RopeScaling::longrope:  // all in the divisors
                break;
            case RopeScaling::linear:
                inv /= spec.factor;
                break;
            case RopeScaling::llama3:
                inv = llama3_frequency(spec, inv);
                break;
            case RopeScaling::yarn: {
                const double x = (static_cast<double>(j) - ramp.low) / (ramp.high - ramp.low);
                const double interpolated = std::clamp(x, 0.0, 1.0);
                inv = inv * (1 - interpolated) + inv / spec.factor * interpolated;
                break;
            }
        }
        if (!spec.divisors.empty()) inv /= spec.divisors[j];
        table.inv_freq[j] = inv;
    }
    return table;
}

void rope_cos_sin(const RopeTable& table, int64_t pos, std::span<float> cos, std::span<float> sin) {
    const size_t half = table.inv_freq.size();
    BIFOCAL_CHECK(cos.size() == half && sin.size() == half, "cos {}, sin {} of {} pairs",
                  cos.size(), sin.size(), half);
    kernels().cos_sin(table.inv_freq.data(), static_cast<int64_t>(half), static_cast<double>(pos),
                      table.attention_factor, cos.data(), sin.data());
}

void rope_rotate(const RopeTable& table, std::span<const float> cos, std::span<const float> sin,
                 std::span<float> head) {
    const auto half = static_cast<size_t>(table.rotary_dim / 2);
    BIFOCAL_CHECK(head.size() >= 2 * half, "head of {} elements, {} rotate", head.size(), 2 * half);
    BIFOCAL_CHECK(cos.size() == half && sin.size() == half, "cos {}, sin {} of {} pairs",
                  cos.size(), sin.size(), half);
    if (table.style == RopeStyle::half) {
        kernels().rotate(cos.data(), sin.data(), head.data(), head.data() + half,
                         static_cast<int64_t>(half));
        return;
    }
    for (size_t j = 0; j < half; ++j) {
        const float a = head[2 * j];
        const float b = head[2 * j + 1];
        head[2 * j] = a * cos[j] - b * sin[j];
        head[2 * j + 1] = b * cos[j] + a * sin[j];
    }
}

}  // namespace bifocal::ops
