// PCRE2 with JIT and limits. Nothing of it leaks: codes and match data are owned here.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "formats/tokenizer/regex.h"

#include <pcre2.h>

#include "formats/unicode/utf8.h"

namespace bifocal::tokenizer {
namespace {

constexpr size_t kMaxPattern = 16 * 1024;
constexpr uint32_t kMatchLimit = 50'000'000;
constexpr uint32_t kDepthLimit = 100'000;
constexpr uint32_t kHeapLimitKiB = 64 * 1024;
constexpr size_t kJitStack = 8 << 20;

std::string pcre2_message(int code) {
    PCRE2_UCHAR buffer[128];
    pcre2_get_error_message(code, buffer, sizeof buffer);
    return reinterpret_cast<const char*>(buffer);
}

struct Deleter {
    void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
    void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
    void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Deleter>;

}  // namespace

Result<Regex> Regex::compile(std::string_view pattern, const std::string& where) {
    if (pattern.size() > kMaxPattern) {
        return Error{.what = "regular expression too long",
                     .where = where,
                     .expected = "at most " + std::to_string(kMaxPattern) + " bytes",
                     .got = std::to_string(pattern.size())};
    }
    BIFOCAL_TRY(const std::string translated, to_pcre2(pattern, where));
    int code = 0;
    PCRE2_SIZE offset = 0;
    // Ruby's ^ and $ stand at every line.
    pcre2_code* compiled = pcre2_compile(
        reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
        PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE,
        &code, &offset, nullptr);
    if (compiled == nullptr) {
        return Error{.what = "invalid regular expression",
                     .where = where,
                     .expected = "",
                     .got = "'" + std::string(pattern) + "' (" + pcre2_message(code) + ")"};
    }
    Regex regex;
    regex.code_ = std::shared_ptr<const void>(compiled, [](const void* p) {
        pcre2_code_free(static_cast<pcre2_code*>(const_cast<void*>(p)));
    });
    regex.pattern_ = pattern;
    // Without JIT the interpreter does the same, slower.
    pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);
    return regex;
}

Status Regex::for_each(std::string_view text,
                       const std::function<void(size_t, size_t)>& match) const {
    const auto* code = static_cast<const pcre2_code*>(code_.get());
    const Owned<pcre2_match_data> data(pcre2_match_data_create_from_pattern(code, nullptr));
    const Owned<pcre2_match_context> context(pcre2_match_context_create(nullptr));
    if (!data || !context) return Error{.what = "out of memory for a regular expression"};
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_set_depth_limit(context.get(), kDepthLimit);
    pcre2_set_heap_limit(context.get(), kHeapLimitKiB);
    Owned<pcre2_jit_stack> stack;

    size_t last_end = std::string_view::npos;
    for (size_t from = 0; from <= text.size();) {
        const int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                      from, PCRE2_NO_UTF_CHECK, data.get(), context.get());
        if (count == PCRE2_ERROR_NOMATCH) break;
        if (count == PCRE2_ERROR_JIT_STACKLIMIT && !stack) {
            stack.reset(pcre2_jit_stack_create(32 * 1024, kJitStack, nullptr));
            pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
            continue;
        }
        if (count < 0) {
            return Error{.what = "regular expression gave up",
                         .where = "pattern '" + pattern_ + "', byte " + std::to_string(from),
                         .expected = "",
                         .got = pcre2_message(count)};
        }
        const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data.get());
        if (ends[0] == ends[1] && ends[1] == last_end) {
            from += from < text.size() ? unicode::decode(text, from).bytes : 1;
            continue;
        }
        from = last_end = ends[1];
        match(ends[0], ends[1]);
    }
    return {};
}

}  // namespace bifocal::tokenizer
