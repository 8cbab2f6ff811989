// Machine code of CPU drivers: everything that kernels rely on is inlined into their loops, multiply-adds are
// instructions on whole vectors, what products sum stays in registers, and long results are stored past the caches. A
// compiler that keeps a driver's own functions as calls gives the same values 3 to 19 times slower (PoCL 6 with LLVM
// 18), which no test of values sees. Instructions are counted, no time is measured; a driver whose binaries hold no
// code of this machine is skipped.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/heddle.h"
#ifdef HEDDLE_HAS_OPENCL
#include "heddle/backend_opencl/program.h"
#include "heddle/core/compile/dump.h"
#include "heddle/core/contract/kernel_compiler.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/run/full_plan.h"
#include "heddle/core/tiles/cpu_registers.h"

namespace heddle {
namespace {

struct Instruction {
  uint64_t address = 0;
  std::string text;  // "call   1010 <memset@plt>"
};

// From the target of a jump backwards to the jump.
struct Loop {
  uint64_t first = 0, last = 0;
  bool holds(uint64_t address) const { return first <= address && address <= last; }
};

// The lines of `objdump -d --no-show-raw-insn`: "    1010:\tcall   1030 <name>".
std::vector<Instruction> parse(const std::string& listing) {
  std::vector<Instruction> code;
  std::istringstream lines(listing);
  for (std::string line; std::getline(lines, line);) {
    const size_t tab = line.find(":\t");
    if (tab != std::string::npos) code.push_back({std::strtoull(line.c_str(), nullptr, 16), line.substr(tab + 2)});
  }
  return code;
}

std::vector<Loop> loops_of(const std::vector<Instruction>& code) {
  std::vector<Loop> loops;
  for (const Instruction& i : code) {
    if (i.text[0] != 'j') continue;
    const uint64_t target = std::strtoull(i.text.c_str() + i.text.find(' '), nullptr, 16);
    if (target != 0 && target <= i.address) loops.push_back({target, i.address});
  }
  return loops;
}

// What a compiler makes of filling or copying a whole array; and PoCL's own call of a kernel's body for each group.
bool allowed(const std::string& call) {
  for (const char* name : {"<memset@plt>", "<memcpy@plt>", "<memmove@plt>", "<_pocl_kernel_"}) {
    if (call.find(name) != std::string::npos) return true;
  }
  return false;
}

std::string calls_in_loops(const std::vector<Instruction>& code) {
  const std::vector<Loop> loops = loops_of(code);
  std::string calls;
  for (const Instruction& i : code) {
    const bool inside = std::any_of(loops.begin(), loops.end(), [&](const Loop& l) { return l.holds(i.address); });
    if (inside && i.text.starts_with("call") && !allowed(i.text)) calls += i.text + "\n";
  }
  return calls;
}

// Of a loop without a loop inside: multiply-adds of whole vectors, and whole vectors stored to the stack.
struct Innermost {
  int fused = 0, spilled = 0;
  bool operator<(const Innermost& other) const { return fused < other.fused; }
};

// "vmovaps %ymm3,0x80(%rsp)": what registers do not hold.
bool is_spill(const std::string& text) {
  return text.starts_with("vmov") && (text.ends_with("(%rsp)") || text.ends_with("(%rbp)"));
}

Innermost counts_of(const std::vector<Instruction>& code, const Loop& loop) {
  Innermost counts;
  for (const Instruction& i : code) {
    const bool vector = i.text.find("%ymm") != std::string::npos || i.text.find("%zmm") != std::string::npos;
    if (!loop.holds(i.address) || !vector) continue;
    counts.fused += i.text.starts_with("vfm") || i.text.starts_with("vfnm");
    counts.spilled += is_spill(i.text);
  }
  return counts;
}

// The one with most multiply-adds.
Innermost busiest_loop(const std::vector<Instruction>& code) {
  const std::vector<Loop> loops = loops_of(code);
  Innermost most;
  for (const Loop& loop : loops) {
    const auto inside = [&](const Loop& l) { return loop.holds(l.first) && l.last < loop.last; };
    if (std::any_of(loops.begin(), loops.end(), inside)) continue;
    most = std::max(most, counts_of(code, loop));
  }
  return most;
}

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen(command.c_str(), "r");
  char part[4096];
  while (pipe && std::fgets(part, sizeof part, pipe)) text += part;
  if (pipe) ::pclose(pipe);
  return text;
}

int count(const std::vector<Instruction>& code, const char* prefix) {
  const auto starts = [&](const Instruction& i) { return i.text.starts_with(prefix); };
  return static_cast<int>(std::count_if(code.begin(), code.end(), starts));
}

// The shared objects that a program's binary holds, one listing each: PoCL's binaries are its folder of files.
std::vector<std::vector<Instruction>> disassemble(const std::vector<unsigned char>& binary) {
  static const char magic[] = "\177ELF\2\1\1";
  const std::string bytes(binary.begin(), binary.end());
  const std::string name = "heddle_machine_code_" + std::to_string(::getpid()) + ".so";
  const std::string path = std::filesystem::temp_directory_path() / name;
  std::vector<std::vector<Instruction>> objects;
  for (size_t at = bytes.find(magic); at != std::string::npos; at = bytes.find(magic, at + 1)) {
    if (at + 18 > bytes.size() || bytes[at + 16] != 3) continue;  // ET_DYN
    std::ofstream(path, std::ios::binary).write(bytes.data() + at, static_cast<std::streamsize>(bytes.size() - at));
    objects.push_back(parse(output_of("objdump -d --no-show-raw-insn " + path + " 2> /dev/null")));
  }
  std::filesystem::remove(path);
  return objects;
}

class MachineCode : public testing::Test {
 protected:
  void SetUp() override {
#ifndef __x86_64__
    GTEST_SKIP() << "reads the instructions of x86-64";
#else
    if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("avx2")) GTEST_SKIP() << "no fused multiply-add";
#endif
    if (std::system("command -v objdump > /dev/null 2>&1") != 0)
      GTEST_SKIP() << "objdump (package binutils) is not installed";
    try {
      device_ = &device("opencl:0");
    } catch (const DeviceUnavailable& e) {
      GTEST_SKIP() << e.what();
    }
    if (device_->caps().device_class != DeviceClass::cpu) GTEST_SKIP() << "opencl:0 is no CPU driver";
  }

