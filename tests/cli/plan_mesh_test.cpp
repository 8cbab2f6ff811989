// heddle plan --mesh: forecasts of recipes and of transformers' configurations, and what it refuses.
#include <algorithm>
#include <sstream>

#include "tests/cli/command_test.h"
#include "tests/cli/user_error.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::contains;
using test::expect_user_error;
using test::Finished;
using test::run_heddle;

constexpr const char* llama_405b =
    "layers = 126\nwidth = 16384\nheads = 128\nkey_heads = 8\nfeed_forward = 53248\nvocabulary = 128256\n"
    "sequence = 8192\ngated = true\nbiases = false\ntied = false\npositions = false\ndropout = false\n"
    "sequence_parallel = true\nprecision = \"bf16\"\n";
constexpr const char* slow_link =
    "[machine]\nflops_f32 = 50e9\nmemory = 16_000_000_000\nmemory_bandwidth = 10e9\nefficiency = 0.5\nhalf_size = 8\n"
    "[level.host]\nranks = 2\nbandwidth = 1e9\nlatency = 20e-6\n[level.network]\nbandwidth = 25e6\nlatency = 1e-3\n";

class PlanMesh : public test::CommandTest {
 protected:
  // One JSON value a line.
  std::vector<Json> lines(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "plan");
    arguments.push_back("--json");
    const Finished run = run_heddle(std::move(arguments));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    std::vector<Json> found;
    std::istringstream text(run.out);
    for (std::string line; std::getline(text, line);) found.push_back(Json::parse(line, nullptr, false));
    return found;
  }
};

TEST_F(PlanMesh, ARecipeOverRanksThatShareBatches) {
  const std::vector<Json> ranks = lines({"mnist-mlp:32", "--mesh", "dp=4"});
  ASSERT_EQ(ranks.size(), 1u);
  const Json& rank = ranks[0];
  const int64_t parameters = 109386, values = parameters + 4;  // and the loss and three wishes
  EXPECT_EQ(rank["ranks"], 4);
  EXPECT_EQ(rank["microbatch"], 8);
  EXPECT_EQ(rank["memory_bytes"]["parameters"], 4 * parameters);
  EXPECT_EQ(rank["memory_bytes"]["optimizer"], 8 * parameters);
  EXPECT_EQ(rank["memory_bytes"]["gradients"], 4 * parameters);
  EXPECT_GT(rank["memory_bytes"]["activations"], 0);
  // What schedules.h sends of so many values from rank 0, whose part is the largest, and three headers of 192 bytes.
  const int64_t mine = (values + 3) / 4;
  EXPECT_EQ(rank["bytes_per_step"], 4 * (values - mine) + 4 * 3 * mine + 3 * 192);
  EXPECT_GT(rank["step_seconds"], 0);
  EXPECT_EQ(rank["bubble"], 0);
  EXPECT_EQ(rank["communication_hidden"], 0);  // one list, which goes when all is computed
  EXPECT_GT(rank["mfu"], 0);
  EXPECT_LT(rank["mfu"], 1);
  const std::vector<Json> sharded = lines({"mnist-mlp:32", "--mesh", "dp=4", "--sharding", "zero1"});
  EXPECT_EQ(sharded[0]["memory_bytes"]["optimizer"], 2 * parameters);
}

// Few ranks are rehearsed; of more that share batches memory is that of two.
TEST_F(PlanMesh, ManyRanksAreForecastByFormulas) {
  const Json two = lines({"mnist-mlp", "--mesh", "dp=2", "--batch", "16"}).at(0),
             many = lines({"mnist-mlp", "--mesh", "dp=64", "--batch", "512"}).at(0),
             states = lines({"mnist-mlp", "--mesh", "dp=64", "--batch", "512", "--sharding", "zero1"}).at(0);
  EXPECT_TRUE(two["rehearsed"]);
  EXPECT_FALSE(many["rehearsed"]);
  EXPECT_EQ(many["memory_bytes"], two["memory_bytes"]);
  const double less = 8.0 * 109386 * 63 / 64;
  EXPECT_NEAR(states["memory_bytes"]["peak"].get<double>(), many["memory_bytes"]["peak"].get<double>() - less, 1);
  EXPECT_FALSE(
      lines({"gpt-checkpoint:4x64x4x64", "--mesh", "tp=2"}).at(0)["rehearsed"]);  // training has it in no parts
}

