// Callable: owns a function object that can be copied, as std::function does. Public headers use it because
// <functional> brings the compiler much that they do not need (docs/design.md, "Public headers").
//
// Invariants: copies own copies of the function object; a moved-from Callable is empty, and so is one made of nullptr,
// a null pointer to a function, or another empty Callable or std::function. Errors: std::bad_function_call when an
// empty one is called. Thread safety: that of the function object.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace heddle {

[[noreturn]] void fail_empty_call();

template <class Signature>
class Callable;

template <class R, class... Args>
class Callable<R(Args...)> {
 public:
  Callable() = default;
  Callable(std::nullptr_t) {}
  template <class F>
  requires(!std::is_same_v<F, Callable> && std::is_invocable_r_v<R, F&, Args...>) Callable(F f) {
    if constexpr (std::is_constructible_v<F, std::nullptr_t>)
      if (!f) return;
    held_ = new Held<F>(std::move(f));
  }
  Callable(const Callable& other) : held_(other.held_ ? other.held_->copy() : nullptr) {}
  Callable(Callable&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  Callable& operator=(Callable other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~Callable() { delete held_; }

  explicit operator bool() const noexcept { return held_ != nullptr; }
  bool operator==(std::nullptr_t) const noexcept { return held_ == nullptr; }
  R operator()(Args... args) const {
    if (!held_) fail_empty_call();
    return held_->call(std::forward<Args>(args)...);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual Base* copy() const = 0;
    virtual R call(Args&&... args) = 0;
  };
  template <class F>
  struct Held final : Base {
    explicit Held(const F& from) : f(from) {}
    explicit Held(F&& from) : f(std::move(from)) {}
    Base* copy() const override { return new Held(f); }
    R call(Args&&... args) override { return static_cast<R>(f(std::forward<Args>(args)...)); }
    F f;
  };

  Base* held_ = nullptr;
};

}  // namespace heddle