  // The machine code of every kernel that computes what this thread holds pending.
  std::vector<std::vector<Instruction>> code_of_pending() {
    const opencl::Found& found = opencl::find_devices(nullptr).front();  // opencl:0
    cl_int status = CL_SUCCESS;
    cl_context context = opencl::cl().CreateContext(nullptr, 1, &found.device, nullptr, nullptr, &status);
    EXPECT_EQ(status, CL_SUCCESS);
    opencl::ProgramBuilder builder(context, found);
    std::vector<std::vector<Instruction>> all;
    for (const LoweredKernel& kernel : plan_pending_in_full().plan.kernels) {
      cl_program program = builder.build(compile_kernel(kernel.source, device_->caps()));
      for (auto& object : disassemble(binary_of(program))) all.push_back(std::move(object));
      opencl::cl().ReleaseProgram(program);
    }
    opencl::cl().ReleaseContext(context);
    return all;
  }

  static std::vector<unsigned char> binary_of(cl_program program) {
    size_t bytes = 0;
    EXPECT_EQ(opencl::cl().GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, nullptr), CL_SUCCESS);
    std::vector<unsigned char> binary(bytes);
    unsigned char* target = binary.data();
    EXPECT_EQ(opencl::cl().GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof target, &target, nullptr), CL_SUCCESS);
    return binary;
  }

  // Of `sums` of a vector each, those that this core's registers hold.
  int held(int sums) const { return std::min(sums, static_cast<int>(register_sums(device_->caps()))); }

  // A leaf: what computes it is no part of what is pending.
  Tensor array(const Shape& shape, DType dtype = DType::f32) const {
    Tensor tensor = full(shape, 0.25, dtype, device_).detach();
    eval({tensor});
    return tensor;
  }

  struct Expected {
    int fused = 0;              // multiply-adds of vectors in one of the innermost loops, or more
    bool in_registers = false;  // what they make stays there: a compiler stores one in eight at most
    int streamed = 0;           // stores past the caches, or more
  };

  // The machine code is as expected, and no loop has a call.
  void check(const char* what, const std::function<Tensor()>& expression, const Expected& expected) {
    SCOPED_TRACE(what);
    const Tensor pending = expression();
    const auto objects = code_of_pending();
    if (objects.empty()) GTEST_SKIP() << "the driver's binaries hold no shared objects";
    Innermost most;
    int stores = 0;
    for (const auto& code : objects) {
      EXPECT_GT(code.size(), 10u);
      stores += count(code, "vmovnt");
      EXPECT_EQ(calls_in_loops(code), "");
      most = std::max(most, busiest_loop(code));
    }
    EXPECT_GE(most.fused, expected.fused);
    if (expected.in_registers) EXPECT_LE(8 * most.spilled, most.fused);
    EXPECT_GE(stores, expected.streamed);
  }

  DeviceContext* device_ = nullptr;
};

