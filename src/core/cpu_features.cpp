#include "core/cpu_features.h"

#include <sched.h>

#include <cstdlib>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace bifocal {
namespace {

#if defined(__x86_64__)
CpuFeatures detect() {
    CpuFeatures cpu;
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return cpu;
    const bool osxsave = c >> 27 & 1;
    const bool fma = c >> 12 & 1;
    const bool f16c = c >> 29 & 1;
    if (!osxsave) return cpu;
    unsigned low = 0, high = 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    const bool ymm_saved = (low & 0x6) == 0x6;
    const bool zmm_saved = (low & 0xe6) == 0xe6;
    const bool tiles_saved = (low & 0x60000) == 0x60000;
    if (!ymm_saved || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return cpu;
    const unsigned b7 = b, c7 = c, d7 = d;
    cpu.avx2 = (b7 >> 5 & 1) && fma && f16c;
    cpu.avx512 = cpu.avx2 && zmm_saved && (b7 >> 16 & 1) && (b7 >> 17 & 1) && (b7 >> 30 & 1) &&
                 (b7 >> 31 & 1);
    cpu.avx512_vnni = cpu.avx512 && (c7 >> 11 & 1);
    cpu.amx_int8 = tiles_saved && (d7 >> 24 & 1) && (d7 >> 25 & 1);
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) {
        cpu.avx_vnni = cpu.avx2 && (a >> 4 & 1);
        cpu.avx512_bf16 = cpu.avx512 && (a >> 5 & 1);
    }
    return cpu;
}
#else
CpuFeatures detect() {
    return {};
}
#endif

std::optional<std::string_view> environment_wish() {
    const char* value = std::getenv("BIFOCAL_CPU");
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
}

std::string available_names(const CpuFeatures& cpu) {
    std::string names;
    for (const Isa isa : kIsas) {
        if (!isa_available(isa, cpu)) continue;
        if (!names.empty()) names += ", ";
        names += isa_name(isa);
    }
    return names;
}

}  // namespace

std::string_view isa_name(Isa isa) {
    switch (isa) {
        case Isa::portable:
            return "portable";
        case Isa::avx2:
            return "avx2";
        case Isa::avx_vnni:
            return "avx_vnni";
        case Isa::avx512_vnni:
            return "avx512_vnni";
    }
    return "unknown";
}

const CpuFeatures& cpu_features() {
    static const CpuFeatures cpu = detect();
    return cpu;
}

bool isa_available(Isa isa, const CpuFeatures& cpu) {
    switch (isa) {
        case Isa::portable:
            return true;
        case Isa::avx2:
            return cpu.avx2;
        case Isa::avx_vnni:
            return cpu.avx_vnni;
        case Isa::avx512_vnni:
            return cpu.avx512_vnni;
    }
    return false;
}

Result<Isa> choose_isa(std::optional<std::string_view> wish, const CpuFeatures& cpu) {
    if (!wish) {
        Isa best = Isa::portable;
        for (const Isa isa : kIsas) {
            if (isa_available(isa, cpu)) best = isa;
        }
        return best;
    }
    for (const Isa isa : kIsas) {
        if (isa_name(isa) != *wish) continue;
        if (isa_available(isa, cpu)) return isa;
        return Error{.what = "this processor does not have it",
                     .where = "environment variable BIFOCAL_CPU",
                     .expected = "one of " + available_names(cpu),
                     .got = "'" + std::string(*wish) + "'",
                     .hint = "unset it to use the best",
                     .kind = ErrorKind::usage};
    }
    return Error{.what = "unknown kernel family",
                 .where = "environment variable BIFOCAL_CPU",
                 .expected = "one of " + available_names(cpu),
                 .got = "'" + std::string(*wish) + "'",
                 .hint = "unset it to use the best",
                 .kind = ErrorKind::usage};
}

const Result<Isa>& chosen_isa() {
    static const Result<Isa> chosen = choose_isa(environment_wish(), cpu_features());
    return chosen;
}

Isa active_isa() {
    const Result<Isa>& chosen = chosen_isa();
    return chosen.ok() ? *chosen : Isa::portable;
}

std::string isa_reason() {
    const std::string name(isa_name(active_isa()));
    if (environment_wish()) return "BIFOCAL_CPU=" + name;
    return active_isa() == Isa::portable ? "no faster kernels for this cpu" : "cpu has " + name;
}

int available_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        const int n = CPU_COUNT(&set);
        if (n > 0) return n;
    }
    const unsigned n = std::thread::hardware_concurrency();
    return n > 0 ? static_cast<int>(n) : 1;
}

}  // namespace bifocal
