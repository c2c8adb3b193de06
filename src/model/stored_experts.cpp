#include "model/stored_experts.h"

#include <fmt/format.h>

#include <cstring>

#include "core/check.h"

namespace bifocal {
namespace {

constexpr int64_t kBlock = 32;       // values of one MXFP4 block
constexpr int64_t kBlockBytes = 17;  // its exponent and 16 bytes of codes

// The E matrices of [E, ...]; they share its bytes.
std::vector<Tensor> one_each(const Tensor& all) {
    std::vector<Tensor> parts;
    for (int64_t e = 0; e < all.shape[0]; ++e) {
        parts.push_back(all.rows(e, e + 1));
        parts.back().shape.erase(parts.back().shape.begin());
    }
    return parts;
}

}  // namespace

// Collects the tensors of one layer.
class StoredExperts::Search {
  public:
    Search(WeightFinder& finder, const ModelSpec& spec, int64_t layer)
        : finder_(finder),
          layer_(layer),
          x_(*spec.layers[layer].experts),
          E_(x_.n_experts),
          M_(spec.d_model),
          F_(x_.d_ff) {}

    Result<StoredExperts> run() {
        for (const Part part : {gate, up, down}) {
            Projection& p = found_.parts_[part];
            p.n_out = part == down ? M_ : F_;
            p.n_in = part == down ? F_ : M_;
        }
        BIFOCAL_TRY_STATUS(find_router());
        BIFOCAL_TRY_STATUS(find_shared());
        BIFOCAL_TRY_STATUS(finder_.is_gguf()                                ? find_stacked()
                           : has("gate_up_proj_blocks")                     ? find_codes()
                           : x_.names.is_interleaved || has("gate_up_proj") ? find_merged()
                                                                            : find_each());
        return std::move(found_);
    }

  private:
    using Shape = std::vector<int64_t>;

    bool has(std::string_view name) const {
        return finder_.has_layer_tensor(layer_, fmt::format("{}.{}", x_.names.experts, name));
    }
    Result<Tensor> take(const std::string& name, const Shape& shape,
                        Stored stored = Stored::numbers) {
        BIFOCAL_TRY(Tensor tensor, finder_.layer_tensor(layer_, name, shape, stored));
        found_.tensors_.emplace_back(name, tensor);
        return tensor;
    }
    Result<Tensor> take(std::string_view hf, std::string_view gguf, const Shape& shape) {
        return take(std::string(finder_.is_gguf() ? gguf : hf), shape);
    }
    std::string of_all(std::string_view name) const {
        return fmt::format("{}.{}", x_.names.experts, name);
    }
    std::string_view name_of(Part part) const {
        return part == gate ? x_.names.gate : part == up ? x_.names.up : x_.names.down;
    }

    Status find_router() {
        const std::string name(x_.names.router);
        BIFOCAL_TRY(found_.router_, take(name + ".weight", "ffn_gate_inp.weight", {E_, M_}));
        if (!x_.names.correction.empty()) {
            BIFOCAL_TRY(found_.correction_, take(std::string(x_.names.correction), {E_}));
        }
        if (!x_.has_biases) return {};
        BIFOCAL_TRY(found_.router_bias_, take(name + ".bias", "ffn_gate_inp.bias", {E_}));
        return {};
    }

    Status find_shared() {
        const int64_t F = x_.d_ff_shared;
        if (F == 0) return {};
        for (const Part part : {gate, up, down}) {
            const Shape shape = part == down ? Shape{M_, F} : Shape{F, M_};
            BIFOCAL_TRY(found_.shared_[part],
                        take(fmt::format("{}.{}_proj.weight", x_.names.shared, kPartNames[part]),
                             fmt::format("ffn_{}_shexp.weight", kPartNames[part]), shape));
        }
        if (x_.names.shared_gate.empty()) return {};
        // A single row, which GGUF files write as a vector.
        const Shape row = finder_.is_gguf() ? Shape{M_} : Shape{1, M_};
        BIFOCAL_TRY(found_.shared_gate_, take(fmt::format("{}.weight", x_.names.shared_gate),
                                              "ffn_gate_inp_shexp.weight", row));
        found_.shared_gate_.shape = {1, M_};
        return {};
    }

    // GGUF: a tensor for each projection.
    Status find_stacked() {
        for (const Part part : {gate, up, down}) {
            Projection& p = found_.parts_[part];
            const std::string name = fmt::format("ffn_{}_exps", kPartNames[part]);
            BIFOCAL_TRY(const Tensor all, take(name + ".weight", {E_, p.n_out, p.n_in}));
            p.weights = one_each(all);
            if (!x_.has_biases) continue;
            BIFOCAL_TRY(const Tensor bias, take(name + ".bias", {E_, p.n_out}));
            p.biases = one_each(bias);
        }
        return {};
    }

    Status find_each() {
        for (int64_t e = 0; e < E_; ++e) {
            for (const Part part : {gate, up, down}) {
                Projection& p = found_.parts_[part];
                const std::string name =
                    fmt::format("{}.{}.{}", x_.names.experts, e, name_of(part));
                BIFOCAL_TRY(Tensor one, take(name + ".weight", {p.n_out, p.n_in}));
                p.weights.push_back(std::move(one));
                if (!x_.has_biases) continue;
                BIFOCAL_TRY(Tensor bias, take(name + ".bias", {p.n_out}));
                p.biases.push_back(std::move(bias));
            }
        }
        return {};
    }

