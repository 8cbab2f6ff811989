// The disk cache: what is stored comes back, and anything else on disk is a miss, never a fault.
#include "heddle/core/base/cache_dir.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "heddle/core/base/cache_files.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

class DiskCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* old = std::getenv("HEDDLE_CACHE_DIR")) old_ = old, had_ = true;
    folder_ = fs::temp_directory_path() / fmt::format("heddle_cache_test_{}", ::getpid());
    fs::remove_all(folder_);
    setenv("HEDDLE_CACHE_DIR", folder_.string().c_str(), 1);
  }
  void TearDown() override {
    fs::remove_all(folder_);
    if (had_) {
      setenv("HEDDLE_CACHE_DIR", old_.c_str(), 1);
    } else {
      unsetenv("HEDDLE_CACHE_DIR");
    }
  }

  static std::vector<uint8_t> bytes(std::string_view text) { return {text.begin(), text.end()}; }
  static void store(const DiskCache& cache, std::string_view identity, std::string_view text) {
    cache.store(identity, text.data(), text.size());
  }

  fs::path folder_;
  std::string old_;
  bool had_ = false;
};

TEST_F(DiskCacheTest, GivesBackWhatWasStored) {
  DiskCache cache("kind", 1);
  EXPECT_FALSE(cache.load("a"));
  store(cache, "a", "payload");
  store(cache, "b", std::string_view("\0\xff\0", 3));
  store(cache, "empty", "");
  EXPECT_EQ(cache.load("a"), bytes("payload"));
  EXPECT_EQ(cache.load("b"), bytes(std::string_view("\0\xff\0", 3)));
  EXPECT_EQ(cache.load("empty"), bytes(""));
  EXPECT_FALSE(cache.load("c"));
  store(cache, "a", "newer");
  EXPECT_EQ(DiskCache("kind", 1).load("a"), bytes("newer"));
}

TEST_F(DiskCacheTest, KindsAndOwnersAreApart) {
  store(DiskCache("kind", 1), "a", "one");
  EXPECT_FALSE(DiskCache("kind", 2).load("a"));
  EXPECT_FALSE(DiskCache("other", 1).load("a"));
}

TEST_F(DiskCacheTest, DamagedFilesAreMisses) {
  DiskCache cache("kind", 1);
  store(cache, "a", "a payload of some length");
  std::string path = cache.path("a");
  auto size = fs::file_size(path);
  auto read_all = [&] {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  std::string good = read_all();
  auto put = [&](const std::string& text) { std::ofstream(path, std::ios::binary | std::ios::trunc) << text; };
  for (size_t i = 0; i < size; ++i) {  // any single byte, but for the label, which is only shown
    if (i >= offsetof(CacheHeader, label) && i < sizeof(CacheHeader)) continue;
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x40);
    put(bad);
    ASSERT_FALSE(cache.load("a")) << "byte " << i;
  }
  for (size_t length :
       {size_t{0}, size_t{1}, sizeof(CacheHeader) - 1, sizeof(CacheHeader), static_cast<size_t>(size - 1)}) {
    put(good.substr(0, length));
    ASSERT_FALSE(cache.load("a")) << "cut to " << length;
  }
  put(good + "x");
  EXPECT_FALSE(cache.load("a"));
  put(good);
  EXPECT_TRUE(cache.load("a"));
}

TEST_F(DiskCacheTest, AFileOfAnotherIdentityIsAMiss) {
  DiskCache cache("kind", 1);
  store(cache, "a", "payload");
  fs::copy_file(cache.path("a"), cache.path("b"));
  EXPECT_FALSE(cache.load("b"));
}

TEST_F(DiskCacheTest, LeavesNoTemporaryFiles) {
  DiskCache cache("kind", 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) store(cache, std::to_string(i), "payload of " + std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "kind")) {
    EXPECT_NE(entry.path().extension(), ".tmp") << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 25u);
  for (int i = 0; i < 25; ++i) EXPECT_EQ(cache.load(std::to_string(i)), bytes("payload of " + std::to_string(i)));
}

TEST_F(DiskCacheTest, CanBeTurnedOffOrBeUnwritable) {
  setenv("HEDDLE_CACHE_DIR", "", 1);
  DiskCache off("kind", 1);
  EXPECT_EQ(off.path("a"), "");
  EXPECT_NO_THROW(store(off, "a", "payload"));
  EXPECT_FALSE(off.load("a"));
  fs::create_directories(folder_);
  std::ofstream(folder_ / "file") << "text";
  setenv("HEDDLE_CACHE_DIR", (folder_ / "file" / "below").string().c_str(), 1);
  DiskCache unwritable("kind", 1);
  EXPECT_NO_THROW(store(unwritable, "a", "payload"));
  EXPECT_FALSE(unwritable.load("a"));
}

TEST_F(DiskCacheTest, FollowsTheEnvironment) {
  EXPECT_EQ(cache_dir(), folder_.string());
  unsetenv("HEDDLE_CACHE_DIR");
#ifdef _WIN32
  const std::string local = std::getenv("LOCALAPPDATA");
  setenv("LOCALAPPDATA", "C:\\Users\\\xc3\xbc\\AppData\\Local", 1);
  setenv("XDG_CACHE_HOME", "C:\\xdg", 1);
  EXPECT_EQ(cache_dir(), "C:/Users/\xc3\xbc/AppData/Local/heddle");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("LOCALAPPDATA");
  EXPECT_EQ(cache_dir(), "");
  setenv("LOCALAPPDATA", local.c_str(), 1);
#else
  std::string xdg = std::getenv("XDG_CACHE_HOME") ? std::getenv("XDG_CACHE_HOME") : "";
  setenv("XDG_CACHE_HOME", "/tmp/xdg", 1);
  EXPECT_EQ(cache_dir(), "/tmp/xdg/heddle");
  unsetenv("XDG_CACHE_HOME");
  if (const char* home = std::getenv("HOME")) {
    EXPECT_EQ(cache_dir(), fmt::format("{}/.cache/heddle", home));
  }
  if (!xdg.empty()) setenv("XDG_CACHE_HOME", xdg.c_str(), 1);
#endif
}

}  // namespace
}  // namespace heddle
