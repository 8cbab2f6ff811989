// The n-th call that takes memory or writes fails, in a training run of five steps with checkpoints, for every n: a
// clear error or a run that is not touched by it, never a torn file, a crash or a hang; what is left can be gone on
// with, to the same model.
//
// HEDDLE_FAULTS=N tries every N-th call and every way to fail (tools/faults.sh), HEDDLE_FAULTS_FROM and
// HEDDLE_FAULTS_TO those between two numbers alone; without it some of each kind are tried, at equal distances.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "heddle/core/base/error.h"
#include "heddle/core/base/of_this_thread.h"
#include "heddle/data/records.h"
#include "heddle/io/atomic_file.h"
#include "heddle/io/safetensors.h"
#include "heddle/train/fingerprint.h"
#include "heddle/train/toml.h"
#include "tests/faults/fault_calls.h"
#include "tests/support/idx_files.h"
#include "tests/support/temporary_folder.h"
#include "tools/cli.h"
#include "tools/process.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using test::Bytes;
using test::Call;
using test::Fault;

struct Ended {
  int code = -1;  // -1: by a signal, or not at all
  int signal = 0;
  bool hung = false;
  std::string error;  // what it printed
};

const char* wish() { return std::getenv("HEDDLE_FAULTS"); }

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// The numbers of those of `calls` calls that are tried: `few` of them where nobody wishes for more.
std::vector<uint64_t> chosen(uint64_t calls, uint64_t few) {
  const uint64_t stride = std::max<uint64_t>(1, number_from("HEDDLE_FAULTS", calls / few)),
                 last = std::min(calls, number_from("HEDDLE_FAULTS_TO", calls));
  std::vector<uint64_t> numbers;
  for (uint64_t number = std::max<uint64_t>(1, number_from("HEDDLE_FAULTS_FROM", 1)); number <= last; number += stride)
    numbers.push_back(number);
  return numbers;
}

std::string text_of(const Fault& f) {
  if (f.number == 0) return "no fault";
  return fmt::format("{} {}{}{}: {}", name_of(f.call), f.number, f.partial ? " by half" : "",
                     f.from_then ? " and all later ones" : "", std::strerror(f.error));
}

class Faults : public testing::Test {
 protected:
  Faults() {
    test::write_mnist_folder(data, 96, 20);
    ::setenv("HEDDLE_CACHE_DIR", (parent / "cache").c_str(), 1);
    test::share_counts();
    train::code_fingerprint();  // reads the whole program: once here, not in each run
  }
  ~Faults() override { ::unsetenv("HEDDLE_CACHE_DIR"); }

  std::vector<std::string> command(bool resume) const {
    std::vector<std::string> words = {"heddle",      "train",           "mnist-mlp", "--data",
                                      data.path(),   "--out",           out,         "--device",
                                      "reference:0", "--batch",         "16",        "--validation",
                                      "0",           "--limit-steps",   "5",         "--checkpoint-every",
                                      "2",           "--tensorboard",   "--ema",     "0.5",
                                      "--set",       "model.hidden=8,8"};
    if (resume) words.push_back("--resume");
    return words;
  }

