// The parts of a snapshot that are not plain state bytes: layout, sampler, tokenizer stream.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "bifocal/error.h"
#include "formats/tokenizer/decoder.h"
#include "model/decoder.h"
#include "ops/sampling.h"

namespace bifocal::snapshot {

static_assert(std::endian::native == std::endian::little, "snapshots are copied as they lie");

template <class T>
void append(std::vector<std::byte>& out, const T& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    out.insert(out.end(), bytes, bytes + sizeof(T));
}

// Reads plain values one after the other. REQUIRES: the caller checked the size.
class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
    template <class T>
    T take() {
        T value;
        std::memcpy(&value, bytes_.data() + at_, sizeof(T));
        at_ += sizeof(T);
        return value;
    }

  private:
    std::span<const std::byte> bytes_;
    size_t at_ = 0;
};

// JSON: each layer's mixer with every option, and its state fields.
std::string layout_text(const Decoder& decoder, const StatePlan& plan);
// Why a session with layout `ours` cannot take a state with layout `theirs`.
Error layout_error(const std::string& where, const std::string& ours, const std::string& theirs);

std::vector<std::byte> encode_sampler(const ops::Sampler& sampler);
Result<ops::Sampler> decode_sampler(std::span<const std::byte> bytes, const std::string& where);

std::vector<std::byte> encode_stream(const tokenizer::StreamState& stream);
Result<tokenizer::StreamState> decode_stream(std::span<const std::byte> bytes,
                                             const std::string& where);

}  // namespace bifocal::snapshot
