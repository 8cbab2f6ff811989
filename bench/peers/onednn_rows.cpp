// oneDNN's softmax and layer normalisation over the last axis.
#include "bench/peers/onednn_common.h"

namespace heddle::bench::onednn {

std::optional<PeerCall> softmax(int64_t rows, int64_t columns, DType dtype, Bytes x) {
  const auto type = data_type(dtype);
  if (!type) return std::nullopt;
  return if_implemented([&]() -> PeerCall {
    const Desc desc({rows, columns}, *type, {columns, 1});
    const auto pd = described<Softmax>(engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::softmax_accurate,
                                       desc, desc, 1);
    Prepared p{Softmax(pd), {}, {x}, std::make_shared<std::vector<uint8_t>>(desc.get_size()), dtype};
    p.arguments = {{DNNL_ARG_SRC, memory_of(desc, x)}, {DNNL_ARG_DST, memory_of(desc, p.out)}};
    return call_of(std::move(p));
  });
}

std::optional<PeerCall> layernorm(int64_t rows, int64_t columns, DType dtype, Bytes x, Bytes scale, Bytes shift,
                                  float eps) {
  const auto type = data_type(dtype);
  if (!type) return std::nullopt;
  return if_implemented([&]() -> PeerCall {
    const Desc desc({rows, columns}, *type, {columns, 1}), row({columns}, dnnl::memory::data_type::f32, {1});
    const auto flags = dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;
    const auto pd = described_layer_normalization(engine(), desc, eps, flags);
    Prepared p{dnnl::layer_normalization_forward(pd),
               {},
               {x, scale, shift},
               std::make_shared<std::vector<uint8_t>>(desc.get_size()),
               dtype};
    p.arguments = {{DNNL_ARG_SRC, memory_of(desc, x)},
                   {DNNL_ARG_SCALE, memory_of(row, scale)},
                   {DNNL_ARG_SHIFT, memory_of(row, shift)},
                   {DNNL_ARG_DST, memory_of(desc, p.out)}};
    return call_of(std::move(p));
  });
}

}  // namespace heddle::bench::onednn
