// heddle compile: a model with images for devices and golden vectors, which are compared by heddle run --verify.
#include <algorithm>
#include <cstring>

#include "heddle/core/base/path.h"
#include "heddle/io/model_parts.h"
#include "heddle/io/write_model_parts.h"
#include "heddle/runtime/golden.h"
#include "heddle/runtime/loaded_model.h"
#include "heddle/runtime/model_image.h"
#include "tests/cli/command_test.h"
#include "tests/cli/user_error.h"
#include "tests/onnx/wire.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

using namespace tests;  // NOLINT: the writers of ONNX's messages
using test::contains;
using test::Finished;

class Compile : public test::CommandTest {
 protected:
  static constexpr int64_t n = 40;
  void SetUp() override {
    if (contains(test::run_heddle({"import", "none.onnx"}).err, "reads no ONNX"))
      GTEST_SKIP() << "built without protobuf";
    for (const std::string& id : test::kernel_devices()) {
      const std::string backend = id.substr(0, id.find(':'));
      if ((backend == "opencl" || backend == "vulkan") && id.ends_with(":0")) targets.push_back(backend);
    }
    if (targets.empty()) GTEST_SKIP() << "no device takes kernels";
    std::vector<float> weights(n);
    for (size_t i = 0; i < n; ++i) weights[i] = static_cast<float>(i) * 0.5f;
    const Wire x = port("x", f32, {-1, n}), y = port("y", f32, {-1, n});
    net = write("net.onnx", model(graph({node("Mul", {"x", "w"}, {"m"}), node("Relu", {"m"}, {"y"})}, {x}, {y},
                                        {tensor("w", f32, {n}, weights)})));
    file = folder / "net.heddle";
  }
  std::string listed() const {
    std::string list = targets[0];
    for (size_t i = 1; i < targets.size(); ++i) list += "," + targets[i];
    return list;
  }
  std::vector<std::string> targets;
  std::string net, file;
};

TEST_F(Compile, WritesImagesOfEachTargetAndBucketWithGoldenVectors) {
  const auto line = json({"compile", net, "--targets", listed(), "--buckets", "N1=1,3", "-o", file});
  EXPECT_EQ(line["images"].size(), 2 * targets.size());
  const ModelParts parts = ModelParts::read(file);
  EXPECT_EQ(parts.only(PartKind::lineage).kind, PartKind::lineage);
  EXPECT_EQ(parts.find("constants"), nullptr);  // the graph's weights serve
  EXPECT_NE(parts.find("golden/N1=3"), nullptr);
  for (const std::string& target : targets) {
    EXPECT_NE(parts.find_image(target, "N1=1"), nullptr) << target;
    LoadedModel loaded(file, {target, false});
    EXPECT_EQ(loaded.bucket_count(), 2u);
    EXPECT_EQ(loaded.compared(), 2u);
    loaded.use("N1=3");
    std::vector<float> x(3 * n, 2), y(3 * n);
    loaded.set_input(0, x.data(), x.size() * sizeof(float));
    loaded.run();
    loaded.read_output(0, y.data(), y.size() * sizeof(float));
    for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(y[i], static_cast<float>(i % n)) << i;
    EXPECT_EQ(json({"run", file, "--verify", "--device", target})["golden"], 2);
  }
}

TEST_F(Compile, AnImportedFileIsCompiledAndCompiledAgain) {
  const std::string imported = folder / "imported.heddle", again = folder / "again.heddle";
  json({"import", net, "-o", imported, "--shape", "x=N,40"});
  json({"compile", imported, "--targets", targets[0], "--buckets", "N=2", "-o", file});
  json({"compile", file, "--targets", targets[0], "--buckets", "N=4", "--golden", "none", "-o", again});
  const ModelParts parts = ModelParts::read(again);
  EXPECT_EQ(parts.find_image(targets[0], "N=2"), nullptr);
  EXPECT_NE(parts.find_image(targets[0], "N=4"), nullptr);
  EXPECT_EQ(parts.metadata().at("made_from"), "net.onnx");
  EXPECT_EQ(std::ranges::count(parts.entries(), PartKind::golden, &PartEntry::kind), 0);
}

