// Positions of sequences: rotary embedding, attention with linear biases, sines.
//
// Purpose: what transformers add to, or turn, their inputs by. Tables are computed in f32 (f64 for f64). Errors:
// ShapeError, DTypeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include <cstdint>

#include "heddle/core/graph/tensor.h"

namespace heddle {

struct RotaryOptions {
  double base = 10000;
  Tensor positions;          // (T), or what broadcasts to the axes before D; undefined: 0, 1, 2, ...
  bool interleaved = false;  // pairs are neighbours (2i, 2i + 1), as in the paper; else (i, i + d / 2), as in LLaMA
  int64_t dims = 0;          // the first d elements of D are turned; 0: all. Even
};
// x (..., T, D), each pair i of elements turned by the angle position base^(-2i / d). Su et al., "RoFormer", 2021.
Tensor rotary_embedding(const Tensor& x, const RotaryOptions& options = {}, Caller caller = Caller::current());
// (heads, queries, keys) f32: -m_h |q + keys - queries - k|, a bias of attention scores; m is 2^(-8 h / heads) for h =
// 1, 2, ... (for heads that are no power of two as in the paper). Press et al., "Train short, test long", 2022.
Tensor alibi_bias(int64_t heads, int64_t queries, int64_t keys, DeviceContext* device = nullptr,
                  Caller caller = Caller::current());
// (length, width) f32: sin and cos, in turns, of position base^(-2i / width). Vaswani et al., "Attention is all you
// need", 2017.
Tensor sinusoidal_positions(int64_t length, int64_t width, double base = 10000, DeviceContext* device = nullptr,
                            Caller caller = Caller::current());

}  // namespace heddle
