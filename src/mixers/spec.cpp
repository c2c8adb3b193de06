#include "mixers/spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json/json.h"
#include "core/mapped_file.h"
#include "mixers/mixer.h"

namespace bifocal {
namespace {

Error bad_spec(std::string_view text, std::string what, std::string expected) {
    return Error{.what = std::move(what),
                 .where = fmt::format("attention '{}'", text),
                 .expected = std::move(expected),
                 .kind = ErrorKind::usage};
}

// A value as it stands in SPEC: numbers, true, false and quoted strings are JSON, the rest is text.
nlohmann::json value_of(std::string_view text) {
    nlohmann::json value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (value.is_discarded() || value.is_structured() || value.is_null()) return std::string(text);
    return value;
}

bool is_name(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    });
}

std::string kind_of(std::string_view name) {
    return name == "full" ? "full_attention" : std::string(name);
}

// {"kind": "sliding_window", "window": 508, ...}
// or the same as text.
Result<MixerSpec> spec_of(const json::Json& entry, const std::string& where) {
    if (entry.is_string()) {
        auto spec = parse_mixer_spec(entry.get_ref<const std::string&>());
        if (!spec.ok()) spec.error().where = where + ": " + spec.error().where;
        return spec;
    }
    BIFOCAL_TRY(const json::Fields fields, json::Fields::of(entry, where));
    BIFOCAL_TRY(const std::optional<std::string> kind, fields.string("kind"));
    if (!kind) return fields.error("kind", "missing", "the name of a mixer");
    MixerSpec spec{kind_of(*kind), entry};
    spec.options.erase("kind");
    auto known = check_mixer_kind(spec.kind);
    if (!known.ok()) {
        known.error().where = where;
        return known.error();
    }
    return spec;
}

Result<std::vector<MixerSpec>> read_layout(const std::string& path, int64_t n_layers) {
    BIFOCAL_TRY(const auto file, MappedFile::open(path));
    const auto bytes = file->bytes();
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto parse = [&]() -> Result<std::vector<MixerSpec>> {
        BIFOCAL_TRY(const json::Json layout, json::parse(text, path));
        return parse_layout(layout, path, n_layers);
    };
    auto specs = parse();
    if (!specs.ok())
        specs.error().kind = ErrorKind::usage;  // the file is there, what it says is wrong
    return specs;
}

}  // namespace

std::string MixerSpec::to_string() const {
    std::string text = kind;
    char separator = ':';
    for (const auto& [name, value] : options.items()) {
        // A string that would read back as something else keeps its quotes.
        const bool bare = value.is_string() && value_of(value.get<std::string>()) == value;
        text += fmt::format("{}{}={}", separator, name,
                            bare ? value.get<std::string>() : json::to_text(value));
        separator = ',';
    }
    return text;
}

Result<MixerSpec> parse_mixer_spec(std::string_view text) {
    const size_t colon = text.find(':');
    MixerSpec spec{kind_of(text.substr(0, colon)), nlohmann::json::object()};
    auto known = check_mixer_kind(spec.kind);
    if (!known.ok()) {
        known.error().where = fmt::format("attention '{}'", text);
        return known.error();
    }
    if (colon == std::string_view::npos) return spec;
    std::string_view rest = text.substr(colon + 1);
    while (true) {
        const size_t comma = rest.find(',');
        const std::string_view option = rest.substr(0, comma);
        const size_t equals = option.find('=');
        const std::string_view name = option.substr(0, equals);
        if (equals == std::string_view::npos || !is_name(name) || equals + 1 == option.size()) {
            return bad_spec(text, fmt::format("option '{}'", option), "key=value");
        }
        if (spec.options.contains(name)) {
            return bad_spec(text, fmt::format("option '{}' twice", name), "each once");
        }
        spec.options[std::string(name)] = value_of(option.substr(equals + 1));
        if (comma == std::string_view::npos) return spec;
        rest.remove_prefix(comma + 1);
    }
}

Result<std::vector<MixerSpec>> parse_layout(const nlohmann::json& layout, const std::string& where,
                                            int64_t n_layers) {
    const nlohmann::json* list = &layout;
    std::string place = where;
    if (layout.is_object() && layout.contains("token_mixers")) {
        if (layout.size() != 1) {
            return Error{.what = "unknown keys beside 'token_mixers'", .where = where};
        }
        list = &layout["token_mixers"];
        place += ", key 'token_mixers'";
    }
    if (list->is_object()) {
        BIFOCAL_TRY(const MixerSpec spec, spec_of(*list, place));
        return std::vector<MixerSpec>(static_cast<size_t>(n_layers), spec);
    }
    if (!list->is_array()) {
        return Error{.what = "not a layout",
                     .where = place,
                     .expected = "a list with one mixer per layer, or one mixer",
                     .got = std::string(json::kind(*list))};
    }
    if (static_cast<int64_t>(list->size()) != n_layers) {
        return Error{.what = "wrong number of layers",
                     .where = place,
                     .expected = fmt::format("{}", n_layers),
                     .got = fmt::format("{}", list->size())};
    }
    std::vector<MixerSpec> specs;
    for (size_t i = 0; i < list->size(); ++i) {
        BIFOCAL_TRY(specs.emplace_back(),
                    spec_of((*list)[i], fmt::format("{}, layer {}", place, i)));
    }
    return specs;
}

Result<std::vector<MixerSpec>> parse_attention(std::string_view text, int64_t n_layers) {
    if (text.starts_with('@')) return read_layout(std::string(text.substr(1)), n_layers);
    BIFOCAL_TRY(const MixerSpec spec, parse_mixer_spec(text));
    return std::vector<MixerSpec>(static_cast<size_t>(n_layers), spec);
}

}  // namespace bifocal