TEST_F(Compile, GoldenVectorsThatDifferAreNamed) {
  const std::string other = folder / "other.heddle";
  json({"compile", net, "--targets", targets[0], "--buckets", "N1=2", "-o", file});
  const ModelParts parts = ModelParts::read(file);
  Golden golden = golden_from_bytes(parts.bytes(*parts.find("golden/N1=2")));
  const float wrong = -5;
  std::memcpy(golden.outputs[0].bytes.data() + 43 * sizeof(float), &wrong, sizeof(wrong));
  const std::vector<uint8_t> bytes = golden_bytes(golden);
  std::vector<ModelPart> changed;
  for (const PartEntry& entry : parts.entries()) {
    changed.push_back({entry.name, entry.kind, parts.bytes(entry), entry.target, entry.bucket, entry.attributes});
    if (entry.kind == PartKind::golden) changed.back().bytes = bytes;
  }
  write_model_parts(other, changed);
  test::expect_user_error({"run", other, "--verify", "--device", "reference:0"}, "output y[1, 3] is ");
}

// Machine code for GPUs that are not here, beside images of devices that are and sources in C99, at once.
TEST_F(Compile, ArchitecturesNeedNoGpu) {
  const Finished tried = test::run_heddle({"compile", net, "--targets", "cuda:sm_12", "-o", file});
  EXPECT_EQ(tried.exit_code, 2);
  EXPECT_EQ(std::ranges::count(tried.err, '\n'), 1) << tried.err;
  if (!contains(tried.err, "there is no target 'cuda:sm_12'; NVRTC ")) {
    EXPECT_TRUE(contains(tried.err, "NVRTC") || contains(tried.err, "no backend for CUDA"));
    GTEST_SKIP() << tried.err;
  }
  EXPECT_TRUE(contains(tried.err, "cuda:sm_90"));
  const std::string out = folder / "all";
  const auto line =
      json({"compile", net, "--targets", listed() + ",cuda:sm_80,cuda:sm_90,c", "--buckets", "N1=1,8", "-o", out});
  EXPECT_EQ(line["images"].size(), 2 * (targets.size() + 2));
  EXPECT_TRUE(fs::exists(out + "/c/net.h"));
  const std::string both = out + "/net.heddle";
  const ModelParts parts = ModelParts::read(both);
  for (const char* bucket : {"N1=1", "N1=8"}) {
    for (const uint32_t sm : {80u, 90u}) {
      const PartEntry* const part = parts.find_image("cuda:sm_" + std::to_string(sm), bucket);
      ASSERT_NE(part, nullptr) << sm << ' ' << bucket;
      const ModelImage image = model_image_from_bytes(parts.bytes(*part));
      EXPECT_EQ(image.needs.architecture, sm);
      for (const GraphImage::Kernel* kernel : kernels_of(image.image)) EXPECT_TRUE(kernel->is_compiled());
    }
    EXPECT_NE(parts.find_image(targets[0], bucket), nullptr);
  }
  EXPECT_EQ(json({"run", both, "--verify", "--device", targets[0]})["golden"], 2);
  test::expect_user_error({"compile", net, "--targets", "c,cuda:sm_80", "--buckets", "N1=1", "-o", out},
                          "is there already");
  // Of two halves, one that fails leaves neither.
  const std::string none = folder / "none";
  test::expect_user_error({"compile", net, "--targets", "c,cuda:sm_80", "-o", none}, "without a number");
  EXPECT_FALSE(fs::exists(none));
}

TEST_F(Compile, BadInputIsOneLine) {
  const auto refused = [&](std::vector<std::string> more, const std::string& text) {
    std::vector<std::string> arguments{"compile", net, "-o", file};
    arguments.insert(arguments.end(), more.begin(), more.end());
    test::expect_user_error(arguments, text);
    EXPECT_FALSE(fs::exists(file));
  };
  refused({"--targets", "c"}, "target c");
  refused({"--targets", "metal"}, "there is no target 'metal'");
  refused({"--targets", targets[0]}, "input x has a size 'N1' without a number");
  refused({"--targets", targets[0], "--buckets", "N1"}, "is not NAME=SIZE");
  refused({"--targets", targets[0], "--buckets", "N1=0"}, "is not NAME=SIZE");
  refused({"--targets", targets[0], "--buckets", "N1=1,x"}, "is not NAME=SIZE");
  test::expect_user_error({"compile", net, "-o", folder / "net.onnx2"}, "is written as a .heddle file");
  test::expect_user_error({"compile", folder / "none.onnx", "-o", file}, "none.onnx");
}

}  // namespace
}  // namespace heddle
