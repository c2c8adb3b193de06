// What this processor can run, and which of our kernel families is chosen for it.
// BIFOCAL_CPU=portable|avx2|avx_vnni|avx512_vnni overrides the choice; every family gives the same
// bits, so the variable is for tests, `inspect` and measurements.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bifocal/error.h"

namespace bifocal {

// Kernel families, each one a superset of those before it on the processors that have it.
enum class Isa { portable, avx2, avx_vnni, avx512_vnni };
inline constexpr Isa kIsas[] = {Isa::portable, Isa::avx2, Isa::avx_vnni, Isa::avx512_vnni};

std::string_view isa_name(Isa isa);

struct CpuFeatures {
    bool avx2 = false;  // with FMA and F16C, which came with it or before
    bool avx_vnni = false;
    bool avx512 = false;  // F, BW, DQ, VL
    bool avx512_vnni = false;
    bool avx512_bf16 = false;
    bool amx_int8 = false;  // the processor has it; the system may still refuse it
};

// Of this machine: the instruction bits and what the system saves at a context switch.
const CpuFeatures& cpu_features();

bool isa_available(Isa isa, const CpuFeatures& cpu);

// The best family, or the one `wish` names; an unknown or unavailable wish is an error.
Result<Isa> choose_isa(std::optional<std::string_view> wish, const CpuFeatures& cpu);

// choose_isa() of BIFOCAL_CPU on this machine, decided once. Linear::make() reports its error;
// code that cannot uses active_isa(), which is portable in that case.
const Result<Isa>& chosen_isa();
Isa active_isa();

// Why active_isa() is what it is: "cpu has avx512_vnni" or "BIFOCAL_CPU=avx2".
std::string isa_reason();

// Cores this process may run on.
int available_cores();

}  // namespace bifocal
