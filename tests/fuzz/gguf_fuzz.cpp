// Any bytes as a GGUF file: opened, its metadata walked through every getter, its sizes checked,
// and the first block of each tensor decoded.
#include <cstdint>
#include <span>
#include <vector>

#include "core/dequant.h"
#include "formats/gguf/file.h"
#include "formats/gguf/hparams.h"

using namespace bifocal;

namespace {

void walk_metadata(const gguf::Metadata& metadata) {
    for (const auto& [key, value] : metadata.entries()) {
        static_cast<void>(value.label());
        static_cast<void>(metadata.get_u32(key));
        static_cast<void>(metadata.get_i64(key));
        static_cast<void>(metadata.get_f32(key));
        static_cast<void>(metadata.get_bool(key));
        static_cast<void>(metadata.get_string(key));
        static_cast<void>(metadata.get_array<int32_t>(key));
        static_cast<void>(metadata.get_array<int64_t>(key));
        static_cast<void>(metadata.get_array<float>(key));
        static_cast<void>(metadata.get_array<bool>(key));
        static_cast<void>(metadata.get_array<std::string>(key));
        static_cast<void>(metadata.get_per_layer(key, 2, 0, 100));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto file = gguf::File::open_bytes(std::as_bytes(std::span(data, size)), "fuzz.gguf");
    if (!file.ok()) {
        static_cast<void>(file.error().message());
        return 0;
    }
    walk_metadata(file->metadata());
    static_cast<void>(gguf::check_hparams(*file));
    for (const gguf::TensorInfo& info : file->tensors()) {
        const auto tensor = file->tensor(info.name);
        if (!tensor.ok() || static_cast<int64_t>(tensor->bytes.size()) !=
                                dtype_bytes(tensor->dtype, tensor->elems())) {
            __builtin_trap();
        }
        if (!is_real(info.dtype)) continue;
        std::vector<float> block(static_cast<size_t>(dtype_info(info.dtype).block_elems));
        dequantise_row(info.dtype, tensor->bytes.data(), block);
    }
    return 0;
}
