// Any bytes as a safetensors file: opened, and the first element of each tensor decoded. What opens
// has tensors that fit their shapes and together no more bytes than the file.
#include <cstdint>
#include <span>

#include "core/dequant.h"
#include "formats/safetensors/file.h"

using namespace bifocal;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto file =
        safetensors::File::open_bytes(std::as_bytes(std::span(data, size)), "fuzz.safetensors");
    if (!file.ok()) {
        static_cast<void>(file.error().message());
        return 0;
    }
    size_t covered = 0;
    for (const safetensors::TensorInfo& info : file->tensors()) {
        const auto tensor = file->tensor(info.name);
        if (!tensor.ok() || static_cast<int64_t>(tensor->bytes.size()) !=
                                dtype_bytes(tensor->dtype, tensor->elems())) {
            __builtin_trap();
        }
        covered += tensor->bytes.size();
        float first = 0;
        if (is_real(tensor->dtype) && !tensor->bytes.empty()) {
            dequantise_row(tensor->dtype, tensor->bytes.data(), {&first, 1});
        }
    }
    if (covered > size) __builtin_trap();
    return 0;
}
