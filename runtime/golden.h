// Golden: inputs of a model and the outputs that a named device gave, a part of kind `golden` in a `.heddle` file.
//
// Purpose: whoever loads the file runs the inputs and compares, so that a driver that computes something else is
// noticed before anybody uses its values. Invariants: values lie dense in their dtype; outputs are finite or both are
// not. Integers and bools must be equal; floats may differ by golden_tolerance() of the larger of the value and the
// output's largest one. Errors: IoError "[golden] ..." of bytes that are none. Thread safety: plain values, pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/base/dtype.h"

namespace heddle {

struct Golden {
  struct Value {
    std::string name;
    DType dtype = DType::f32;
    std::vector<int64_t> shape;
    std::vector<uint8_t> bytes;
  };
  std::string device;  // that gave the outputs: "reference:0"
  uint64_t seed = 0;   // of the inputs
  std::vector<Value> inputs, outputs;
};

std::vector<uint8_t> golden_bytes(const Golden& golden);
Golden golden_from_bytes(std::span<const uint8_t> bytes);

// Relative; 0 for integers and bools.
double golden_tolerance(DType dtype);
// Where values of an output differ by more than that: "output scores[17] is 0.25, reference:0 gave 0.75 (...)"; ""
// where they agree. `values`: as many bytes as the output has.
std::string golden_difference(const Golden& golden, const Golden::Value& wanted, std::span<const uint8_t> values);

// Bytes of so many elements; nothing for a shape with negative sizes or more than fit 63 bits.
std::optional<uint64_t> dense_bytes(DType dtype, std::span<const int64_t> shape);

}  // namespace heddle
