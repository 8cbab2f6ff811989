// What <heddle/heddle.h> brings: the headers behind it, followed by the text of their includes. None of them belongs to
// the planner, and none needs another library than the standard one.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace heddle {
namespace {

namespace fs = std::filesystem;

// Rooms that a program's compiler never sees.
constexpr const char* planner_rooms[] = {"tiles",      "reference", "ir",    "record",  "simplify",
                                         "specialise", "schedule",  "lower", "dialect", "run"};
// What a program reads of the two rooms that are half public.
const std::set<std::string>& public_halves() {
  static const std::set<std::string> files = {"core/contract/device_info.h", "core/contract/handles.h",
                                              "core/memory/memory_budget.h", "core/memory/memory_report.h"};
  return files;
}

// Why a header may not be reached; empty when it may.
std::string complaint(const std::string& file) {
  for (const char* room : planner_rooms)
    if (file.starts_with(std::string("core/") + room + "/")) return "belongs to the planner";
  const bool half = file.starts_with("core/contract/") || file.starts_with("core/memory/");
  if (half && !public_halves().contains(file)) return "is not of the public half of its room";
  const std::string top = file.substr(0, file.find('/'));
  static const std::set<std::string> folders = {"heddle.h", "core", "autograd", "nn", "data", "io"};
  return folders.contains(top) ? "" : "is no folder of the public library";
}

// Of a library that is not the standard one.
bool foreign(const std::string& name) {
  return name.find('/') != std::string::npos || name.find('.') != std::string::npos;
}

struct Reached {
  std::map<std::string, std::string> by;                    // a header -> which one includes it
  std::vector<std::pair<std::string, std::string>> others;  // a header of ours -> <name>
};

Reached reached(const fs::path& root) {
  static const std::regex pattern("^\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"]");
  Reached all;
  all.by["heddle.h"] = "";
  std::vector<std::string> open = {"heddle.h"};
  while (!open.empty()) {
    const std::string file = open.back();
    open.pop_back();
    std::ifstream in(root / file);
    EXPECT_TRUE(in.good()) << file << ", included by " << all.by[file] << ", is not there";
    std::smatch match;
    for (std::string line; std::getline(in, line);) {
      if (!std::regex_search(line, match, pattern)) continue;
      const std::string name = match[2];
      if (!name.starts_with("heddle/"))
        all.others.emplace_back(file, name);
      else if (all.by.emplace(name.substr(7), file).second)
        open.push_back(name.substr(7));
    }
  }
  return all;
}

TEST(PublicHeaders, NoneBelongsToThePlanner) {
  const Reached all = reached(HEDDLE_SOURCE_DIR);
  for (const auto& [file, by] : all.by) EXPECT_EQ(complaint(file), "") << file << ", included by " << by;
  EXPECT_GT(all.by.size(), 80u);  // the walk really followed the includes
}

TEST(PublicHeaders, OnlyTheStandardLibraryStandsBehindThem) {
  for (const auto& [file, name] : reached(HEDDLE_SOURCE_DIR).others)
    EXPECT_FALSE(foreign(name)) << file << " includes <" << name << ">";
}

TEST(PublicHeaders, BringWhatAProgramNeeds) {
  const Reached all = reached(HEDDLE_SOURCE_DIR);
  for (const char* file : {"data/loader.h", "data/image_file.h", "data/csv.h", "data/records.h", "io/safetensors.h",
                           "nn/nn.h", "core/compile/compile.h", "core/graph/future.h", "core/inspect/profile.h"})
    EXPECT_TRUE(all.by.contains(file)) << file;
}

TEST(PublicHeaders, EachOpensWithItsPurpose) {
  for (const auto& [file, by] : reached(HEDDLE_SOURCE_DIR).by) {
    std::ifstream in(fs::path(HEDDLE_SOURCE_DIR) / file);
    std::string line;
    std::getline(in, line);
    EXPECT_TRUE(line.starts_with("// ")) << file << " opens with: " << line;
  }
}

TEST(PublicHeaders, TheRuleItself) {
  EXPECT_EQ(complaint("core/graph/tensor.h"), "");
  EXPECT_EQ(complaint("core/contract/device_info.h"), "");
  EXPECT_NE(complaint("core/contract/device.h"), "");
  EXPECT_NE(complaint("core/memory/arena.h"), "");
  EXPECT_NE(complaint("core/run/planner.h"), "");
  EXPECT_NE(complaint("backend_cuda/device.h"), "");
  EXPECT_TRUE(foreign("fmt/format.h"));
  EXPECT_TRUE(foreign("nlohmann/json.hpp"));
  EXPECT_FALSE(foreign("vector"));
}

}  // namespace
}  // namespace heddle
