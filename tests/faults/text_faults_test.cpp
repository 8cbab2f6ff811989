// Texts that are read and written in pieces: without memory for one of them there is an exception, never half of a
// text.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "heddle/data/cifar.h"
#include "heddle/data/tokenizer.h"
#include "heddle/data/transforms.h"
#include "heddle/train/config.h"
#include "tests/faults/fault_calls.h"
#include "tests/support/temporary_folder.h"
#include "tools/report_run.h"

namespace heddle {
namespace {

using test::Call;

const std::string long_name(100, 'n');

enum Ending { equal, torn, without_memory };

// In a process of its own: what cannot throw ends it.
template <class F, class T>
int ending_of(const F& make, const T& whole, uint64_t number) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::set_terminate([] { ::_exit(without_memory); });
    test::arm({.call = Call::alloc, .number = number, .error = ENOMEM});
    try {
      ::_exit(make() == whole ? equal : torn);
    } catch (const std::bad_alloc&) {
      ::_exit(without_memory);
    }
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) throw std::runtime_error("no process for a try");
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Every allocation of make() fails once.
template <class F>
void expect_whole_or_thrown(const F& make) {
  const auto whole = make();
  test::share_counts();
  for (uint64_t number = 1;; ++number) {
    const int ending = ending_of(make, whole, number);
    EXPECT_TRUE(ending == equal || ending == without_memory) << "allocation " << number << ": " << ending;
    if (test::calls(Call::alloc) < number) return;
  }
}

TEST(TextFaults, OfAConfiguration) {
  train::Config config;
  config.run.out = long_name;
  expect_whole_or_thrown([&] { return config.str(); });
}

TEST(TextFaults, OfACopyOfOptions) {
  train::Config config;
  config.model["text"] = train::Text(long_name);
  config.model["texts"] = train::Texts{long_name, long_name};
  config.model["numbers"] = train::Integers{1, 2, 3};
  expect_whole_or_thrown([&] { return std::map<std::string, train::Value>(config.model); });
}

TEST(TextFaults, OfMerges) {
  const test::TemporaryFolder folder;
  const std::string long_word = "abcdefghijklmnopqrstuvwxyz";
  data::BpeTokenizer::train(long_word + " " + long_word, {.vocabulary = 282})->save(folder.path());
  expect_whole_or_thrown(
      [&] { return data::BpeTokenizer::load(folder / "vocab.json", folder / "merges.txt")->encode(long_word); });
}

TEST(TextFaults, OfNamesOfClasses) {
  const test::TemporaryFolder folder;
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"})
    test::write_bytes(folder / name, std::vector<uint8_t>(3073));
  std::string names;
  for (int i = 0; i < 10; ++i) names += long_name + "\n";
  test::write_bytes(folder / "batches.meta.txt", {names.begin(), names.end()});
  expect_whole_or_thrown([&] { return data::read_cifar_folder(folder.path()).classes; });
}

TEST(TextFaults, OfATransform) {
  data::Random random(0, 0, 0);
  const data::Sample image = {data::Array::of(std::vector<float>{0.25f}, Shape{1, 1, 1})};
  expect_whole_or_thrown([&] {
    return data::parse_transform("normalise 0.50000000000000000000 0.25000000000000000000")(image, random)
        .front()
        .bytes;
  });
}

TEST(TextFaults, OfAReport) {
  const test::TemporaryFolder folder;
  std::string lines;
  for (int step = 1; step <= 3; ++step)
    lines += "{\"event\":\"step\",\"step\":" + std::to_string(step) + ",\"loss\":1.5,\"note\":\"" + long_name + "\"}\n";
  test::write_bytes(folder / "metrics.jsonl", {lines.begin(), lines.end()});
  expect_whole_or_thrown([&] { return tools::report_data(folder.path()).dump(); });
}

}  // namespace
}  // namespace heddle
