// References of the rows over packed blocks: unpacked on the host, and summed in double precision.
#include <vector>

#include "heddle/core/op/packed_rows.h"
#include "heddle/core/reference/reference_ops.h"

namespace heddle::reference {
namespace {

std::vector<float> unpacked(const HostArray& blocks, GgmlType type) {
  const GgmlBlock& block = block_of(type);
  const std::vector<uint8_t> bytes(blocks.ints.begin(), blocks.ints.end());
  std::vector<float> values(bytes.size() / block.bytes * block.elements);
  dequantise(type, bytes, values);
  return values;
}

}  // namespace

HostArray packed(const Node& node, Inputs in) {
  HostArray out = blank(node.shape, node.dtype);
  const bool product = node.op != &ops::unpack_blocks_op, gradient = node.op == &ops::matmul_packed_input_grad_op;
  const std::vector<float> values = unpacked(*in[product ? 1 : 0], block_type_of(node.attrs));
  if (!product) {
    out.floats.assign(values.begin(), values.end());
    return out;
  }
  const Shape& x = in[0]->shape;
  const int64_t depth = x[x.rank() - 1], columns = node.shape[node.shape.rank() - 1];
  const auto factor = [&](int64_t n, int64_t k) {
    return values[static_cast<size_t>(gradient ? k * columns + n : n * depth + k)];
  };
  for (int64_t m = 0; m < node.shape.numel() / columns; ++m) {
    for (int64_t n = 0; n < columns; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k) sum += in[0]->floats[static_cast<size_t>(m * depth + k)] * factor(n, k);
      out.floats[static_cast<size_t>(m * columns + n)] = sum;
    }
  }
  return out;
}

}  // namespace heddle::reference
