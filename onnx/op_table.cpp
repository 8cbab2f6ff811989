#include "heddle/onnx/op.h"

namespace heddle::onnx {

// What the rows name, declared.
#define HEDDLE_ONNX_OP(op, domain, first, last, attributes, builder) \
  namespace build {                                                  \
  void builder(Call& c);                                             \
  }
#define HEDDLE_ONNX_FOLDED(op, domain, first, last, attributes, builder, folder) \
  HEDDLE_ONNX_OP(op, domain, first, last, attributes, builder)                   \
  namespace fold {                                                               \
  std::vector<HostTensor> folder(const HostCall& c);                             \
  }
#include "heddle/onnx/ops/ops.inc"
#undef HEDDLE_ONNX_OP
#undef HEDDLE_ONNX_FOLDED

namespace {

constexpr Op table[] = {
#define HEDDLE_ONNX_OP(op, domain, first, last, attributes, builder) \
  {#op, domain, first, last, attributes, &build::builder, nullptr},
#define HEDDLE_ONNX_FOLDED(op, domain, first, last, attributes, builder, folder) \
  {#op, domain, first, last, attributes, &build::builder, &fold::folder},
#include "heddle/onnx/ops/ops.inc"
#undef HEDDLE_ONNX_OP
#undef HEDDLE_ONNX_FOLDED
};

}  // namespace

std::span<const Op> op_table() { return table; }

}  // namespace heddle::onnx
