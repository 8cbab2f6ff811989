// Sizes that a caller or a file gives, looked at before anything is made of them.
//
// Purpose: products of a few sizes fit 64 bits, and what cannot be meant is refused in the name of the layer or model.
// Errors: ValueError. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "heddle/core/graph/tensor.h"

namespace heddle::nn {

constexpr int64_t most_size = (int64_t{1} << 31) - 1;  // of one size
constexpr int64_t most_elements = int64_t{1} << 40;    // of one parameter
constexpr int64_t most_layers = 10'000;                // and blocks, of one model
constexpr int64_t most_rows = int64_t{1} << 20;        // of a batch that a list on the host has an entry for each of

// `value` unless it is outside of [least, most]: "[Vit] width is -1; expected 1 to 2147483647".
int64_t checked_size(const char* who, const char* what, int64_t value, int64_t most = most_size, int64_t least = 1);
struct NamedSize {
  const char* what;
  int64_t value;
};
void check_sizes(const char* who, std::initializer_list<NamedSize> sizes);
// The shape of a parameter.
Shape parameter_shape(const char* who, std::initializer_list<int64_t> sizes);
Shape parameter_shape(const char* who, std::span<const int64_t> sizes);
// How many updates a state says: one number, 0 to 2^53.
int64_t count_of_updates(const char* who, const Tensor& saved);

}  // namespace heddle::nn
