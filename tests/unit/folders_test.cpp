// Lists of folders, and the names of files that were not finished.
#include "heddle/core/base/folders.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "heddle/io/atomic_file.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

TEST(Folders, NamesAndFilesBelow) {
  const test::TemporaryFolder root;
  fs::create_directories(root / "b/d/e");
  fs::create_directories(root / "empty");
  for (const char* name : {"c", "a.txt", "b/2", "b/d/e/3", ".hidden"}) write_file_atomically(root / name, "x");
  // The standard library makes no links on Windows.
  std::error_code error;
  fs::create_symlink("c", root / "to-file", error);
  const bool links = !error;
  ASSERT_TRUE(links || error == std::errc::function_not_supported) << error.message();
  if (links) {
    fs::create_directory_symlink("b", root / "to-folder");
    fs::create_symlink("nowhere", root / "to-nothing");
  }
  error = std::make_error_code(std::errc::io_error);
  Names names = {".hidden", "a.txt", "b", "c", "empty"};
  if (links) names.insert(names.end(), {"to-file", "to-folder", "to-nothing"});
  EXPECT_EQ(names_in(root.path(), error), names);
  EXPECT_FALSE(error);
  Names below;
  for (const std::string& path : files_below(root.path(), error))
    below.push_back(path.substr(std::string(root.path()).size()));
  EXPECT_FALSE(error);
  Names files = {"/.hidden", "/a.txt", "/b/2", "/b/d/e/3", "/c"};
  if (links) files.push_back("/to-file");
  EXPECT_EQ(below, files);
  EXPECT_EQ(names_in(root / "empty", error), Names());
  EXPECT_FALSE(error);
}

TEST(Folders, WhatIsNoFolderIsAnError) {
  const test::TemporaryFolder root;
  write_file_atomically(root / "file", "x");
  std::error_code error;
  EXPECT_EQ(names_in(root / "file", error), Names());
  EXPECT_EQ(error, std::errc::not_a_directory);
  EXPECT_EQ(files_below(root / "nothing", error), Names());
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);
}

TEST(UnfinishedFiles, AreKnownByTheirNamesAndRemoved) {
  EXPECT_EQ(finished_name("model.safetensors.tmp-12-0"), "model.safetensors");
  for (const char* name : {"model.safetensors", "a.tmp-", "a.tmp-1", "a.tmp-1-", "a.tmp--1", "a.tmp-x-1", "12-3", ""})
    EXPECT_EQ(finished_name(name), "") << name;
  const test::TemporaryFolder root;
  for (const char* name : {"a", "a.tmp-3-4", "b.tmp-x-4"}) write_file_atomically(root / name, "x");
  remove_unfinished(root.path());
  std::error_code error;
  EXPECT_EQ(names_in(root.path(), error), (Names{"a", "b.tmp-x-4"}));
}

}  // namespace
}  // namespace heddle
