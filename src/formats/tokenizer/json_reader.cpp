// Typed fields.
#include "formats/tokenizer/json_reader.h"

namespace bifocal::tokenizer {

std::string_view json_kind(JsonElement element) {
    switch (element.type()) {
        case simdjson::dom::element_type::ARRAY:
            return "an array";
        case simdjson::dom::element_type::OBJECT:
            return "an object";
        case simdjson::dom::element_type::INT64:
        case simdjson::dom::element_type::UINT64:
            return "an integer";
        case simdjson::dom::element_type::DOUBLE:
            return "a number";
        case simdjson::dom::element_type::STRING:
            return "a string";
        case simdjson::dom::element_type::BOOL:
            return "a boolean";
        case simdjson::dom::element_type::NULL_VALUE:
            return "null";
    }
    return "something else";
}

Result<JsonObject> JsonObject::from(JsonElement element, std::string where) {
    JsonObject out;
    if (element.get_object().get(out.object_) != simdjson::SUCCESS) {
        return Error{.what = "wrong type",
                     .where = std::move(where),
                     .expected = "an object",
                     .got = std::string(json_kind(element))};
    }
    out.where_ = std::move(where);
    return out;
}

std::optional<JsonElement> JsonObject::find(std::string_view key) const {
    JsonElement element;
    if (object_.at_key(key).get(element) != simdjson::SUCCESS || element.is_null()) {
        return std::nullopt;
    }
    return element;
}

Error JsonObject::wrong(std::string_view key, std::string expected) const {
    const auto element = find(key);
    return {.what = element ? "wrong type" : "missing field",
            .where = where_ + ", " + std::string(key),
            .expected = std::move(expected),
            .got = element ? std::string(json_kind(*element)) : ""};
}

Result<JsonElement> JsonObject::require(std::string_view key) const {
    if (const auto element = find(key)) return *element;
    return wrong(key, "a value");
}

Result<bool> JsonObject::boolean(std::string_view key, std::optional<bool> otherwise) const {
    const auto element = find(key);
    bool value = false;
    if (!element && otherwise) return *otherwise;
    if (!element || element->get_bool().get(value) != simdjson::SUCCESS) {
        return wrong(key, "a boolean");
    }
    return value;
}

Result<int64_t> JsonObject::integer(std::string_view key, std::optional<int64_t> otherwise) const {
    const auto element = find(key);
    int64_t value = 0;
    if (!element && otherwise) return *otherwise;
    if (!element || element->get_int64().get(value) != simdjson::SUCCESS) {
        return wrong(key, "an integer");
    }
    return value;
}

Result<std::string> JsonObject::string(std::string_view key,
                                       std::optional<std::string> otherwise) const {
    const auto element = find(key);
    std::string_view value;
    if (!element && otherwise) return std::move(*otherwise);
    if (!element || element->get_string().get(value) != simdjson::SUCCESS) {
        return wrong(key, "a string");
    }
    return std::string(value);
}

Result<JsonObject> JsonObject::child(std::string_view key) const {
    BIFOCAL_TRY(const JsonElement element, require(key));
    return from(element, where_ + ", " + std::string(key));
}

Result<std::vector<JsonObject>> JsonObject::children(std::string_view key) const {
    const auto element = find(key);
    simdjson::dom::array array;
    if (!element || element->get_array().get(array) != simdjson::SUCCESS) {
        return wrong(key, "an array");
    }
    std::vector<JsonObject> out;
    for (const JsonElement item : array) {
        BIFOCAL_TRY(JsonObject object, from(item, where_ + ", " + std::string(key) + "[" +
                                                      std::to_string(out.size()) + "]"));
        out.push_back(std::move(object));
    }
    return out;
}

}  // namespace bifocal::tokenizer
