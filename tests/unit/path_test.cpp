// Names beyond ASCII, from texts to files and back, by the ways that the library takes.
#include "heddle/core/base/path.h"

#include <gtest/gtest.h>

#include <string>
#include <system_error>
#include <vector>

#include "heddle/core/base/folders.h"
#include "heddle/io/atomic_file.h"
#include "heddle/io/read_file.h"
#include "heddle/train/fingerprint.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

const std::string name =
    "\xc3\x9c"
    "bung \xe6\xbc\xa2\xf0\x9f\xa7\xb5";

TEST(Path, TextsAreUtf8AndHaveOneSeparator) {
  const fs::path path = fs::path("a") / name / "b.txt";
  EXPECT_EQ(path.string(), "a/" + name + "/b.txt");
  EXPECT_EQ(path.parent_path().filename().string(), name);
  EXPECT_EQ(path.extension().string(), ".txt");
  EXPECT_EQ(path.lexically_relative("a").string(), name + "/b.txt");
  fs::path longer = path;
  longer += ".\xc3\xbc";
  EXPECT_EQ(longer.filename().string(), "b.txt.\xc3\xbc");
}

// std::filesystem and the system's own calls mean one file.
TEST(Path, AFolderIsTheSameByEveryWay) {
  const test::TemporaryFolder root;
  const std::string folder = root.path() + "/" + name;
  require_writable_folder(folder);
  write_file_atomically(folder + "/file", "text");
  std::error_code code;
  EXPECT_EQ(names_in(root.path(), code), std::vector<std::string>{name});
  EXPECT_EQ(names_in(folder, code), std::vector<std::string>{"file"});
  EXPECT_TRUE(fs::is_directory(folder) && fs::is_regular_file(fs::path(folder) / "file", code));
  EXPECT_EQ(fs::file_size(folder + "/file"), 4u);
  EXPECT_EQ(read_text_file(folder + "/file", "test"), "text");
  EXPECT_EQ(train::data_fingerprint(folder).size(), 16u);
  EXPECT_EQ(fs::canonical(folder, code).filename().string(), name);
  EXPECT_EQ(fs::remove_all(folder, code), 2u);
  EXPECT_FALSE(fs::exists(folder));
}

}  // namespace
}  // namespace heddle
