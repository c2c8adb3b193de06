// OptionReader: reads a MixerSpec's options one by one, fills in the defaults so that the spec
// comes out explicit, and refuses what nobody asked for.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "mixers/spec.h"

namespace bifocal {

class OptionReader {
  public:
    explicit OptionReader(const MixerSpec& spec) : given_(spec), explicit_{spec.kind, {}} {
        explicit_.options = nlohmann::json::object();
    }

    // Required when there is no fallback.
    int64_t integer(std::string_view name, std::optional<int64_t> fallback, int64_t min,
                    int64_t max);
    double number(std::string_view name, double fallback, double min, double max);
    bool boolean(std::string_view name, bool fallback);
    std::string choice(std::string_view name, std::string_view fallback,
                       std::initializer_list<std::string_view> known);
    std::string choice(std::string_view name, const std::vector<std::string_view>& known);
    std::string text(std::string_view name);  // "" when absent; then it stays out of the spec

    // The explicit spec, or the first thing that was wrong.
    Result<MixerSpec> finish();
    // What a value has to do with others: recorded like a bad value.
    void require(bool holds, std::string_view name, std::string expected);
    // What is wrong with the layer rather than with an option.
    void require(Status status);

  private:
    void fail(std::string_view name, std::string expected);

    const MixerSpec& given_;
    MixerSpec explicit_;
    std::vector<std::string> known_;
    std::optional<Error> error_;
};

}  // namespace bifocal
