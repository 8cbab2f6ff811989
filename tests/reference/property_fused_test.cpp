// Fused against unfused: the first case of a function, with gradients, as one step and operation by operation, on a
// device with kernels.
#include "heddle/core/device/context.h"
#include "heddle/core/op/op.h"
#include "tests/reference/property.h"
#include "tests/support/devices.h"

namespace heddle::tests {
namespace {

// Where kernels compile fastest.
const std::string& kernel_device() {
  static const std::string id = [] {
    const std::vector<std::string> all = test::kernel_devices();
    for (const std::string& each : all) {
      if (each.starts_with("vulkan")) return each;
    }
    return all.empty() ? std::string() : all[0];
  }();
  return id;
}

Verdict unfused_is_fused(const StoredCase& stored) {
  if (kernel_device().empty() || &stored != &stored_cases().at(stored.op)[0]) return not_applicable;
  if (find_op(stored.op) != nullptr) return not_applicable;  // a row is one kernel either way
  const Subject s(stored, DType::f32, kernel_device());
  eval(s.inputs);
  List fused = s.outputs_and_gradients(s.inputs);
  eval(fused);
  const EagerScope eager;
  return list_difference(s.outputs_and_gradients(s.inputs), fused, 2e-6);
}

HEDDLE_PROPERTY(UnfusedIsFused, unfused_is_fused);

}  // namespace
}  // namespace heddle::tests
