// Read bandwidth of this machine over working sets and thread counts, one JSON line each.
#include <fmt/format.h>

#include "core/bandwidth.h"

int main() {
    const int cores = bifocal::ThreadPool().size();
    for (int n_threads = 1; n_threads <= cores; n_threads *= 2) {
        bifocal::ThreadPool pool(n_threads);
        for (const size_t megabytes : {4, 16, 32, 64, 96, 192, 384}) {
            const auto b = bifocal::measure_read_bandwidth(megabytes << 20, 0.5, pool);
            fmt::print(R"({{"case":"read","threads":{},"mib":{},"gb_per_s":{:.1f},"best":{:.1f}}})"
                       "\n",
                       n_threads, megabytes, b.median_gb_per_s, b.best_gb_per_s);
        }
    }
}