// The peak is the allocator's, so it holds parameters, states and the list at least; a null device plans otherwise.
TEST_F(PlanMesh, MemoryAsOneDevicePlansIt) {
  const double state = 16.0 * 109386;
  for (const std::string& device : test::kernel_devices()) {
    const Json memory = lines({"mnist-mlp:32", "--mesh", "dp=2", "--device", device}).at(0)["memory_bytes"];
    EXPECT_GT(memory["peak"], state) << device;
    EXPECT_LT(memory["peak"], 2 * state) << device;
  }
}

TEST_F(PlanMesh, ARecordedTransformerIsSplit) {
  const auto whole = lines({"gpt:4x64x4x64", "--mesh", "dp=1"}),
             split = lines({"gpt:4x64x4x64", "--mesh", "pp=2,tp=2"});
  ASSERT_EQ(split.size(), 2u);
  double parameters = 0;
  for (const Json& stage : split) parameters += stage["memory_bytes"]["parameters"].get<double>();
  const double all = whole[0]["memory_bytes"]["parameters"];
  EXPECT_GT(parameters, 0.5 * all);  // norms and positions are on every rank
  EXPECT_LT(parameters, 0.6 * all);
  EXPECT_GT(split[0]["bytes_per_step"], 0);
}

// Activations are as many bytes; the gradients of norms, biases behind rows and positions are summed besides. A sum in
// two halves is a call more, with a header of 192 bytes: four in each of four blocks, one of the embedding and one in
// front of the last projection.
TEST_F(PlanMesh, PositionsBetweenLayersAreSharedOut) {
  const Json sums = lines({"gpt:4x64x4x64", "--mesh", "tp=2"}).at(0),
             parts = lines({"gpt:4x64x4x64", "--mesh", "tp=2", "--sequence-parallel"}).at(0);
  const int64_t shared = 64 * (6 * 4 + 2 + 64);
  EXPECT_EQ(parts["bytes_per_step"], sums["bytes_per_step"].get<int64_t>() + 4 * shared + 192 * (16 + 2 + 1));
  EXPECT_LT(parts["memory_bytes"]["activations"], sums["memory_bytes"]["activations"]);
  EXPECT_EQ(parts["memory_bytes"]["parameters"], sums["memory_bytes"]["parameters"]);
}

TEST_F(PlanMesh, ThousandsOfRanksByConfiguration) {
  const std::string model = write("llama3-405b.toml", llama_405b);
  const std::vector<Json> stages = lines({model, "--mesh", "dp=64,pp=16,tp=8", "--batch", "2048", "--sharding", "zero2",
                                          "--schedule", "interleaved", "--chunks", "8"});
  ASSERT_EQ(stages.size(), 16u);
  for (const Json& stage : stages) {
    EXPECT_EQ(stage["ranks"], 512);
    EXPECT_NEAR(stage["mfu"].get<double>(), 0.43, 0.15 * 0.43);  // arXiv 2407.21783, table 4
  }
  const std::vector<Json> found = lines({model, "--search", "1024", "--batch", "1024", "--sharding", "zero2"});
  ASSERT_GT(found.size(), 1u);
  for (const Json& each : found) EXPECT_TRUE(each["fits"]) << each;
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), [](const Json& a, const Json& b) {
    return a["step_seconds"].get<double>() < b["step_seconds"].get<double>();
  }));
}

TEST_F(PlanMesh, ALinkFile) {
  const std::string link = write("link.toml", slow_link);
  const auto seconds = [&](const char* mesh) {
    return lines({"mlp:32", "--mesh", mesh, "--link", link, "--no-overlap"}).at(0)["step_seconds"].get<double>();
  };
  // 109,389 values of 4 bytes: 2 (N-1)/N of them over 1 GB/s, or over 25 MB/s beyond two ranks.
  EXPECT_NEAR(seconds("dp=4") - seconds("dp=2"), 1.5 * 4 * 109386 / 25e6, 0.2 * 1.5 * 4 * 109386 / 25e6);
}

TEST_F(PlanMesh, TablesForPeople) {
  const Finished one = run_heddle({"plan", "mlp:32", "--mesh", "dp=2"});
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_TRUE(contains(one.out, "mlp:32 over dp=2 of dgx-h100: 2 ranks"));
  EXPECT_TRUE(contains(one.out, "sent/step"));
  const Finished search = run_heddle({"plan", "mlp:32", "--search", "4"});
  EXPECT_EQ(search.exit_code, 0) << search.err;
  EXPECT_TRUE(contains(search.out, "the fastest first"));
}

