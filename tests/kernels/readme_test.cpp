// The worked example of shaders/README.md does what it says.
#include <algorithm>
#include <fstream>
#include <sstream>

#include "heddle/core/dialect/printer.h"
#include "tests/kernels/kernel_test.h"

namespace heddle::test {
namespace {

std::string readme_example() {
  std::ifstream in(HEDDLE_SOURCE_DIR "/shaders/README.md");
  std::stringstream text;
  text << in.rdbuf();
  const std::string all = text.str();
  const std::string open = "```c\n";
  const size_t start = all.find(open);
  return start == std::string::npos
             ? ""
             : all.substr(start + open.size(), all.find("```", start + open.size()) - start - open.size());
}

class ReadmeTest : public KernelTest {};

TEST_P(ReadmeTest, ExampleRuns) {
  const std::string example = readme_example();
  ASSERT_FALSE(example.empty());
  const KernelFile file = KernelFile::parse(example, "rowbias.hk");
  for (const bool hook : {false, true}) {
    KernelFile::Options options;
    options.types["T"] = DType::f16;
    if (hook) options.hooks["HOOK"] = "max(v, 0.0f)";
    KernelRun r;
    r.arrays["x"] = KernelArray::of(DType::f16, quarters(3 * 50, 1));
    r.arrays["bias"] = KernelArray::of(DType::f32, quarters(50, 2));
    r.arrays["y"] = KernelArray::zeros(DType::f16, 3 * 50);
    r.constants = {{"R", 3}, {"C", 50}};
    const KernelOutcome got = run(file, options, r);
    EXPECT_EQ(got.groups, (std::array<uint32_t, 3>{3, 1, 1}));
    for (size_t i = 0; i < 150; ++i) {
      const double sum = r.arrays.at("x")[i] + r.arrays.at("bias")[i % 50];
      EXPECT_EQ(got.arrays.at("y")[i], hook ? std::max(sum, 0.0) : sum) << i;
    }
  }
}

HEDDLE_ON_DEVICES(ReadmeTest);

}  // namespace
}  // namespace heddle::test
