// NVRTC and nvdisasm.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "heddle/core/base/error.h"
#include "tools/certify/compilers.h"
#include "tools/certify/isa.h"
#include "tools/certify/subprogram.h"
#include "tools/kernel_binary.h"

namespace heddle::tools::certify {
namespace {

std::vector<std::string> toolkit_folders() {
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* folder = std::getenv(variable)) folders.push_back(std::string(folder) + "/bin");
  }
  folders.push_back("/usr/local/cuda/bin");
  return folders;
}

// Registers are given to subgroups in units of 256; a group takes 1 KiB of shared memory for the system since sm_80.
double occupancy_of(const UnitRates& unit, uint32_t sm, int registers, int64_t shared, uint32_t group) {
  const double subgroups = std::max(1.0, static_cast<double>((group + 31) / 32));
  const double step = unit.register_step;
  const double each =
      std::max(step, step * static_cast<double>((registers + static_cast<int>(step) - 1) / static_cast<int>(step))) *
      32;
  const double by_registers = static_cast<double>(static_cast<int>(unit.registers / 4 / each)) * 4;
  double groups = std::min(static_cast<double>(static_cast<int>(by_registers / subgroups)),
                           static_cast<double>(static_cast<int>(unit.max_subgroups / subgroups)));
  if (shared > 0)
    groups = std::min(
        groups,
        static_cast<double>(static_cast<int>(unit.shared_total / static_cast<double>(shared + (sm >= 80 ? 1024 : 0)))));
  return std::min(groups, unit.max_groups) * subgroups / unit.max_subgroups;
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
    made.occupancy = occupancy_of(family.rates, family.caps.architecture, r.registers, r.shared_bytes,
                                  source.group[0] * source.group[1] * source.group[2]);
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
