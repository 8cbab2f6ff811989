// train/run_folder.h and train/fingerprint.h.
#include "heddle/train/run_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/io/atomic_file.h"
#include "heddle/train/fingerprint.h"
#include "tests/support/temporary_folder.h"

namespace heddle::train {
namespace {

using Json = nlohmann::json;
using test::contains;
using test::thrown_text;

class RunFolders : public testing::Test {
 protected:
  test::TemporaryFolder parent;
  const std::string path = parent / "runs/one";
};

TEST_F(RunFolders, HoldsConfigurationEnvironmentAndLines) {
  {
    const RunFolder run(path, false);
    run.write_config(Config());
    run.write_environment(device("reference:0"));
    run.append(R"({"event":"start"})");
    EXPECT_EQ(test::read_text(path + "/metrics.jsonl"), "{\"event\":\"start\"}\n");
  }
  EXPECT_EQ(Config::load(path + "/config.toml").str(), Config().str());
  const RunFolder again(path, true);
  again.write_environment(device("reference:0"));
  again.write_environment(device("null:0"));
  const Json environment = Json::parse(test::read_text(path + "/environment.json"));
  for (const char* key : {"started", "command", "heddle", "commit", "code", "compiler", "host"})
    EXPECT_TRUE(environment.contains(key)) << key;
  EXPECT_EQ(environment["device"]["id"], "null:0");
  ASSERT_EQ(environment["earlier"].size(), 2u);
  EXPECT_EQ(environment["earlier"][1]["device"]["id"], "reference:0");
  EXPECT_FALSE(environment["earlier"][1].contains("earlier"));
  EXPECT_EQ(environment["code"], code_fingerprint());
}

// Printing such a value once ended the process.
TEST_F(RunFolders, AnEnvironmentOfAnyDepthIsReplaced) {
  const RunFolder run(path, false);
  for (const std::string& text : {"{\"a\":" + std::string(200000, '[') + std::string(200000, ']') + "}",
                                  std::string("{\"earlier\": 1}"), std::string("nonsense")}) {
    test::write_bytes(path + "/environment.json", {text.begin(), text.end()});
    run.write_environment(device("reference:0"));
    EXPECT_TRUE(Json::parse(test::read_text(path + "/environment.json")).contains("device"));
  }
}

TEST_F(RunFolders, NoRunIsOverwritten) {
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { RunFolder(path, true); }), "holds no run to go on with"));
  EXPECT_FALSE(std::filesystem::exists(path));
  { const RunFolder run(path, false); }
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { RunFolder(path, false); }),
                       path + ": holds a run; --resume goes on with it, --out names another folder"));
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { RunFolder(path + "/metrics.jsonl", false); }), "is not a folder"));
}

TEST_F(RunFolders, OneProcessAtATime) {
  std::optional<RunFolder> run(std::in_place, path, false);
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { RunFolder(path, true); }),
                       "another process is training into this folder"));
  run->append("{}");
  run.reset();
  // A process that is killed leaves no lock behind.
  const pid_t child = ::fork();
  if (child == 0) {
    const RunFolder held(path, true);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const RunFolder next(path, true);
  EXPECT_EQ(test::read_text(path + "/metrics.jsonl"), "{}\n");
}

TEST_F(RunFolders, AnUnfinishedLineIsCutOff) {
  { const RunFolder run(path, false); }
  for (const auto& [before, after] : std::vector<std::pair<std::string, std::string>>{
           {"{\"a\":1}\n{\"b\":", "{\"a\":1}\n"}, {"{\"a\"", ""}, {"{}\n", "{}\n"}, {"", ""}}) {
    write_file_atomically(path + "/metrics.jsonl", before);
    { const RunFolder run(path, true); }
    EXPECT_EQ(test::read_text(path + "/metrics.jsonl"), after);
  }
}

TEST(Fingerprint, OfDataFollowsNamesSizesAndContents) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "a/b");
  write_file_atomically(folder / "a/b/x", "1234");
  write_file_atomically(folder / "a/y", "");
  const std::string before = data_fingerprint(folder / "a");
  EXPECT_EQ(before.size(), 16u);
  EXPECT_EQ(data_fingerprint(folder / "a"), before);
  write_file_atomically(folder / "a/b/x", "1235");
  EXPECT_NE(data_fingerprint(folder / "a"), before);
  write_file_atomically(folder / "a/b/x", "1234");
  EXPECT_EQ(data_fingerprint(folder / "a"), before);
  std::filesystem::rename(folder / "a/y", folder / "a/z");
  EXPECT_NE(data_fingerprint(folder / "a"), before);
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data_fingerprint(folder / "none"); }), "no such file or folder"));
}

TEST(Fingerprint, OfALargeFileLooksAtItsEnds) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "large";
  std::string text(size_t{65} << 20, 'a');
  text.push_back('b');
  write_file_atomically(path, text);
  const std::string before = data_fingerprint(path);
  for (const size_t at : {size_t{0}, text.size() - 1, size_t{65536} - 1}) {
    std::string changed = text;
    changed[at] = 'c';
    write_file_atomically(path, changed);
    EXPECT_NE(data_fingerprint(path), before) << at;
  }
}

TEST(Fingerprint, OfCodeIsTheSameInEveryCall) {
  EXPECT_EQ(code_fingerprint().size(), 16u);
  EXPECT_NE(code_fingerprint(), "0000000000000000");
  EXPECT_EQ(code_fingerprint(), code_fingerprint());
}

}  // namespace
}  // namespace heddle::train
