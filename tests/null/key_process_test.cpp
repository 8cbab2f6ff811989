// Keys mean the same in another process: a child of this program prints those of some graphs, its parent compares.
#ifdef HEDDLE_HAS_BENCH

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "bench/training_step.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/process.h"
#include "heddle/core/base/system/terminal.h"
#include "heddle/core/functions/user/user_kernel.h"
#include "heddle/core/graph/excess_precision.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/memory/memory_budget.h"
#include "heddle/core/run/evaluation.h"
#include "heddle/core/simplify/passes.h"
#include "heddle/core/tiles/tuning.h"
#include "heddle/heddle.h"
#include "tests/null/null_device.h"

namespace heddle {
namespace {

using test::leaf;
using test::null_device;

// Of what is pending: its structure, and everything else that its plan is found by.
std::string pending_key() {
  const std::vector<uint64_t> key = prepare_evaluation(null_device(), held_pending()).captured.key;
  eval_pending();
  return fmt::format("{} words, {:016x}", key.size(), hash_words(key));
}

std::string key_of(const std::function<Tensor()>& record) {
  eval_pending();
  const Tensor held = record();
  return pending_key();
}

std::string key_of_step(const char* text) {
  const bench::TrainingStep step = bench::make_training_step(text, null_device());
  step.record();
  eval_pending();
  const Tensor loss = step.record();
  return pending_key();
}

std::vector<std::string> keys() {
  const auto product = [] { return matmul(leaf({5, 7}), leaf({7, 3})) + 1.0; };
  std::vector<std::string> all = {key_of(product)};
  for (const char* step : {"mlp:32", "cnn:4", "gpt:2x16x2x32", "char-lstm:2"}) all.push_back(key_of_step(step));
  const UserKernel user = elementwise_kernel({.name = "key_elsewhere", .inputs = {"x"}, .text = "out = x + x;"});
  all.push_back(key_of([&] { return user.call({leaf({4, 4})}, Caller::current())[0]; }));
  {
    const ScopedTuning forced({"no_such_body", "", {}}, {{"FIRST", 1}});
    all.push_back(key_of(product));
  }
  {
    const PassScope passes("-cse,-fold");
    all.push_back(key_of(product));
  }
  {
    const MemoryBudget budget(64 << 20);
    const ExcessPrecisionScope excess;
    all.push_back(key_of(product));
  }
  return all;
}

constexpr const char* mark = "key ";

// For the child.
TEST(KeysElsewhere, DISABLED_PrintsThem) {
  os::occupy_standard_streams();  // as heddle does: a line is the same bytes on every system
  for (const std::string& key : keys()) std::printf("%s%s\n", mark, key.c_str());
}

TEST(KeysElsewhere, AreTheSameInAnotherProcess) {
  // What this process did before leaves nothing in a key.
  const std::vector<std::vector<uint8_t>> elsewhere(9, std::vector<uint8_t>(54321));
  {
    const ScopedTuning other({"no_other_body", "", {}}, {{"SECOND", 2}});
    key_of([] { return sum(leaf({9, 9})); });
  }
  const std::vector<std::string> here = keys();
  EXPECT_NE(here[0], here[here.size() - 3]) << "forced schedules";
  EXPECT_NE(here[0], here[here.size() - 2]) << "passes";
  EXPECT_NE(here[0], here[here.size() - 1]) << "a budget and a mode of numbers";

  os::ChildProcess child(
      os::program_file(),
      {"child", "--gtest_filter=KeysElsewhere.DISABLED_PrintsThem", "--gtest_also_run_disabled_tests"}, {});
  std::string output;
  while (child.read(output, nullptr, 1)) {
  }
  std::vector<std::string> there;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(mark, 0) == 0) there.push_back(line.substr(std::string(mark).size()));
  }
  EXPECT_EQ(there, here);
}

}  // namespace
}  // namespace heddle

#endif
