// ONNX's element types below 16 bits that Heddle has no dtype for: floats of 4 and 8 bits, integers of 2 and 4.
//
// Purpose: floats are held in f32, which has all their values; integers in the next wider 8 bits. Files pack elements
// below 8 bits, the first in the lowest bits; a HostTensor has a byte for each, as these functions unpack and pack
// them. Formats: Micikevicius et al. 2022, "FP8 formats for deep learning" (E4M3, E5M2); ONNX, "Float stored in 8 bits"
// (the fnuz kinds: no infinity, one zero); OCP Microscaling Formats 1.0 (E2M1). Errors: none; types are checked by
// callers. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "heddle/core/graph/tensor.h"
#include "heddle/onnx/types.h"

namespace heddle::onnx {

bool is_narrow_float(Type type);
// The largest finite value.
double largest(Type narrow_float);
double narrow_value(Type narrow_float, uint8_t bits);
// Rounded to the nearest, ties to even; beyond the largest: infinity where the type has one, else NaN; E2M1, which has
// neither: its largest.
uint8_t narrow_bits(Type narrow_float, double value);
// The same for a tensor, f32 or f64, as f32; `saturate`: the largest in place of infinity and NaN for what lies beyond.
Tensor narrowed(const Tensor& x, Type narrow_float, bool saturate);

// Bytes that a file has for so many elements of any held type.
uint64_t bytes_in_file(Type type, uint64_t elements);
// Between a file's bytes and a byte for each element; themselves for types of whole bytes.
std::string unpacked(Type type, std::string_view bytes, size_t elements);
std::string packed(Type type, std::string_view elements);

}  // namespace heddle::onnx
