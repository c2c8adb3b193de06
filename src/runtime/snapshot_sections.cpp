#include "runtime/snapshot_sections.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/json/json.h"

namespace bifocal::snapshot {
namespace {

constexpr size_t kSamplerHead = 48;
constexpr int32_t kMostRecent = 1 << 20;
constexpr int64_t kMostSeen = int64_t{1} << 48;
constexpr size_t kStreamBytes = 8;
constexpr size_t kMostPending = 6;

enum StreamFlag : uint8_t { any_token = 1, any_text = 2, skip_special = 4 };

}  // namespace

std::string layout_text(const Decoder& decoder, const StatePlan& plan) {
    nlohmann::ordered_json layers = nlohmann::ordered_json::array();
    for (size_t i = 0; i < decoder.layers.size(); ++i) {
        nlohmann::ordered_json fields = nlohmann::ordered_json::array();
        for (const StateField& field : plan.layers[i].fields)
            fields.push_back({{"name", field.name},
                              {"dtype", std::string(dtype_info(field.dtype).name)},
                              {"shape", field.shape},
                              {"offset", plan.offsets[i] + field.offset},
                              {"bytes", field.bytes}});
        layers.push_back(
            {{"mixer", decoder.layers[i].mixer->spec().to_string()}, {"fields", fields}});
    }
    return json::to_text(nlohmann::ordered_json{{"layers", layers}});
}

Error layout_error(const std::string& where, const std::string& ours, const std::string& theirs) {
    Error error{.what = "this snapshot is of another layout", .where = where};
    const auto mine = nlohmann::json::parse(ours, nullptr, false);
    const auto other = nlohmann::json::parse(theirs, nullptr, false);
    const auto layers = [](const nlohmann::json& json) {
        return json.is_object() && json.contains("layers") && json["layers"].is_array()
                   ? json["layers"]
                   : nlohmann::json::array();
    };
    const nlohmann::json a = layers(mine), b = layers(other);
    if (a.size() != b.size()) {
        error.expected = fmt::format("{} layers", a.size());
        error.got = fmt::format("{}", b.size());
        return error;
    }
    for (size_t i = 0; i < a.size(); ++i) {
        if (a[i] == b[i]) continue;
        const bool same_mixer = b[i].is_object() && a[i].value("mixer", nlohmann::json()) ==
                                                        b[i].value("mixer", nlohmann::json());
        const char* const key = same_mixer ? "fields" : "mixer";
        const auto text = [&](const nlohmann::json& layer) {
            if (!layer.is_object() || !layer.contains(key)) return std::string("nothing");
            const nlohmann::json& value = layer[key];
            std::string shown = value.is_string() ? value.get<std::string>() : json::to_text(value);
            if (shown.size() > 200) shown.resize(200);
            return shown;
        };
        error.expected = fmt::format("layer {} to be '{}'", i, text(a[i]));
        error.got = fmt::format("'{}'", text(b[i]));
        error.hint = "load it with the --attention, -c and --kv-type it was saved with";
        return error;
    }
    error.got = "a description that differs in form";
    return error;
}

std::vector<std::byte> encode_sampler(const ops::Sampler& sampler) {
    std::vector<std::byte> out;
    const ops::SamplingOptions& options = sampler.options;
    append(out, options.temperature);
    append(out, static_cast<int32_t>(options.top_k));
    append(out, options.top_p);
    append(out, options.min_p);
    append(out, options.repeat_penalty);
    append(out, static_cast<int32_t>(options.repeat_last_n));
    append(out, options.seed);
    append(out, sampler.rng.state);
    append(out, sampler.n_seen);
    for (const int32_t token : sampler.recent) append(out, token);
    return out;
}

Result<ops::Sampler> decode_sampler(std::span<const std::byte> bytes, const std::string& where) {
    const Error bad{.what = "damaged sampler section", .where = where};
    if (bytes.size() < kSamplerHead) return bad;
    Reader reader(bytes);
    ops::SamplingOptions options;
    options.temperature = reader.take<float>();
    options.top_k = reader.take<int32_t>();
    options.top_p = reader.take<float>();
    options.min_p = reader.take<float>();
    options.repeat_penalty = reader.take<float>();
    options.repeat_last_n = reader.take<int32_t>();
    options.seed = reader.take<uint64_t>();
    for (const float value :
         {options.temperature, options.top_p, options.min_p, options.repeat_penalty})
        if (!std::isfinite(value) || value < 0) return bad;
    if (options.repeat_penalty == 0 || options.top_k < 0 || options.repeat_last_n < 0 ||
        options.repeat_last_n > kMostRecent ||
        bytes.size() != kSamplerHead + 4 * static_cast<size_t>(options.repeat_last_n))
        return bad;
    ops::Sampler sampler(options);
    sampler.rng.state = reader.take<uint64_t>();
    sampler.n_seen = reader.take<int64_t>();
    if (sampler.n_seen < 0 || sampler.n_seen > kMostSeen) return bad;
    for (int32_t& token : sampler.recent) token = reader.take<int32_t>();
    return sampler;
}

std::vector<std::byte> encode_stream(const tokenizer::StreamState& stream) {
    BIFOCAL_CHECK(stream.pending.size() <= kMostPending, "{} bytes of half a character",
                  stream.pending.size());
    std::vector<std::byte> out(kStreamBytes);
    out[0] = static_cast<std::byte>((stream.any_token ? any_token : 0) |
                                    (stream.any_text ? any_text : 0) |
                                    (stream.skip_special ? skip_special : 0));
    out[1] = static_cast<std::byte>(stream.pending.size());
    std::memcpy(out.data() + 2, stream.pending.data(), stream.pending.size());
    return out;
}

Result<tokenizer::StreamState> decode_stream(std::span<const std::byte> bytes,
                                             const std::string& where) {
    const Error bad{.what = "damaged tokenizer section", .where = where};
    if (bytes.size() != kStreamBytes) return bad;
    const auto flags = static_cast<uint8_t>(bytes[0]);
    const auto n = static_cast<size_t>(bytes[1]);
    if (flags > 7 || n > kMostPending) return bad;
    tokenizer::StreamState stream;
    stream.any_token = flags & any_token;
    stream.any_text = flags & any_text;
    stream.skip_special = flags & skip_special;
    stream.pending.assign(reinterpret_cast<const char*>(bytes.data() + 2), n);
    return stream;
}

}  // namespace bifocal::snapshot
