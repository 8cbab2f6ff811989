// NVRTC and nvdisasm.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "heddle/core/base/error.h"
#include "heddle/core/base/system/machine.h"
#include "tools/certify/compilers.h"
#include "tools/certify/isa.h"
#include "tools/certify/model.h"
#include "tools/certify/subprogram.h"
#include "tools/find_program.h"
#include "tools/kernel_binary.h"

namespace heddle::tools::certify {
namespace {

std::vector<std::string> toolkit_folders() {
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const std::optional<std::string> folder = os::variable(variable)) folders.push_back(*folder + "/bin");
  }
  folders.push_back("/usr/local/cuda/bin");
  return folders;
}

class Nvidia final : public VendorCompiler {
 public:
  std::string absent() override { return cuda_compiler_state().absent; }
  std::string version() override { return cuda_compiler_state().version; }
  std::string incomplete() override {
    return disassembler().empty() ? "nvdisasm not found (PyPI: nvidia-cuda-nvdisasm): no instructions are counted" : "";
  }

  Compiled compile(const KernelSource& source, const GpuFamily& family) override {
    const Resources r = resources_of(source, static_cast<int>(family.caps.architecture), print_options(family.caps));
    Compiled made;
    made.registers = r.registers;
    made.spill_bytes = std::max(r.spill_stores, r.spill_loads);
    made.shared_bytes = r.shared_bytes;
    made.occupancy = occupancy_of(family, r.registers, r.shared_bytes, group_lanes(source), made.lanes);
    if (!disassembler().empty()) made.code = disassembled(r.code, source.name);
    return made;
  }

 private:
  const std::string& disassembler() {
    if (!searched_) disassembler_ = find_program("nvdisasm", toolkit_folders());
    searched_ = true;
    return disassembler_;
  }

  Listing disassembled(const std::string& cubin, const std::string& name) {
    const std::string file = scratch_.path() + "/kernel.cubin";
    std::ofstream(file, std::ios::binary) << cubin;
    const Finished run = run_program({disassembler(), file}, scratch_.path());
    if (run.exit_code != 0)
      throw DeviceError(
          fmt::format("[certify] nvdisasm of {} ended with {}: {}", name, run.exit_code, run.output.substr(0, 200)));
    return parse_sass(run.output);
  }

  ScratchFolder scratch_;
  std::string disassembler_;
  bool searched_ = false;
};

}  // namespace

std::unique_ptr<VendorCompiler> nvidia_compiler() { return std::make_unique<Nvidia>(); }

}  // namespace heddle::tools::certify
