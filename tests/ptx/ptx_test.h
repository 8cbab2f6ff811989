// Shared by the tests of the executor: a kernel of a few instructions, run on vectors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/ptx/launch.h"

namespace heddle::ptx {

// A module with a kernel of that body; its parameters are p0, p1, ... of 64 bits.
inline std::string module_text(const std::string& body, int parameters, const std::string& globals = "") {
  std::string text = ".version 8.8\n.target sm_90\n.address_size 64\n" + globals + ".visible .entry k(";
  for (int i = 0; i < parameters; ++i) text += (i ? ", " : "") + std::string(".param .u64 p") + std::to_string(i);
  return text + ")\n{\n" + body + "\n}\n";
}

// Runs the kernel `k`; arguments are addresses of vectors or numbers.
class PtxRun {
 public:
  explicit PtxRun(const std::string& text, const char* kernel = "k") {
    auto module = std::make_shared<Module>(parse(text));
    globals_.resize(module->global_bytes + 16);
    for (const Variable* v : module->globals)
      std::copy(v->initial.begin(), v->initial.end(), globals_.begin() + static_cast<ptrdiff_t>(v->offset));
    memory_.add(globals_.data(), module->global_bytes);
    program_ = decode(module, kernel, globals_.data());
  }
  template <class T>
  PtxRun& argument(std::vector<T>& values) {
    memory_.add(values.data(), values.size() * sizeof(T));
    return number(reinterpret_cast<uintptr_t>(values.data()));
  }
  template <class T>
  PtxRun& number(T value) {
    const Variable& p = *program_.parameters.at(given_++);
    parameters_.resize(program_.parameter_bytes);
    std::memcpy(parameters_.data() + p.offset, &value, std::min<size_t>(sizeof value, p.bytes));
    return *this;
  }
  void launch(uint32_t blocks, uint32_t lanes, uint32_t dynamic_shared = 0) {
    heddle::ptx::launch(program_, {{blocks, 1, 1}, {lanes, 1, 1}, dynamic_shared}, parameters_.data(), memory_);
  }

 private:
  std::vector<std::byte> globals_;
  std::vector<std::byte> parameters_;
  GlobalMemory memory_;
  Program program_;
  size_t given_ = 0;
};

template <class T>
std::string word() {
  return std::to_string(8 * (sizeof(T) == 1 ? 2 : sizeof(T)));
}

// d[i] = what the instructions leave in %d, with a[i], b[i], c[i] in %a, %b, %c.
template <class D, class A, class B = uint32_t, class C = uint32_t>
std::vector<D> compute(const std::string& instructions, std::vector<A> a, std::vector<B> b = {},
                       std::vector<C> c = {}) {
  const size_t n = a.size();
  b.resize(n);
  c.resize(n);
  const auto load = [](const char* name, auto sample) {
    const std::string bytes = std::to_string(sizeof sample);
    const std::string bits = std::to_string(8 * sizeof sample);
    return std::string("mad.wide.u32 %at, %i, ") + bytes + ", %" + name + "p;\nld.global.b" + bits + " %" + name +
           ", [%at];\n";
  };
  const std::string body =
      ".reg .b64 %at, %ap, %bp, %cp, %dp;\n.reg .u32 %i, %t<4>;\n.reg .pred %p, %q;\n.reg .b64 %l<4>;\n.reg .b16 "
      "%h<4>;\n"
      ".reg .b" +
      word<A>() + " %a;\n.reg .b" + word<B>() + " %b;\n.reg .b" + word<C>() + " %c;\n.reg .b" + word<D>() +
      " %d;\nmov.u32 %i, %tid.x;\nld.param.u64 %ap, [p0];\nld.param.u64 %bp, [p1];\nld.param.u64 %cp, [p2];\n"
      "ld.param.u64 %dp, [p3];\n" +
      load("a", A{}) + load("b", B{}) + load("c", C{}) + instructions + "\nmad.wide.u32 %at, %i, " +
      std::to_string(sizeof(D)) + ", %dp;\nst.global.b" + std::to_string(8 * sizeof(D)) + " [%at], %d;\nret;";
  std::vector<D> d(n);
  PtxRun run(module_text(body, 4));
  run.argument(a).argument(b).argument(c).argument(d).launch(1, static_cast<uint32_t>(n));
  return d;
}

// Numbers of every size: random bits, small ones, and the corners of the type.
template <class T>
std::vector<T> numbers(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t bits = random();
    if constexpr (std::is_floating_point_v<T>) {
      using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
      constexpr T corners[] = {T(0),
                               T(-0.0),
                               T(1),
                               T(-1.5),
                               std::numeric_limits<T>::infinity(),
                               -std::numeric_limits<T>::infinity(),
                               std::numeric_limits<T>::quiet_NaN(),
                               std::numeric_limits<T>::denorm_min(),
                               std::numeric_limits<T>::max(),
                               T(2.5)};
      const T small = static_cast<T>(static_cast<int64_t>(bits % 20001) - 10000) / T(64);
      values[i] = i % 3 == 0 ? std::bit_cast<T>(static_cast<Bits>(bits)) : i % 3 == 1 ? small : corners[bits % 10];
    } else {
      const T corners[] = {T(0), T(1), static_cast<T>(~T(0)), std::numeric_limits<T>::min(),
                           std::numeric_limits<T>::max()};
      values[i] = i % 3 == 0 ? static_cast<T>(bits) : i % 3 == 1 ? static_cast<T>(bits % 100) : corners[bits % 5];
    }
  }
  return values;
}

// Equal bits, or both NaN.
template <class T>
testing::AssertionResult same_value(T a, T b) {
  if (a == b && std::memcmp(&a, &b, sizeof a) == 0) return testing::AssertionSuccess();
  if (a != a && b != b) return testing::AssertionSuccess();
  return testing::AssertionFailure() << std::hexfloat << +a << " instead of " << +b;
}

// The fault of what `act` does; `other` with an empty text where there is none.
template <class Act>
Fault fault_of(const Act& act) {
  try {
    act();
  } catch (const Fault& fault) {
    return fault;
  }
  ADD_FAILURE() << "no fault";
  return {FaultKind::other, ""};
}

template <class Act>
std::string ptx_error_of(const Act& act) {
  try {
    act();
  } catch (const PtxError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace heddle::ptx
