// Plug-ins that must not load; BROKEN chooses how: 1 another ABI, 2 no entry point, 3 throws, 4 takes a built-in's
// name, 5 breaks the rule that enumerate() never throws.
#include <stdexcept>

#include "heddle/core/contract/device.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"

namespace {

class BadBackend final : public heddle::Backend {
 public:
  std::string_view name() const override { return BROKEN == 4 ? "reference" : "moody"; }
  std::vector<heddle::DeviceInfo> enumerate() override { throw std::runtime_error("moody today"); }
  std::unique_ptr<heddle::Device> open(int) override { return nullptr; }
};

}  // namespace

extern "C" int heddle_backend_abi() {
  return BROKEN == 1 ? heddle::backend_abi_version + 1 : heddle::backend_abi_version;
}

#if BROKEN != 2
extern "C" void heddle_register_backend(heddle::Registry& registry) {
  if (BROKEN == 3) throw std::runtime_error("no licence file");
  registry.add(std::make_unique<BadBackend>());
}
#endif