// A loader takes the driver's own program as it takes text.
TEST_F(MachineCode, IsLoadedAsAProgram) {
  KernelSource source;
  source.name = "three";
  source.buffers = {{"x", DType::f32, Access::read}, {"y", DType::f32, Access::write}};
  source.body = "STORE(y, 0, 3.0f * LOAD(x, 0));\n";
  KernelBinary binary = compile_kernel(source, device_->caps());
  const opencl::Found& found = opencl::find_devices(nullptr).front();
  cl_int status = CL_SUCCESS;
  cl_context context = opencl::cl().CreateContext(nullptr, 1, &found.device, nullptr, nullptr, &status);
  ASSERT_EQ(status, CL_SUCCESS);
  cl_program program = opencl::ProgramBuilder(context, found).build(binary);
  binary.kind = KernelBinary::Kind::opencl_program;
  binary.bytes = binary_of(program);
  opencl::cl().ReleaseProgram(program);
  opencl::cl().ReleaseContext(context);

  auto locked = device_->lock();
  Device& raw = locked.device;
  const KernelBinary* const binaries[] = {&binary};
  const KernelId kernel = raw.load_all(binaries).front();
  const BufferId x = raw.alloc(4), y = raw.alloc(4);
  const float two = 2;
  raw.write(x, 0, &two, 4);
  const Command run[] = {Dispatch{kernel, {1, 1, 1}, {{x, 0, 4}, {y, 0, 4}}, {}}};
  const RecordingId recording = raw.record(run, false);
  raw.submit(recording);
  float six = 0;
  raw.read(y, 0, &six, 4);
  EXPECT_EQ(six, 6);
  raw.release(recording);
  raw.release(kernel);
  raw.free(x);
  raw.free(y);
  binary.bytes.assign(4096, 'n');
  EXPECT_THROW(raw.load_all(binaries), CompileError);
}

TEST_F(MachineCode, Products) {
  const Tensor a = array({512, 512}), h = array({512, 512}, DType::f16);
  // 6 rows by 4 vectors, or as many of them as registers hold.
  check("f32", [&] { return matmul(a, a); }, {.fused = held(24), .in_registers = true});
  check("f16, turned", [&] { return matmul(transpose(h), transpose(h)); }, {.fused = held(16), .in_registers = true});
}

TEST_F(MachineCode, Convolutions) {
  const Tensor x = array({1, 64, 28, 28}), w = array({64, 64, 3, 3}), pointwise = array({64, 64, 1, 1});
  check("3 x 3", [&] { return conv2d(x, w, {.padding = {1, 1, 1, 1}}); }, {.fused = held(16), .in_registers = true});
  check("1 x 1", [&] { return conv2d(x, pointwise); }, {.fused = held(24), .in_registers = true});
}

TEST_F(MachineCode, Rows) {
  const Tensor x = array({64, 1024});
  check("softmax", [&] { return softmax(x, -1); }, {.fused = 5});
  check("layer norm", [&] { return layer_norm(x, {1024}); }, {});
}

TEST_F(MachineCode, Attention) {
  const Tensor q = array({1, 4, 128, 64});
  check("attention", [&] { return scaled_dot_product_attention(q, q, q, {.causal = true}); },
        {.fused = 8, .in_registers = true});
}

TEST_F(MachineCode, Elementwise) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Tensor x = array({65536}, dtype);
    SCOPED_TRACE(name_of(dtype));
    check("exp, tanh, log", [&] { return exp(x) + tanh(x) * log(abs(x)); }, {.fused = 10});
    check("rounding", [&] { return floor(x) + ceil(x) + trunc(x) + round(x); }, {});
    check("sqrt, rsqrt, erf", [&] { return sqrt(x) + rsqrt(x) + erf(x); }, {.fused = 8});
    check("sin", [&] { return sin(x); }, {.fused = 4});
  }
}

TEST_F(MachineCode, Turned) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
    const Tensor x = array({4096, 4096}, dtype);
    SCOPED_TRACE(name_of(dtype));
    check("transposition", [&] { return -transpose(x); }, {.streamed = 1});
  }
}

}  // namespace
}  // namespace heddle
#endif
