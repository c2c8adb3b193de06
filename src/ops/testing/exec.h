// An Exec with a thread pool and a workspace of its own, poisoned with NaNs, for tests.
#pragma once

#include <algorithm>
#include <cstddef>

#include "ops/exec.h"

namespace bifocal::testing {

struct ExecFor {
    ThreadPool pool;
    Workspace workspace;
    Exec exec{pool, workspace};

    ExecFor(int n_threads, size_t workspace_bytes) : pool(n_threads), workspace(workspace_bytes) {
        std::ranges::fill(workspace.bytes(), std::byte{0xff});
    }
};

}  // namespace bifocal::testing
