// oneDNN 2 or 3, as bench/peers/onednn_*.cpp use it.
#include "bench/peers/onednn_version.h"

using namespace heddle::bench::onednn;

int main() {
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const auto f32 = dnnl::memory::data_type::f32;
  const dnnl::memory::desc matrix({2, 2}, f32, {2, 1}), image({1, 1, 2, 2}, f32, dnnl::memory::format_tag::any);
  const dnnl::memory::dims one{1, 1}, none{0, 0};
  const auto inference = dnnl::prop_kind::forward_inference;
  const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
  dnnl::matmul product(described<dnnl::matmul>(engine, matrix, matrix, matrix));
  Softmax softmax(described<Softmax>(engine, inference, dnnl::algorithm::softmax_accurate, matrix, matrix, 1));
  dnnl::layer_normalization_forward layer(described_layer_normalization(engine, matrix, 1e-5f, flags));
  const auto direct = dnnl::algorithm::convolution_direct;
  const auto forward = described<dnnl::convolution_forward>(engine, dnnl::prop_kind::forward_training, direct, image,
                                                            image, image, one, none, none);
  dnnl::convolution_backward_data data(described_backward<dnnl::convolution_backward_data>(
      engine, forward, direct, image, image, image, one, none, none));
  dnnl::convolution_backward_weights weights(described_backward<dnnl::convolution_backward_weights>(
      engine, forward, direct, image, image, image, one, none, none));
  return DNNL_ARG_SCALE + DNNL_ARG_SHIFT == 0;
}
