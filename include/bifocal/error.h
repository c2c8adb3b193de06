// Errors that the outside can cause come back as values: Result<T> holds a T or an Error.
// An Error says what, where, expected, got, and what to try; message() joins them to one line.
#pragma once

#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace bifocal {

// Decides the exit status of the command line (usage 2, failure 1).
enum class ErrorKind { failure, usage };

struct Error {
    std::string what = {};  // one clause: "unsupported tensor type"
    std::string where =
        {};  // file, offset, tensor or key: "model.gguf, tensor 'blk.0.attn_q.weight'"
    std::string expected = {};  // may be empty
    std::string got = {};       // may be empty
    std::string hint = {};      // what to try; may be empty
    ErrorKind kind = ErrorKind::failure;

    // "WHERE: WHAT: expected E, got G; HINT" with empty parts left out; never contains a newline.
    std::string message() const;
};

template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value) : held_(std::move(value)) {}
    Result(Error error) : held_(std::move(error)) {}

    bool ok() const { return held_.index() == 0; }
    explicit operator bool() const { return ok(); }

    // REQUIRES: ok(). Aborts otherwise.
    T& value() & { return *std::get_if<0>(&held_); }
    const T& value() const& { return *std::get_if<0>(&held_); }
    T&& value() && { return std::move(*std::get_if<0>(&held_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

    // REQUIRES: !ok().
    Error& error() & { return *std::get_if<1>(&held_); }
    const Error& error() const& { return *std::get_if<1>(&held_); }
    Error&& error() && { return std::move(*std::get_if<1>(&held_)); }

  private:
    std::variant<T, Error> held_;
};

template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : error_(std::move(error)), ok_(false) {}

    bool ok() const { return ok_; }
    explicit operator bool() const { return ok_; }
    Error& error() & { return error_; }
    const Error& error() const& { return error_; }
    Error&& error() && { return std::move(error_); }

  private:
    Error error_;
    bool ok_ = true;
};

using Status = Result<void>;

}  // namespace bifocal

#define BIFOCAL_CONCAT_(a, b) a##b
#define BIFOCAL_CONCAT(a, b) BIFOCAL_CONCAT_(a, b)

// BIFOCAL_TRY(auto file, open(path)): declares `file`, or returns the error from this function.
#define BIFOCAL_TRY(declaration, ...)                                \
    auto BIFOCAL_CONCAT(result_, __LINE__) = (__VA_ARGS__);          \
    if (!BIFOCAL_CONCAT(result_, __LINE__).ok())                     \
        return std::move(BIFOCAL_CONCAT(result_, __LINE__)).error(); \
    declaration = std::move(BIFOCAL_CONCAT(result_, __LINE__)).value()

// BIFOCAL_TRY_STATUS(check(x)): returns the error from this function, if there is one.
#define BIFOCAL_TRY_STATUS(...)                               \
    do {                                                      \
        auto status_ = (__VA_ARGS__);                         \
        if (!status_.ok()) return std::move(status_).error(); \
    } while (false)
