#include "core/cpu_features.h"
#include "ops/kernels/kernels.h"

namespace bifocal::ops {

const KernelSet& kernel_set(Isa isa) {
    switch (isa) {
#if defined(__x86_64__)
        case Isa::avx2:
            return kAvx2Kernels;
        case Isa::avx_vnni:
            return kAvxVnniKernels;
        case Isa::avx512_vnni:
            return kAvx512Kernels;
#endif
        default:
            return kPortableKernels;
    }
}

const KernelSet& kernels() {
    static const KernelSet& chosen = kernel_set(active_isa());
    return chosen;
}

}  // namespace bifocal::ops
