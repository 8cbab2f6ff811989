// oneDNN's matmul primitive: transposes as strides, batches as a third dimension.
#include "bench/peers/onednn_common.h"

namespace heddle::bench::onednn {
namespace {

// (batch, rows, columns), stored transposed or not.
Desc matrix(int64_t batch, int64_t rows, int64_t columns, bool transposed, dnnl::memory::data_type type) {
  const int64_t row = transposed ? 1 : columns, column = transposed ? rows : 1;
  if (batch == 1) return Desc({rows, columns}, type, {row, column});
  return Desc({batch, rows, columns}, type, {rows * columns, row, column});
}

}  // namespace

std::optional<PeerCall> matmul(const MatmulShape& s, Bytes a, Bytes b) {
  const auto type = s.dtype == DType::i8 ? std::optional(dnnl::memory::data_type::s8) : data_type(s.dtype);
  if (!type) return std::nullopt;
  const DType result = s.dtype == DType::i8 ? DType::i32 : s.dtype;
  const auto result_type = s.dtype == DType::i8 ? dnnl::memory::data_type::s32 : *type;
  return if_implemented([&]() -> PeerCall {
    const Desc a_desc = matrix(s.batch, s.m, s.k, s.transpose_a, *type),
               b_desc = matrix(s.batch, s.k, s.n, s.transpose_b, *type),
               c_desc = matrix(s.batch, s.m, s.n, false, result_type);
    const auto pd = described<dnnl::matmul>(engine(), a_desc, b_desc, c_desc);
    Prepared p{dnnl::matmul(pd), {}, {a, b}, std::make_shared<std::vector<uint8_t>>(c_desc.get_size()), result};
    p.arguments = {{DNNL_ARG_SRC, memory_of(a_desc, a)},
                   {DNNL_ARG_WEIGHTS, memory_of(b_desc, b)},
                   {DNNL_ARG_DST, memory_of(c_desc, p.out)}};
    return call_of(std::move(p));
  });
}

}  // namespace heddle::bench::onednn