TEST_F(PlanMesh, BadInputIsOneLine) {
  const auto refuse = [](std::vector<std::string> more, const std::string& part) {
    more.insert(more.begin(), {"plan", "mlp:32"});
    expect_user_error(more, part);
  };
  refuse({"--mesh", "dp=2,ep=2"}, "there is no axis ep");
  refuse({"--mesh", "dp"}, "is no axis");
  refuse({"--mesh", "dp=3"}, "a batch of 32 is no multiple of dp=3");
  refuse({"--mesh", "tp=2"}, "tp splits transformers");
  refuse({"--mesh", "dp=2", "--sequence-parallel"}, "[plan] --sequence-parallel is of transformers; mlp:32 is none");
  refuse({"--mesh", "pp=100"}, "pp=100");
  refuse({"--mesh", "dp=2", "--microbatches", "5"}, "5 microbatches do not divide");
  refuse({"--mesh", "dp=2", "--microbatches", "0"}, "--microbatches is 0");
  refuse({"--mesh", "dp=2", "--batch", "-1"}, "--batch is -1");
  refuse({"--mesh", "dp=2", "--sharding", "zero4"}, "--sharding is zero4");
  refuse({"--mesh", "dp=2", "--schedule", "pipe"}, "--schedule is pipe");
  refuse({"--mesh", "dp=2", "--chunks", "2"}, "--chunks 2");
  refuse({"--mesh", "dp=2", "--search", "4"}, "exclude each other");
  refuse({"--mesh", "dp=2", "--measure"}, "--measure is of one device");
  refuse({"--sharding", "zero1"}, "--sharding needs --mesh or --search");
  refuse({"--search", "0"}, "--search is 0");
  refuse({"--search", "4099"}, "no mesh of 4099 ranks");
  refuse({"--mesh", "dp=2", "--link", "dgx-9000"}, "dgx-a100, dgx-h100");
  expect_user_error({"plan", "gpt:4x64x4x64", "--mesh", "tp=4"}, "tp=4 does not divide the 2 heads");
  expect_user_error({"plan", write("m.toml", llama_405b), "--mesh", "dp=2"}, "--batch is missing");
}

TEST_F(PlanMesh, BrokenFilesAreOneLine) {
  const auto link = [&](const std::string& text, const std::string& part) {
    expect_user_error({"plan", "mlp:32", "--mesh", "dp=2", "--link", write("link.toml", text)}, part);
  };
  const std::string machine = "[machine]\nflops_f32 = 1e9\nmemory = 1e9\nmemory_bandwidth = 1e9\n";
  link("machine = [", "link.toml:1");
  link("", "machine.memory is 0");
  link(machine, "there is no level");
  link(machine + "[level.a]\nbandwidth = \"fast\"\n", "link.toml:6: level.a.bandwidth must be a number");
  link(machine + "[level.a]\nbandwidth = nan\n", "level.a.bandwidth is nan");
  link(machine + "[level.a]\nspeed = 1\n", "is no key of a level");
  link(machine + "[level.a]\nbandwidth = 10\nprocessor = 0.2\n", "level.a.processor is 0.2; it must be at least 0");
  link(machine + "[level.a]\nbandwidth = 1\nranks = 2\n", "must be of all ranks");
  link(machine + "color = 1\n", "is no key of [machine]");
  link("[machine]\nflops_bf16 = 1e9\nmemory = 1e9\nmemory_bandwidth = 1e9\n[level.a]\nbandwidth = 1\n",
       "the machine has no peak of f32");
  expect_user_error({"plan", "mlp:32", "--mesh", "dp=2", "--link", folder / "none.toml"}, "none.toml");
  const auto model = [&](const std::string& text, const std::string& part) {
    expect_user_error({"plan", write("model.toml", text), "--mesh", "dp=2", "--batch", "2"}, part);
  };
  model("layers = 2\nwidth = 64\nheads = 4\nvocabulary = 10\n", "sequence is 0; it must be from 1 to");
  model("depth = 2\n", "model.toml:1: depth is no key of a transformer");
  model("layers = 2.5\n", "must be an integer");
  model("precision = \"f8\"\n", "must be f32, f16 or bf16");
}

}  // namespace
}  // namespace heddle
