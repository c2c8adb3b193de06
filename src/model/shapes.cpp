#include "model/shapes.h"

#include <fmt/format.h>

#include <cmath>

#include "model/families/linear_layers.h"

namespace bifocal {

std::span<const ModelShape> model_shapes() {
    static constexpr ModelShape kShapes[] = {
        // name, layers, M, H, G, D, trained length, every n-th layer softmax
        {"smollm2-135m", 30, 576, 9, 3, 64, 8192},
        {"smollm2-360m", 32, 960, 15, 5, 64, 8192},
        {"smollm2-1.7b", 24, 2048, 32, 32, 64, 8192},
        {"smollm3-3b", 36, 2048, 16, 4, 128, 65536},
        {"qwen2.5-0.5b", 24, 896, 14, 2, 64, 32768},
        {"qwen2.5-7b", 28, 3584, 28, 4, 128, 32768},
        {"qwen3-0.6b", 28, 1024, 16, 8, 128, 40960},
        {"qwen3-1.7b", 28, 2048, 16, 8, 128, 40960},
        {"qwen3-4b", 36, 2560, 32, 8, 128, 40960},
        {"qwen3-8b", 36, 4096, 32, 8, 128, 40960},
        {"qwen3-14b", 40, 5120, 40, 8, 128, 40960},
        {"qwen3-32b", 64, 5120, 64, 8, 128, 40960},
        // Its softmax layers' shape in every layer; the public model has one in four of them.
        {"qwen3.5-4b", 32, 2560, 16, 4, 256, 262144},
        {"qwen3.5-4b-native", 32, 2560, 16, 4, 256, 262144, 4},
        {"qwen3.5-9b-native", 32, 4096, 16, 4, 256, 262144, 4},
        {"qwen3-next-80b-a3b", 48, 2048, 16, 2, 256, 262144, 4},
        {"llama-3.1-8b", 32, 4096, 32, 8, 128, 131072},
        {"llama-3.1-70b", 80, 8192, 64, 8, 128, 131072},
        {"llama-3.2-1b", 16, 2048, 32, 8, 64, 131072},
        {"llama-3.2-3b", 28, 3072, 24, 8, 128, 131072},
        {"mistral-7b-v0.3", 32, 4096, 32, 8, 128, 32768},
    };
    return kShapes;
}

namespace {

ModelSpec spec_of(const ModelShape& shape) {
    ModelSpec spec;
    spec.family = shape.name;
    spec.d_model = shape.d_model;
    spec.context_length = shape.context_length;
    for (int64_t i = 0; i < shape.n_layers; ++i) {
        LayerSpec layer;
        layer.context.layer = i;
        layer.context.n_layers = shape.n_layers;
        layer.context.d_model = shape.d_model;
        layer.context.n_heads = shape.n_heads;
        layer.context.n_kv_heads = shape.n_kv_heads;
        layer.context.head_dim = shape.head_dim;
        layer.context.scale =
            static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_dim)));
        layer.mixer = {"full_attention"};
        const int64_t interval = shape.full_attention_interval;
        layer.is_native_linear = interval > 0 && (i + 1) % interval != 0;
        if (layer.is_native_linear)
            layer.mixer = native_linear_mixer(LinearRule::gdn, kQwenLinear, 1e-6);
        spec.layers.push_back(std::move(layer));
    }
    return spec;
}

}  // namespace

Result<ModelSpec> spec_of_shape(std::string_view name) {
    std::string known;
    for (const ModelShape& shape : model_shapes()) {
        if (shape.name == name) return spec_of(shape);
        known += fmt::format("{}{}", known.empty() ? "one of " : ", ", shape.name);
    }
    return Error{.what = fmt::format("unknown shape '{}'", name),
                 .expected = std::move(known),
                 .hint = "-m MODEL plans for any model that can be read",
                 .kind = ErrorKind::usage};
}

}  // namespace bifocal
