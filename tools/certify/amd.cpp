// Mesa's RADV on null hardware, in worker processes (radv_worker.h).
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "heddle/core/base/error.h"
#include "tools/certify/compilers.h"
#include "tools/certify/isa.h"
#include "tools/certify/model.h"
#include "tools/cli.h"
#include "tools/kernel_binary.h"
#include "tools/worker_process.h"

namespace heddle::tools::certify {
namespace {

bool never() { return false; }

constexpr double seconds_to_start = 600, seconds_to_compile = 600;

// One family's; started again after it died.
class Radv {
 public:
  explicit Radv(std::string family) : family_(std::move(family)) {}

  // Empty when the driver is there; else why not.
  const std::string& start() {
    if (process_ && process_->alive()) return absent_;
    for (const std::string& name : names()) {
      absent_ = started_as(name);
      if (absent_.empty()) break;
    }
    return absent_;
  }

  const std::string& version() const { return version_; }

  Json compile(const Json& request, const std::string& name) {
    if (!start().empty()) throw DeviceUnavailable("[certify] " + absent_);
    std::string line;
    const WorkerProcess::Answer how = process_->ask(request.dump(), seconds_to_compile, line, never);
    if (how == WorkerProcess::Answer::timeout)
      throw CompileError(fmt::format("[compile] RADV took longer than {} s for {}", seconds_to_compile, name), "");
    if (how != WorkerProcess::Answer::line)
      throw CompileError(fmt::format("[compile] RADV died of {}: {}", name, process_->end()), "");
    Json answer = Json::parse(line);
    if (answer.contains("error")) throw CompileError(answer["error"].get<std::string>(), "");
    return answer;
  }

 private:
  // Mesa 25 calls the chip what 22 calls its instruction set.
  std::vector<std::string> names() const {
    if (family_ == "gfx1100") return {family_, "navi31"};
    return {family_};
  }

  // Why it did not start; else empty.
  std::string started_as(const std::string& name) {
    process_ = std::make_unique<WorkerProcess>(std::vector<std::string>{"certify", "--worker", name}, false);
    std::string line;
    // The worker says that it is there before it reads; an empty line is no request.
    if (process_->ask("", seconds_to_start, line, never) != WorkerProcess::Answer::line)
      return "RADV's process ended: " + process_->end();
    const Json said = Json::parse(line, nullptr, false);
    if (said.is_discarded()) return "RADV's process said: " + line;
    version_ = said.value("ready", "");
    return said.value("error", "");
  }

  std::string family_, absent_, version_;
  std::unique_ptr<WorkerProcess> process_;
};

class Amd final : public VendorCompiler {
 public:
  std::string absent() override {
    const std::string glsl = glsl_compiler_state().absent;
    return glsl.empty() ? radv("navi21").start() : glsl;
  }
  // Without the name of the family.
  std::string version() override {
    const std::string& whole = radv("navi21").version();
    return whole.substr(0, whole.find(','));
  }

  Compiled compile(const KernelSource& source, const GpuFamily& family) override {
    const PrintOptions options = print_options(family.caps);
    const Json answer = radv(family.arch)
                            .compile({{"spirv", spirv_of(source, options)},
                                      {"bindings", source.buffers.size()},
                                      {"constant_bytes", source.constants.size() * sizeof(uint32_t)}},
                                     source.name);
    const Json& s = answer.at("statistics");
    const auto number = [&](const char* name) { return s.value(name, int64_t{0}); };
    Compiled made;
    made.lanes = family.compiled_lanes;
    made.registers = static_cast<int>(number("VGPRs"));
    // Scalars are spilled to vector registers, and count where those do not suffice; scratch is all that reaches
    // memory.
    made.spill_bytes = std::max(number("Spilled VGPRs") * 4, number("Scratch size"));
    made.shared_bytes = number("LDS size");
    // Mesa 22.3's own figure, "Subgroups per SIMD", counts subgroups of 32 lanes on RDNA for code of 64.
    made.occupancy = occupancy_of(family, made.registers, made.shared_bytes, group_lanes(source), made.lanes);
    made.code = parse_gcn(answer.at("isa").get<std::string>(), made.lanes);
    return made;
  }

 private:
  Radv& radv(const std::string& family) { return workers_.try_emplace(family, family).first->second; }

  std::map<std::string, Radv> workers_;
};

}  // namespace

std::unique_ptr<VendorCompiler> amd_compiler() { return std::make_unique<Amd>(); }

}  // namespace heddle::tools::certify