  // What main() does; an exception ends the process.
  [[noreturn]] void become(std::vector<std::string> words, const Fault& fault) const noexcept {
    ::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    ::dup2(::open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), STDERR_FILENO);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    test::arm(fault);
    const int code = tools::run_process(static_cast<int>(arguments.size()), arguments.data());
    test::disarm();
    std::exit(code);
  }

  // This process has no threads, and nothing of a device yet: a child of it is as a program that has just begun.
  Ended run(const std::vector<std::string>& words, const Fault& fault) const {
    const pid_t child = ::fork();
    if (child == 0) become(words, fault);
    if (child < 0) throw std::runtime_error(fmt::format("no process for a run: {}", std::strerror(errno)));
    Ended ended;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    int status = 0;
    pid_t waited = 0;
    while ((waited = ::waitpid(child, &status, WNOHANG)) == 0) {
      if (!ended.hung && std::chrono::steady_clock::now() > limit) {
        ended.hung = true;
        ::kill(child, SIGKILL);
      }
      ::usleep(500);
    }
    if (waited != child) throw std::runtime_error(fmt::format("a run was lost: {}", std::strerror(errno)));
    if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
    ended.error = test::read_text(errors);
    return ended;
  }

  void expect_clear_end(const Ended& ended) const {
    EXPECT_FALSE(ended.hung);
    EXPECT_TRUE(ended.hung || ended.signal == 0) << "signal " << ended.signal << "\n" << ended.error;
    if (ended.code <= 0) return;
    EXPECT_LE(ended.code, tools::exit_out_of_memory);
    std::istringstream lines(ended.error);
    int said = 0;
    for (std::string line; std::getline(lines, line);) {
      EXPECT_TRUE(line.starts_with("heddle: ")) << line;
      said += line.starts_with("heddle: warning: ") ? 0 : 1;
    }
    EXPECT_EQ(said, 1) << ended.error;
    EXPECT_EQ(ended.error.find("internal error"), std::string::npos) << ended.error;
  }

  // Files are whole or absent. An unfinished one has a name of its own, and stays only where the process could not go
  // on; the next run removes those of checkpoints.
  void expect_nothing_torn(bool unfinished_may_stay) const {
    if (!fs::exists(out)) return;
    for (const auto& entry : fs::recursive_directory_iterator(out)) {
      const std::string path = entry.path().string();
      EXPECT_TRUE(unfinished_may_stay || path.find(".tmp-") == std::string::npos) << path;
      if (path.ends_with(".safetensors")) {
        EXPECT_NO_THROW(read_safetensors(path)) << path;
      }
      if (path.ends_with("config.toml")) {
        EXPECT_NO_THROW(train::read_toml(test::read_text(path), path));
      }
      if (path.ends_with("environment.json")) {
        EXPECT_TRUE(Json::accept(test::read_text(path)));
      }
      if (!path.ends_with("metrics.jsonl")) continue;
      std::istringstream lines(test::read_text(path));
      for (std::string line; std::getline(lines, line);) EXPECT_TRUE(Json::accept(line)) << line;
    }
  }

  // What a person would do next. Nothing is left of a run that ended early: the next one is the first.
  void expect_goes_on() const {
    if (!fs::exists(out) && !fs::exists(parent / "cache")) return;
    const bool begun =
        fs::exists(out + "/metrics.jsonl") || fs::exists(out + "/config.toml") || fs::exists(out + "/checkpoints");
    const Ended rest = run(command(begun), {});
    EXPECT_EQ(rest.code, 0) << rest.error;
    EXPECT_EQ(rest.error.find("damaged"), std::string::npos) << rest.error;
    expect_nothing_torn(false);
    EXPECT_TRUE(test::read_bytes(out + "/model.safetensors") == expected);
  }

  void try_fault(const Fault& fault) {
    SCOPED_TRACE(text_of(fault));
    const int before = failures();
    fs::remove_all(out);
    fs::remove_all(parent / "cache");
    const Ended ended = run(command(false), fault);
    ++tried[name_of(fault.call)];
    ++ends[ended.code];
    expect_clear_end(ended);
    expect_nothing_torn(ended.code == tools::exit_out_of_memory);
    if (ended.code == 0) {
      EXPECT_TRUE(test::read_bytes(out + "/model.safetensors") == expected);
    }
    expect_goes_on();
    failed += failures() > before ? 1 : 0;
  }

  static int failures() { return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); }

  // A run that nothing happens to; gives the calls of each kind.
  std::map<Call, uint64_t> count() {
    fs::remove_all(out);
    const Ended ended = run(command(false), {});
    EXPECT_EQ(ended.code, 0) << ended.error;
    expected = test::read_bytes(out + "/model.safetensors");
    EXPECT_FALSE(expected.empty());
    std::map<Call, uint64_t> result;
    for (const Call call : test::all_calls) result[call] = test::calls(call);
    return result;
  }

  void TearDown() override {
    for (const auto& [name, number] : tried) fmt::print("{}: {} runs\n", name, number);
    for (const auto& [code, number] : ends) fmt::print("exit code {}: {} runs\n", code, number);
  }

  static constexpr int most_failures = 10;  // then no more are looked for
  int failed = 0;
  test::TemporaryFolder data, parent;
  const std::string out = parent / "run", errors = parent / "errors.txt";
  Bytes expected;
  std::map<std::string, int> tried;
  std::map<int, int> ends;
};

