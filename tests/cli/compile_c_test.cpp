// heddle compile --targets c: what is written compiles without a warning, and computes the golden vectors of the
// reference device, and what a program of one's own asks of it.
#include <algorithm>
#include <cmath>

#include "heddle/core/base/path.h"
#include "tests/cli/command_test.h"
#include "tests/cli/user_error.h"
#include "tests/onnx/wire.h"

namespace heddle {
namespace {

using namespace tests;  // NOLINT: the writers of ONNX's messages
using test::contains;
using test::Finished;
using test::run_program;

constexpr int uint8_type = 2, int8_type = 3, int32_type = 6;  // TensorProto.DataType

class CompileC : public test::CommandTest {
 protected:
  void SetUp() override {
    if (contains(test::run_heddle({"import", "none.onnx"}).err, "reads no ONNX"))
      GTEST_SKIP() << "built without protobuf";
    if (run_program({"/usr/bin/env", "cc", "--version"}).exit_code != 0) GTEST_SKIP() << "no C compiler";
  }
  static std::vector<float> values(size_t count, float step) {
    std::vector<float> made(count);
    for (size_t i = 0; i < count; ++i) made[i] = std::sin(static_cast<float>(i) * step);
    return made;
  }
  static Wire weight(const std::string& name, const std::vector<int64_t>& dims, float step) {
    size_t count = 1;
    for (const int64_t size : dims) count *= static_cast<size_t>(size);
    return tensor(name, f32, dims, values(count, step));
  }
  // Every .c file of the folder but main.c, and `main`, as a program; what it prints.
  std::string run_c(const std::string& sources, const std::string& main, const std::string& level = "-O2") {
    const std::string program = folder / "program";
    std::vector<std::string> command{"/usr/bin/env", "cc",  "-std=c99",     "-Wall", "-Wextra", "-Werror",
                                     "-pedantic",    level, "-I" + sources, "-o",    program,   main};
    for (const auto& file : fs::directory_iterator(sources)) {
      if (file.path().extension() == ".c" && file.path().filename() != "main.c") command.push_back(file.path());
    }
    command.emplace_back("-lm");
    const Finished compiled = run_program(command);
    EXPECT_EQ(compiled.exit_code, 0) << compiled.err;
    EXPECT_EQ(compiled.err, "");
    const Finished run = run_program({program});
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    return run.out;
  }
  // Compiles the model; golden vectors agree at two levels of optimisation. Gives the folder.
  std::string agrees(const std::string& name, const std::string& bytes, std::vector<std::string> more = {}) {
    SCOPED_TRACE(name);
    const std::string net = write(name + ".onnx", bytes), sources = folder / name;
    std::vector<std::string> command{"compile", net, "--targets", "c", "-o", sources};
    command.insert(command.end(), more.begin(), more.end());
    json(command);
    EXPECT_TRUE(contains(run_c(sources, sources + "/main.c", "-O0"), name + "_run"));
    EXPECT_TRUE(contains(run_c(sources, sources + "/main.c"), name + "_run"));
    return sources;
  }
};

TEST_F(CompileC, AProgramCallsWhatIsWritten) {
  const Wire x = port("x", f32, {-1, 5}), y = port("y", f32, {-1, 5}), t = port("t", f32, {5, -1});
  const std::string sources =
      agrees("scale",
             model(graph({node("Mul", {"x", "w"}, {"m"}), node("Relu", {"m"}, {"y"}),
                          node("Transpose", {"m"}, {"t"}, {attribute("perm", std::vector<int64_t>{1, 0})})},
                         {x}, {y, t}, {tensor("w", f32, {5}, std::vector<float>{1, -2, 3, -4, 5})})),
             {"--buckets", "N1=1,3"});
  const std::string main = write("user.c", R"(#include <stdio.h>
#include "scale.h"
int main(void) {
  static const float x[15] = {1, 1, 1, 1, 1, 2, 2, 2, 2, 2, -1, -1, -1, -1, -1};
  float y[15], t[15];
  int i;
  scale_run_N1_3(x, y, t);
  for (i = 0; i < 15; ++i) printf("%g,%g ", y[i], t[i]);
  return 0;
}
)");
  EXPECT_EQ(run_c(sources, main), "1,1 0,2 3,-1 0,-2 5,-4 2,2 0,3 6,6 0,-3 10,-4 0,-8 2,4 0,5 4,10 0,-5 ");
  const Finished symbols = run_program({"/usr/bin/env", "nm", "-u", folder / "program"});
  EXPECT_FALSE(contains(symbols.out, "malloc")) << symbols.out;
}

// Odd sizes; products, convolutions with strides and groups, norms, a softmax; several launches in one arena.
TEST_F(CompileC, NetworksAgreeWithTheReference) {
  agrees("mlp", model(graph({node("Gemm", {"x", "w0", "b0"}, {"g0"}), node("Relu", {"g0"}, {"r0"}),
                             node("Gemm", {"r0", "w1", "b1"}, {"g1"}), node("Softmax", {"g1"}, {"y"})},
                            {port("x", f32, {3, 21})}, {port("y", f32, {3, 7})},
                            {weight("w0", {21, 33}, 0.7f), weight("b0", {33}, 0.3f), weight("w1", {33, 7}, 1.1f),
                             weight("b1", {7}, 0.9f)})));
  agrees("cnn",
         model(graph({node("Conv", {"x", "k0", "c0"}, {"a"},
                           {attribute("strides", std::vector<int64_t>{2, 1}),
                            attribute("pads", std::vector<int64_t>{1, 0, 1, 2})}),
                      node("Relu", {"a"}, {"b"}), node("Conv", {"b", "k1"}, {"c"}, {attribute("group", 6)}),
                      node("MaxPool", {"c"}, {"d"}, {attribute("kernel_shape", std::vector<int64_t>{2, 2})}),
                      node("GlobalAveragePool", {"d"}, {"y"})},
                     {port("x", f32, {2, 3, 11, 9})}, {port("y", f32, {2, 6, 1, 1})},
                     {weight("k0", {6, 3, 3, 3}, 0.37f), weight("c0", {6}, 0.5f), weight("k1", {6, 1, 2, 3}, 0.77f)})));
}

// Quantised by nodes of their own (QDQ): integers are those of the reference, so that results are too.
TEST_F(CompileC, QuantisedProductsAreEqual) {
  std::vector<int8_t> w(static_cast<size_t>(19 * 13));
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<int8_t>(i * 37 % 251 - 125);
  const std::string sources = agrees(
      "int8",
      model(graph({node("QuantizeLinear", {"x", "s", "z"}, {"q"}), node("DequantizeLinear", {"q", "s", "z"}, {"d"}),
                   node("DequantizeLinear", {"w", "ws", "z"}, {"wd"}), node("MatMul", {"d", "wd"}, {"p"}),
                   node("QuantizeLinear", {"p", "ps", "z"}, {"y"})},
                  {port("x", f32, {5, 19})}, {port("y", int8_type, {5, 13})},
                  {tensor("s", f32, {}, std::vector<float>{0.02f}), tensor("ws", f32, {}, std::vector<float>{0.01f}),
                   tensor("ps", f32, {}, std::vector<float>{0.05f}), tensor("z", int8_type, {}, std::vector<int8_t>{0}),
                   tensor("w", int8_type, {19, 13}, w)})));
  EXPECT_TRUE(contains(run_c(sources, sources + "/main.c"), "0 differ"));
}

// The ops that are of integers themselves, over all pairs of signs, one with a scale for each channel.
TEST_F(CompileC, IntegerOpsAreEqual) {
  std::vector<int8_t> kernel(static_cast<size_t>(3 * 2 * 3 * 3)), w(static_cast<size_t>(4 * 5));
  for (size_t i = 0; i < kernel.size(); ++i) kernel[i] = static_cast<int8_t>(i * 53 % 255 - 127);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<int8_t>(i * 91 % 255 - 127);
  const auto real = [](const std::string& name, std::vector<float> numbers) {
    const std::vector<int64_t> dims = numbers.size() == 1 ? std::vector<int64_t>{} : std::vector<int64_t>{3};
    return tensor(name, f32, dims, numbers);
  };
  const auto zero = [](const std::string& name, int type, int8_t value) {
    return tensor(name, type, {}, std::vector<int8_t>{value});
  };
  for (const auto& [name, type] : {std::pair{"signed", int8_type}, {"unsigned", uint8_type}}) {
    const std::vector<Wire> nodes = {node("QLinearConv", {"x", "xs", "xz", "k", "ks", "kz", "cs", "cz", "b"}, {"c"},
                                          {attribute("pads", std::vector<int64_t>{1, 0, 1, 0})}),
                                     node("ConvInteger", {"x", "k", "xz"}, {"whole"}),
                                     node("QLinearMatMul", {"m", "xs", "xz", "w", "ws", "kz", "cs", "cz"}, {"p"}),
                                     node("MatMulInteger", {"m", "w", "xz"}, {"sums"})};
    const std::string sources = agrees(
        name, model(graph(nodes, {port("x", type, {1, 2, 5, 4}), port("m", type, {3, 4})},
                          {port("c", type, {1, 3, 5, 2}), port("whole", int32_type, {1, 3, 3, 2}),
                           port("p", type, {3, 5}), port("sums", int32_type, {3, 5})},
                          {real("xs", {0.02f}), real("ks", {0.01f, 0.03f, 0.002f}), real("ws", {0.02f}),
                           real("cs", {0.06f}), zero("xz", type, 3), zero("cz", type, 5), zero("kz", int8_type, 0),
                           tensor("k", int8_type, {3, 2, 3, 3}, kernel), tensor("w", int8_type, {4, 5}, w),
                           tensor("b", int32_type, {3}, std::vector<int32_t>{400, -700, 12})})));
    const std::string out = run_c(sources, sources + "/main.c");
    EXPECT_TRUE(contains(out, "0 differ")) << out;
  }
}

TEST_F(CompileC, BadInputIsOneLineAndLeavesNothing) {
  const std::string net = write(
      "net.onnx", model(graph({node("Relu", {"x"}, {"y"})}, {port("x", f32, {-1, 4})}, {port("y", f32, {-1, 4})})));
  const std::string out = folder / "out";
  const auto refused = [&](std::vector<std::string> more, const std::string& text) {
    std::vector<std::string> arguments{"compile", net, "--targets", "c"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    test::expect_user_error(arguments, text);
    EXPECT_FALSE(fs::exists(out));
  };
  refused({"-o", out}, "input x has a size 'N1' without a number");
  refused({"-o", out + ".heddle", "--buckets", "N1=2"}, "target c is written into a folder, not a .heddle file");
  test::expect_user_error({"compile", net, "--targets", "c,opencl", "--buckets", "N1=2", "-o", out + ".heddle"},
                          "the .heddle file of the others into it");
  std::error_code error;
  fs::create_directories(out, error);
  std::ofstream(folder / "out/mine.txt") << "kept";
  test::expect_user_error({"compile", net, "--targets", "c", "--buckets", "N1=2", "-o", out},
                          "is there already and no empty folder");
  EXPECT_EQ(std::distance(fs::directory_iterator(out), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace heddle
