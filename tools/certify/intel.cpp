// ocloc, with the texts that IGC writes on request.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "heddle/core/base/ascii.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/path.h"
#include "heddle/core/dialect/printer.h"
#include "heddle/io/read_file.h"
#include "tools/certify/compilers.h"
#include "tools/certify/isa.h"
#include "tools/certify/lines.h"
#include "tools/certify/subprogram.h"
#include "tools/find_program.h"

namespace heddle::tools::certify {
namespace {

// The number behind `name` at the head of the text: "//.spill size 640"; 0 where it does not say.
int64_t said(std::string_view text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == std::string_view::npos) return 0;
  std::string_view rest = text.substr(at + name.size(), 20);
  rest = rest.substr(0, rest.find('\n'));
  const auto value = parse_number<int64_t>(std::string(trim(rest)));
  return value ? *value : 0;
}

// Registers that the code names: "r17.0"; of a thread there are 128 all the same.
int registers_named(std::string_view text) {
  int most = 0;
  for (size_t at = text.find(" r"); at != std::string_view::npos; at = text.find(" r", at + 1)) {
    int number = 0;
    size_t digit = at + 2;
    for (; digit < text.size() && is_ascii_digit(text[digit]); ++digit) number = number * 10 + (text[digit] - '0');
    if (digit > at + 2 && digit < text.size() && text[digit] == '.') most = std::max(most, number + 1);
  }
  return std::min(most, 256);
}

// IGC may try several widths; what it kept is the one that it wrote last.
fs::path kept_text(const std::string& folder) {
  fs::path found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".asm") continue;
    if (found.empty() || entry.last_write_time() > fs::last_write_time(found)) found = entry.path();
  }
  return found;
}

// "..._simd16_entry_0001.asm" -> 16
uint32_t lanes_of(const fs::path& file) {
  const std::string name = file.filename().string();
  const size_t at = name.rfind("_simd");
  if (at == std::string::npos) return 8;
  return parse_number<uint32_t>(name.substr(at + 5, name.find('_', at + 5) - at - 5)).value_or(8);
}

class Intel final : public VendorCompiler {
 public:
  std::string absent() override {
    return program().empty() ? "ocloc not found (Debian: intel-opencl-icd, or intel-ocloc where there is one)" : "";
  }
  std::string version() override {
    const Finished run = run_program({program(), "query", "OCL_DRIVER_VERSION"}, scratch_.path());
    const fs::path file = fs::path(scratch_.path()) / "OCL_DRIVER_VERSION";
    const std::string text = run.exit_code == 0 && fs::exists(file) ? read_text_file(file, "certify") : "";
    scratch_.clear();
    return text.empty() ? "ocloc" : fmt::format("ocloc {}", trim(text.substr(0, text.find('\0'))));
  }

  Compiled compile(const KernelSource& source, const GpuFamily& family) override {
    scratch_.clear();
    std::ofstream(scratch_.path() + "/kernel.cl") << print(source, Target::opencl, print_options(family.caps));
    const Finished run = run_program(
        {program(), "compile", "-file", "kernel.cl", "-device", family.arch, "-output", "kernel", "-out_dir", "out"},
        scratch_.path(), {{"IGC_ShaderDumpEnable", "1"}, {"IGC_DumpToCurrentDir", "1"}});
    if (run.exit_code != 0)
      throw CompileError(fmt::format("[compile] ocloc of kernel {} for {} ended with {}: {}", source.name, family.arch,
                                     run.exit_code, headline(run.output)),
                         run.output);
    const fs::path file = kept_text(scratch_.path());
    if (file.empty()) throw DeviceError(fmt::format("[certify] IGC wrote no text of kernel {}", source.name));
    return facts(read_text_file(file, "certify"), lanes_of(file), source, family);
  }

 private:
  static std::string headline(const std::string& log) {
    const size_t at = log.find("error");
    const size_t from = at == std::string::npos ? 0 : log.rfind('\n', at) + 1;
    return log.substr(from, std::min<size_t>(200, log.find('\n', from) - from));
  }

  static Compiled facts(const std::string& text, uint32_t lanes, const KernelSource& source, const GpuFamily& family) {
    Compiled made;
    made.lanes = lanes;
    made.registers = registers_named(text);
    made.spill_bytes = said(text, "//.spill size");
    made.shared_bytes = static_cast<int64_t>(shared_bytes(source));
    const double threads = std::max(1.0, static_cast<double>((group_lanes(source) + lanes - 1) / lanes));
    const UnitRates& unit = family.rates;
    // A group lies on all EUs that share the memory, so that an EU holds a part of it.
    made.occupancy =
        made.shared_bytes == 0
            ? 1
            : std::min(1.0, unit.shared_total / static_cast<double>(made.shared_bytes) * threads / unit.max_subgroups);
    made.code = parse_gen(text);
    return made;
  }

  const std::string& program() {
    if (program_.empty()) program_ = find_program("ocloc");
    return program_;
  }

  ScratchFolder scratch_;
  std::string program_;
};

}  // namespace

std::unique_ptr<VendorCompiler> intel_compiler() { return std::make_unique<Intel>(); }

std::unique_ptr<VendorCompiler> vendor_compiler(Vendor vendor) {
  switch (vendor) {
    case Vendor::nvidia:
      return nvidia_compiler();
    case Vendor::amd:
      return amd_compiler();
    case Vendor::intel:
      return intel_compiler();
  }
  return nullptr;
}

}  // namespace heddle::tools::certify