TEST_F(Faults, OfEveryCallThatTouchesFiles) {
  const std::map<Call, uint64_t> counts = count();
  for (const auto& [call, most] : counts) fmt::print("{} calls of {}\n", most, name_of(call));
  const std::map<Call, std::vector<Fault>> ways = {
      {Call::open, {{.error = EMFILE}}},
      {Call::write, {{.error = ENOSPC, .partial = true, .from_then = true}, {.error = EIO}, {.partial = true}}},
      {Call::fsync, {{.error = EIO}}},
      {Call::rename, {{.error = ENOSPC}}},
      {Call::mmap, {{.error = ENOMEM}}}};
  for (const auto& [call, kinds] : ways) {
    for (Fault fault : kinds) {
      fault.call = call;
      for (const uint64_t number : chosen(counts.at(call), 8)) {
        fault.number = number;
        if (failed < most_failures) try_fault(fault);
      }
      if (wish() == nullptr) break;
    }
  }
}

TEST_F(Faults, OfAllocations) {
  const uint64_t most = count().at(Call::alloc);
  const std::vector<uint64_t> numbers = chosen(most, 16);
  fmt::print("{} allocations, {} of them fail\n", most, numbers.size());
  if (most == 0) GTEST_SKIP() << "a sanitizer allocates";
  for (size_t i = 0; i < numbers.size() && failed < most_failures; ++i)
    try_fault({.call = Call::alloc, .number = numbers[i], .error = ENOMEM, .from_then = i % 2 == 1});
}

// The renaming itself reaches the disk: the file is flushed, and then its folder, whether its path names one or not.
TEST(Flush, OfAFileAndOfItsFolder) {
  const test::TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  test::arm({});
  write_file_atomically("a", "1");
  const uint64_t alone = test::calls(Call::fsync);
  test::arm({});
  write_file_atomically(folder / "a", "2");
  const uint64_t within = test::calls(Call::fsync);
  test::disarm();
  fs::current_path(before);
  EXPECT_EQ(alone, 2u);
  EXPECT_EQ(within, 2u);
}

// The run above reads no records.
TEST(OpenFault, OfAFileOfRecords) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "records";
  data::RecordWriter writer(path, "");
  writer.add({data::Array::scalar(7)});
  writer.finish();
  test::arm({.call = Call::open, .number = 1, .error = EMFILE});
  std::string said;
  try {
    const data::RecordFile file(path);
  } catch (const IoError& error) {
    said = error.what();
  }
  test::disarm();
  EXPECT_EQ(test::calls(Call::open), 1u);
  EXPECT_TRUE(test::contains(said, "records: cannot read: Too many open files"));
  EXPECT_EQ(data::RecordFile(path).size(), 1);
}

struct Probe {
  std::vector<int> memory = std::vector<int>(7);
};

// Where glibc has no memory to note the destructor of a thread_local, it ends the process.
TEST(AllocationFault, OfWhatAThreadHasOfItsOwn) {
  int refused = 0;
  bool made = false;
  for (uint64_t number = 1; !made && number < 10; ++number) {
    std::thread([&] {
      test::arm({.call = Call::alloc, .number = number, .error = ENOMEM});
      try {
        made = of_this_thread<Probe>().memory.size() == 7;
      } catch (const std::bad_alloc&) {
        ++refused;
      }
      test::disarm();
    }).join();
    if (test::calls(Call::alloc) == 0) GTEST_SKIP() << "a sanitizer allocates";
  }
  EXPECT_TRUE(made);
  EXPECT_EQ(refused, 2);  // the object, and what it holds
}

}  // namespace
}  // namespace heddle
