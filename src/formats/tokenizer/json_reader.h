// A thin layer over simdjson for reading configuration objects: typed fields whose errors name the
// place, so that loaders read as lists of fields.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bifocal/error.h"

namespace bifocal::tokenizer {

using JsonElement = simdjson::dom::element;

// An object and where it is, for errors: "tokenizer.json, model".
class JsonObject {
  public:
    static Result<JsonObject> from(JsonElement element, std::string where);

    const std::string& where() const { return where_; }
    simdjson::dom::object object() const { return object_; }

    // Nothing when the field is missing or null.
    std::optional<JsonElement> find(std::string_view key) const;
    Result<JsonElement> require(std::string_view key) const;

    Result<bool> boolean(std::string_view key, std::optional<bool> otherwise = std::nullopt) const;
    Result<int64_t> integer(std::string_view key,
                            std::optional<int64_t> otherwise = std::nullopt) const;
    Result<std::string> string(std::string_view key,
                               std::optional<std::string> otherwise = std::nullopt) const;
    Result<JsonObject> child(std::string_view key) const;
    // Each object of an array field.
    Result<std::vector<JsonObject>> children(std::string_view key) const;

    Error wrong(std::string_view key, std::string expected) const;

  private:
    simdjson::dom::object object_;
    std::string where_;
};

std::string_view json_kind(JsonElement element);

}  // namespace bifocal::tokenizer