    // Where gate and up lie in what they share.
    Status share_gate_up(const Tensor& weights, const Tensor* scales) {
        for (const Part part : {gate, up}) {
            Projection& p = found_.parts_[part];
            p.weights = one_each(weights);
            if (scales) p.scales = one_each(*scales);
            p.step = x_.names.is_interleaved ? 2 : 1;
            p.begin = part == gate ? 0 : x_.names.is_interleaved ? 1 : F_;
        }
        if (!x_.has_biases) return {};
        BIFOCAL_TRY(const Tensor both, take(of_all("gate_up_proj_bias"), {E_, 2 * F_}));
        BIFOCAL_TRY(const Tensor out, take(of_all("down_proj_bias"), {E_, M_}));
        found_.parts_[gate].biases = found_.parts_[up].biases = one_each(both);
        found_.parts_[down].biases = one_each(out);
        return {};
    }

    Status find_merged() {
        const bool turned = x_.names.is_interleaved;
        BIFOCAL_TRY(
            const Tensor both,
            take(of_all("gate_up_proj"), turned ? Shape{E_, M_, 2 * F_} : Shape{E_, 2 * F_, M_}));
        BIFOCAL_TRY(const Tensor out,
                    take(of_all("down_proj"), turned ? Shape{E_, F_, M_} : Shape{E_, M_, F_}));
        for (Projection& p : found_.parts_) p.is_transposed = turned;
        found_.parts_[down].weights = one_each(out);
        return share_gate_up(both, nullptr);
    }

    Status find_codes() {
        for (const int64_t width : {M_, F_})
            if (width % kBlock != 0)
                return Error{.what = "MXFP4 blocks do not fill the rows of experts",
                             .where = fmt::format("layer {}", layer_),
                             .expected = fmt::format("a multiple of {}", kBlock),
                             .got = fmt::format("{}", width)};
        Tensor codes[2], scales[2];
        for (const auto& [i, name, rows, blocks] :
             {std::tuple{0, "gate_up_proj", 2 * F_, M_ / kBlock},
              std::tuple{1, "down_proj", M_, F_ / kBlock}}) {
            const std::string full = of_all(name);
            BIFOCAL_TRY(codes[i], take(full + "_blocks", {E_, rows, blocks, 16}, Stored::codes));
            BIFOCAL_TRY(scales[i], take(full + "_scales", {E_, rows, blocks}, Stored::exponents));
        }
        found_.parts_[down].weights = one_each(codes[1]);
        found_.parts_[down].scales = one_each(scales[1]);
        return share_gate_up(codes[0], &scales[0]);
    }

    static constexpr std::string_view kPartNames[] = {"gate", "up", "down"};

    WeightFinder& finder_;
    int64_t layer_;
    const ExpertsSpec& x_;
    int64_t E_, M_, F_;
    StoredExperts found_;
};

Result<StoredExperts> StoredExperts::find(WeightFinder& finder, const ModelSpec& spec,
                                          int64_t layer) {
    BIFOCAL_CHECK(spec.layers[layer].experts, "layer {} has no experts", layer);
    return Search(finder, spec, layer).run();
}

namespace {

// Codes of neighbours (2j, 2j + 1) to bytes that hold columns j and j + 16, behind their exponent.
void repack_block(const uint8_t* neighbours, uint8_t exponent, uint8_t* block) {
    const auto code = [&](int i) { return neighbours[i / 2] >> (4 * (i % 2)) & 15; };
    block[0] = exponent;
    for (int j = 0; j < 16; ++j) block[1 + j] = static_cast<uint8_t>(code(j) | code(j + 16) << 4);
}

Tensor repacked(const Tensor& codes, const Tensor& scales, int64_t begin, int64_t step,
                int64_t n_out, int64_t n_in) {
    std::byte* data = nullptr;
    Tensor made = make_tensor(DType::mxfp4, {n_out, n_in}, &data);
    const int64_t blocks = n_in / kBlock;
    const auto* from = reinterpret_cast<const uint8_t*>(codes.bytes.data());
    const auto* exponents = reinterpret_cast<const uint8_t*>(scales.bytes.data());
    auto* to = reinterpret_cast<uint8_t*>(data);
    for (int64_t r = 0; r < n_out; ++r)
        for (int64_t b = 0; b < blocks; ++b, to += kBlockBytes) {
            const int64_t at = (begin + step * r) * blocks + b;
            repack_block(from + 16 * at, exponents[at], to);
        }
    return made;
}

}  // namespace

Tensor StoredExperts::weight(Part part, int64_t e) const {
    const Projection& p = parts_[part];
    const Tensor& stored = p.weights[e];
    if (!p.scales.empty()) return repacked(stored, p.scales[e], p.begin, p.step, p.n_out, p.n_in);
    if (!p.is_transposed) return stored.rows(p.begin, p.begin + p.n_out);
    std::byte* data = nullptr;
    Tensor made = make_tensor(stored.dtype, {p.n_out, p.n_in}, &data);
    const auto size = static_cast<size_t>(dtype_info(stored.dtype).block_bytes);
    for (int64_t r = 0; r < p.n_out; ++r)
        for (int64_t i = 0; i < p.n_in; ++i, data += size) {
            const int64_t at = i * stored.shape[1] + p.begin + p.step * r;
            std::memcpy(data, stored.bytes.data() + static_cast<size_t>(at) * size, size);
        }
    return made;
}

Tensor StoredExperts::bias(Part part, int64_t e) const {
    const Projection& p = parts_[part];
    if (p.biases.empty()) return {};
    const Tensor& stored = p.biases[e];
    if (p.step == 1) return stored.rows(p.begin, p.begin + p.n_out);
    std::byte* data = nullptr;
    Tensor made = make_tensor(stored.dtype, {p.n_out}, &data);
    const auto size = static_cast<size_t>(dtype_info(stored.dtype).block_bytes);
    for (int64_t r = 0; r < p.n_out; ++r)
        std::memcpy(data + r * size, stored.bytes.data() + (p.begin + p.step * r) * size, size);
    return made;
}

}  // namespace bifocal
