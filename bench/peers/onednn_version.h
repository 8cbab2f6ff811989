// oneDNN 2 describes a primitive by a `desc` and then the engine, oneDNN 3 by the engine and what was in the desc; the
// one place that knows.
//
// Includes nothing of Heddle's: cmake/probes/onednn.cpp compiles it, and the peer is left out where that fails. Thread
// safety: pure functions.
#pragma once

#include <dnnl.hpp>

namespace heddle::bench::onednn {

#if DNNL_VERSION_MAJOR >= 3

using Softmax = dnnl::softmax_forward;

template <class Primitive, class... Rest>
typename Primitive::primitive_desc described(const dnnl::engine& engine, const Rest&... rest) {
  return typename Primitive::primitive_desc(engine, rest...);
}

inline dnnl::layer_normalization_forward::primitive_desc described_layer_normalization(
    const dnnl::engine& engine, const dnnl::memory::desc& rows, float eps, dnnl::normalization_flags flags) {
  return {engine, dnnl::prop_kind::forward_inference, rows, rows, eps, flags};
}

template <class Primitive, class... Rest>
typename Primitive::primitive_desc described_backward(const dnnl::engine& engine,
                                                      const dnnl::convolution_forward::primitive_desc& forward,
                                                      const Rest&... rest) {
  return typename Primitive::primitive_desc(engine, rest..., forward);
}

#else

using Softmax = dnnl::softmax_v2_forward;

template <class Primitive, class... Rest>
typename Primitive::primitive_desc described(const dnnl::engine& engine, const Rest&... rest) {
  return typename Primitive::primitive_desc(typename Primitive::desc(rest...), engine);
}

inline dnnl::layer_normalization_forward::primitive_desc described_layer_normalization(
    const dnnl::engine& engine, const dnnl::memory::desc& rows, float eps, dnnl::normalization_flags flags) {
  return {{dnnl::prop_kind::forward_inference, rows, eps, flags}, engine};
}

template <class Primitive, class... Rest>
typename Primitive::primitive_desc described_backward(const dnnl::engine& engine,
                                                      const dnnl::convolution_forward::primitive_desc& forward,
                                                      const Rest&... rest) {
  return typename Primitive::primitive_desc(typename Primitive::desc(rest...), engine, forward);
}

#endif

}  // namespace heddle::bench::onednn
