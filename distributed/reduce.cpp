#include "heddle/distributed/reduce.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "heddle/core/base/error.h"

namespace heddle::distributed {
namespace {

struct Sum {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      using Bits = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Bits>(a) + static_cast<Bits>(b));
    } else {
      return a + b;
    }
  }
};
// A NaN differs from itself.
struct Max {
  template <class T>
  T operator()(T a, T b) const {
    return a != a || b < a ? a : b;
  }
};
struct Min {
  template <class T>
  T operator()(T a, T b) const {
    return a != a || a < b ? a : b;
  }
};

template <class T, class F>
void combine(T* into, const T* other, size_t count, F f) {
  for (size_t i = 0; i < count; ++i) into[i] = f(into[i], other[i]);
}

// The result is in the first source.
template <class T, class F>
void over_tree(std::span<T* const> sources, size_t count, F f) {
  for (size_t step = 1; step < sources.size(); step *= 2) {
    for (size_t i = 0; i + step < sources.size(); i += 2 * step) combine(sources[i], sources[i + step], count, f);
  }
}

template <class T>
void over_tree(Reduction reduction, std::span<T* const> sources, size_t count) {
  if (reduction == Reduction::sum) over_tree(sources, count, Sum());
  if (reduction == Reduction::max) over_tree(sources, count, Max());
  if (reduction == Reduction::min) over_tree(sources, count, Min());
}

template <class T>
void reduce_as(Reduction reduction, std::span<void* const> sources, void* result, size_t count) {
  std::vector<T*> typed;
  for (void* const source : sources) typed.push_back(static_cast<T*>(source));
  over_tree<T>(reduction, typed, count);
  if (result != sources[0] && count > 0) std::memcpy(result, sources[0], count * sizeof(T));
}

using Widen = float (*)(uint16_t);
using Narrow = uint16_t (*)(float);

void reduce_halves(Reduction reduction, std::span<void* const> sources, void* result, size_t count,
                   std::vector<float>& wide, Widen widen, Narrow narrow) {
  constexpr size_t block = 4096;  // elements at a time: the rows of all sources stay in the cache
  wide.resize(std::max(wide.size(), block * sources.size()));
  for (size_t from = 0; from < count; from += block) {
    const size_t part = std::min(block, count - from);
    std::vector<float*> rows;
    for (size_t s = 0; s < sources.size(); ++s) {
      const auto* const halves = static_cast<const uint16_t*>(sources[s]) + from;
      float* const row = wide.data() + s * block;
      for (size_t i = 0; i < part; ++i) row[i] = widen(halves[i]);
      rows.push_back(row);
    }
    over_tree<float>(reduction, rows, part);
    auto* const target = static_cast<uint16_t*>(result) + from;
    for (size_t i = 0; i < part; ++i) target[i] = narrow(rows[0][i]);
  }
}

}  // namespace

std::string_view name_of(Reduction reduction) {
  constexpr std::array<std::string_view, 3> names = {"sum", "max", "min"};
  return names[static_cast<size_t>(reduction)];
}

bool can_reduce(DType dtype) { return is_float(dtype) || dtype == DType::i32 || dtype == DType::i64; }

void reduce(Reduction reduction, DType dtype, std::span<void* const> sources, void* result, size_t count,
            std::vector<float>& wide) {
  switch (dtype) {
    case DType::f32:
      return reduce_as<float>(reduction, sources, result, count);
    case DType::f64:
      return reduce_as<double>(reduction, sources, result, count);
    case DType::i32:
      return reduce_as<int32_t>(reduction, sources, result, count);
    case DType::i64:
      return reduce_as<int64_t>(reduction, sources, result, count);
    case DType::f16:
      return reduce_halves(reduction, sources, result, count, wide, f16_to_f32, f32_to_f16);
    case DType::bf16:
      return reduce_halves(reduction, sources, result, count, wide, bf16_to_f32, f32_to_bf16);
    default:
      throw DTypeError("[reduce] there is no sum of " + std::string(heddle::name_of(dtype)));
  }
}

}  // namespace heddle::distributed
