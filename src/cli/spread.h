// Median and quartiles of repeats.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/scoring.h"

namespace bifocal::cli {

struct Spread {
    double low, median, high;  // quartiles
};

inline Spread spread_of(std::vector<double> values) {
    std::ranges::sort(values);
    return {quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75)};
}

}  // namespace bifocal::cli
