// The experts of a layer as a checkpoint holds them: one tensor for each expert and projection, one
// for all experts, gate and up in one, as numbers or as MXFP4 in two tensors. Hands them out one at
// a time in the one form that ops::Linear wants.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/weight_table.h"

namespace bifocal {

class StoredExperts {
  public:
    enum Part { gate, up, down };

    // Everything is there, of the right shape and type, or an error.
    static Result<StoredExperts> find(WeightFinder& finder, const ModelSpec& spec, int64_t layer);

    const Tensor& router() const { return router_; }            // [E, M]
    const Tensor& router_bias() const { return router_bias_; }  // [E], or no bytes
    const Tensor& correction() const { return correction_; }    // [E], or no bytes
    // Of expert e: [F, M], [F, M], [M, F]. Copies unless they are rows of what is stored.
    Tensor weight(Part part, int64_t e) const;
    Tensor bias(Part part, int64_t e) const;  // [F], [F], [M], or no bytes
    // Of the expert that all tokens go through; no bytes: there is none.
    const Tensor& shared_weight(Part part) const { return shared_[part]; }
    const Tensor& shared_gate() const { return shared_gate_; }  // [1, M], or no bytes

    // All of the above as stored, named relative to the layer.
    const std::vector<std::pair<std::string, Tensor>>& tensors() const { return tensors_; }

  private:
    // A projection of every expert: rows begin, begin + step, ... of each stored matrix.
    struct Projection {
        int64_t n_out = 0, n_in = 0, begin = 0, step = 1;
        bool is_transposed = false;   // stored [n_in, rows]
        std::vector<Tensor> weights;  // [E] each [rows, n_in], or codes [rows, n_in / 32, 16]
        std::vector<Tensor> scales;   // [E] each [rows, n_in / 32], of codes; else empty
        std::vector<Tensor> biases;   // [E] each [rows]; or empty
    };
    class Search;

    Tensor router_, router_bias_, correction_, shared_[3], shared_gate_;
    Projection parts_[3];
    std::vector<std::pair<std::string, Tensor>> tensors_;
};

}  // namespace bifocal
