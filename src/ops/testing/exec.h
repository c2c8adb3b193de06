// An Exec with a thread pool and a workspace of its own, poisoned with NaNs, for tests.
#pragma once

#include <cstring>

#include "ops/exec.h"

namespace bifocal::testing {

struct ExecFor {
    ThreadPool pool;
    Workspace workspace;
    Exec exec{pool, workspace};

    ExecFor(int n_threads, size_t workspace_bytes) : pool(n_threads), workspace(workspace_bytes) {
        std::memset(workspace.bytes().data(), 0xff, workspace.size());
    }
};

}  // namespace bifocal::testing
