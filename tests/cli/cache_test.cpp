// heddle cache, as a script meets it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "heddle/core/base/cache_dir.h"
#include "tests/cli/subprocess.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::contains;
using test::Finished;

class CacheCommand : public testing::Test {
 protected:
  Finished run(const std::vector<std::string>& arguments, const std::string& cache = "cache") const {
    std::vector<std::string> all{"cache"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return test::run_heddle(all, {.environment = {{"HEDDLE_CACHE_DIR", folder_ / cache}, {"HEDDLE_CACHE_MB", "7"}}});
  }
  Json json(const std::vector<std::string>& arguments, const std::string& cache = "cache") const {
    const Finished done = run(arguments, cache);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return Json::parse(done.out);
  }
  test::TemporaryFolder folder_;
};

// Writes entries in this process, whose environment is the parent's.
void store(const std::string& root, const std::string& identity, const char* kind = "spirv") {
  const char* before = std::getenv("HEDDLE_CACHE_DIR");
  const std::string kept = before ? before : "";
  setenv("HEDDLE_CACHE_DIR", root.c_str(), 1);
  DiskCache(kind, 0).store(identity, identity.data(), identity.size(), "kernel");
  before ? setenv("HEDDLE_CACHE_DIR", kept.c_str(), 1) : unsetenv("HEDDLE_CACHE_DIR");
}

TEST_F(CacheCommand, ListsPacksUnpacksAndClears) {
  EXPECT_TRUE(json({"list", "--json"})["entries"].empty()) << "a folder that does not exist yet";
  store(folder_ / "cache", "one");
  store(folder_ / "cache", "another");
  const Json listed = json({"list", "--json"});
  EXPECT_EQ(listed["folder"], folder_ / "cache");
  EXPECT_EQ(listed["limit_bytes"], 7 << 20);
  ASSERT_EQ(listed["entries"].size(), 2u);
  for (const Json& entry : listed["entries"]) {
    EXPECT_EQ(entry["kind"], "spirv");
    EXPECT_EQ(entry["label"], "kernel");
    EXPECT_EQ(entry["usable"], true);
  }
  EXPECT_TRUE(contains(run({"list", "--entries"}).out, "2 entries"));
  const std::string pack = folder_ / "kernels.pack";
  EXPECT_EQ(json({"pack", pack, "--json"})["entries"].size(), 2u);
  EXPECT_EQ(json({"unpack", pack, "--json"}, "copy")["entries"].size(), 2u);
  EXPECT_EQ(json({"list", "--json"}, "copy")["entries"].size(), 2u);
  EXPECT_EQ(json({"clear", "--kind", "opencl", "--json"})["removed"], 0);
  EXPECT_EQ(json({"clear", "--json"})["removed"], 2);
  EXPECT_TRUE(json({"list", "--json"})["entries"].empty());
}

TEST_F(CacheCommand, UnpackingLeavesMachineCodeOut) {
  store(folder_ / "cache", "one");
  store(folder_ / "cache", "machine code", "opencl");
  const std::string pack = folder_ / "kernels.pack";
  EXPECT_EQ(json({"pack", pack, "--json"})["entries"].size(), 2u);
  const Finished plain = run({"unpack", pack}, "copy");
  EXPECT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_TRUE(contains(plain.out, "1 entries, ") &&
              contains(plain.out, "1 entries of machine code were left out; --trust-native-code takes them"))
      << plain.out;
  EXPECT_EQ(json({"list", "--json"}, "copy")["entries"].size(), 1u);
  EXPECT_EQ(json({"unpack", pack, "--json", "--trust-native-code"}, "copy")["refused"], 0);
  EXPECT_EQ(json({"list", "--json"}, "copy")["entries"].size(), 2u);
}

void expect_refused(const Finished& run, const std::string& part) {
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(contains(run.err, part));
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
}

TEST_F(CacheCommand, BadInputIsAUserError) {
  test::write_bytes(folder_ / "text", {'h', 'i'});
  expect_refused(run({"unpack", folder_ / "text"}), "is no pack");
  expect_refused(run({"unpack", folder_ / "missing"}), "is not a file");
  expect_refused(run({"pack", folder_ / "no/such/folder/file"}), "No such file");
  expect_refused(run({}), "subcommand");
  expect_refused(test::run_heddle({"cache", "list"}, {.environment = {{"HEDDLE_CACHE_DIR", ""}}}), "no cache folder");
}

}  // namespace
}  // namespace heddle
