// The recurrence of a rule of the linear family alone, without projections, for benchmarks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bifocal/error.h"

namespace bifocal {

class RuleTiming {
  public:
    struct Sizes {
        int64_t tokens = 0, head_dim = 0, states = 0;
    };
    static Result<std::unique_ptr<RuleTiming>> make(const std::string& rule, const Sizes& sizes,
                                                    int n_threads);
    virtual ~RuleTiming() = default;

    // All tokens of all states from fresh ones, one after the other or in chunks; seconds.
    virtual double run(bool in_chunks) = 0;
    // Whether a layer takes this many tokens in chunks.
    virtual bool prefers_chunks() const = 0;
};

}  // namespace bifocal
