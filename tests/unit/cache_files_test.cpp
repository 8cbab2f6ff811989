// The cache folder as a whole: several processes at once, a folder that is full or cannot be written, its limit,
// clearing and packing.
#include "heddle/core/base/cache_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <utime.h>
#ifndef _WIN32
#include <sys/resource.h>
#endif

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/process.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::thrown_text;

class CacheFiles : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"HEDDLE_CACHE_DIR", "HEDDLE_CACHE_MB"}) {
      if (const char* value = std::getenv(name))
        before_.emplace_back(name, value);
      else
        before_.emplace_back(name, std::nullopt);
    }
    setenv("HEDDLE_CACHE_DIR", root().c_str(), 1);
    unsetenv("HEDDLE_CACHE_MB");
  }
  void TearDown() override {
    for (const auto& [name, value] : before_) {
      if (value)
        setenv(name.c_str(), value->c_str(), 1);
      else
        unsetenv(name.c_str());
    }
  }

  std::string root() const { return folder_ / "cache"; }
  static std::string payload(int i, size_t bytes = 3000) {
    return std::string(bytes, static_cast<char>('a' + i % 26)) + std::to_string(i);
  }
  static void store(const DiskCache& cache, int i, size_t bytes = 3000) {
    const std::string text = payload(i, bytes);
    cache.store(fmt::format("entry {}", i), text.data(), text.size(), fmt::format("kernel_{}", i));
  }
  static bool holds(const DiskCache& cache, int i, size_t bytes = 3000) {
    const auto found = cache.load(fmt::format("entry {}", i));
    return found && std::string(found->begin(), found->end()) == payload(i, bytes);
  }
  // Makes the entry look as if it was last used that long ago.
  static void age(const std::string& file, int64_t seconds) {
    const time_t then = std::time(nullptr) - seconds;
    utimbuf times{then, then};
    ASSERT_EQ(::utime(file.c_str(), &times), 0);
  }
  // This program, running that test of CacheFilesChild with that cache folder.
  static std::unique_ptr<os::ChildProcess> start(const std::string& test, const std::string& cache) {
    os::ChildOptions options;
    options.error = os::ChildStream::pipe;
    options.variables = {{"HEDDLE_CACHE_DIR", cache}};
    return std::make_unique<os::ChildProcess>(
        os::program_file(),
        std::vector<std::string>{"child", "--gtest_also_run_disabled_tests",
                                 "--gtest_filter=CacheFilesChild.DISABLED_" + test},
        options);
  }
  // What it wrote to stderr; it must pass.
  static std::string in_child(const std::string& test, const std::string& cache) {
    const std::unique_ptr<os::ChildProcess> child = start(test, cache);
    std::string output, error;
    while (child->read(output, &error, 1)) {
    }
    EXPECT_EQ(child->wait().exit_code, 0) << output << error;
    return error;
  }
  static size_t count(const std::string& text, const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  }

  test::TemporaryFolder folder_;
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

// ---- processes: the tests of this class, each run by one below with a cache folder of its own ----

class CacheFilesChild : public CacheFiles {
 protected:
  void SetUp() override {}
};

constexpr int shared_entries = 20;

TEST_F(CacheFilesChild, DISABLED_WritesAndReads) {
  const DiskCache cache("kind", 7);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < shared_entries; ++i) {
      store(cache, i);
      ASSERT_TRUE(holds(cache, i)) << i << ": stored before, so always whole";
    }
  }
}
TEST_F(CacheFilesChild, DISABLED_StoresInVain) {
  const DiskCache first("kind", 7), second("other", 8);
  for (int i = 0; i < 5; ++i) {
    store(first, i);
    store(second, i);
    EXPECT_FALSE(holds(first, i));
  }
}

TEST_F(CacheFiles, ManyProcessesMayWriteAndReadAtOnce) {
  std::vector<std::unique_ptr<os::ChildProcess>> children;
  for (int p = 0; p < 6; ++p) children.push_back(start("WritesAndReads", root()));
  for (const auto& child : children) {
    std::string output;
    while (child->read(output, &output, 1)) {
    }
    EXPECT_EQ(child->wait().exit_code, 0) << output;
  }
  std::vector<CacheEntry> list = list_cache(root(), true);
  std::erase_if(list, [](const CacheEntry& entry) { return entry.kind != "kind"; });  // what drivers were asked for
  EXPECT_EQ(list.size(), static_cast<size_t>(shared_entries));
  for (const CacheEntry& entry : list) EXPECT_TRUE(entry.intact && entry.current) << entry.file;
  for (const auto& file : fs::directory_iterator(root() + "/kind")) EXPECT_NE(file.path().extension(), ".tmp");
}

TEST_F(CacheFiles, AFolderThatCannotBeWrittenIsOneWarning) {
  test::write_bytes(folder_ / "file", {1});
  const std::string text = in_child("StoresInVain", folder_ / "file" + "/below");
  EXPECT_EQ(count(text, "warning"), 1u) << text;
  EXPECT_TRUE(contains(text, "Not a directory"));
  EXPECT_TRUE(contains(text, "HEDDLE_CACHE_DIR"));
}

#ifndef _WIN32
// Windows has no limit of files' sizes.
TEST_F(CacheFilesChild, DISABLED_StoresOnAFullDisk) {
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1000, 1000};  // bytes a file may have: a write beyond fails as on a full disk
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const DiskCache cache("kind", 7);
  for (int i = 0; i < 5; ++i) store(cache, i);
  EXPECT_FALSE(holds(cache, 0));
}

TEST_F(CacheFiles, AFullDiskIsOneWarningAndLeavesNoHalfFiles) {
  const std::string text = in_child("StoresOnAFullDisk", root());
  EXPECT_EQ(count(text, "warning"), 1u) << text;
  EXPECT_TRUE(fs::is_empty(root() + "/kind"));
}
#endif

// ---- the rest ----

TEST_F(CacheFiles, TheLeastRecentlyUsedGoFirst) {
  setenv("HEDDLE_CACHE_MB", "1", 1);
  const DiskCache cache("kind", 7);
  constexpr size_t large = 200 << 10;
  for (int i = 0; i < 4; ++i) {
    store(cache, i, large);
    age(cache.path(fmt::format("entry {}", i)), 1000 - i);
  }
  EXPECT_TRUE(holds(cache, 0, large)) << "a load is a use";
  for (int i = 4; i < 7; ++i) store(cache, i, large);
  EXPECT_TRUE(holds(cache, 0, large));
  EXPECT_FALSE(holds(cache, 1, large)) << "the longest idle";
  for (int i = 4; i < 7; ++i) EXPECT_TRUE(holds(cache, i, large)) << i;
  uint64_t bytes = 0;
  for (const CacheEntry& entry : list_cache(root(), false)) bytes += entry.bytes;
  EXPECT_LE(bytes, uint64_t{1} << 20);
}

TEST_F(CacheFiles, WhatAKilledProcessLeftIsSweptUp) {
  store(DiskCache("kind", 7), 1);
  const std::string young = root() + "/kind/0123.17.0.tmp", old = root() + "/kind/0123.18.0.tmp",
                    foreign = root() + "/kind/notes.txt";
  for (const std::string& file : {young, old, foreign}) test::write_bytes(file, {1, 2, 3});
  age(old, 7200);
  age(foreign, 7200);
  EXPECT_EQ(trim_cache(root(), 0).files, 1u);
  EXPECT_TRUE(fs::exists(young)) << "its writer may be at work";
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(foreign)) << "not ours";
}

TEST_F(CacheFiles, ReplacesADamagedEntry) {
  const DiskCache cache("kind", 7);
  store(cache, 1);
  const std::string file = cache.path("entry 1");
  std::vector<uint8_t> bytes = test::read_bytes(file);
  bytes[bytes.size() - 5] ^= 1;
  test::write_bytes(file, bytes);
  EXPECT_FALSE(holds(cache, 1));
  EXPECT_FALSE(list_cache(root(), true).at(0).intact);
  store(cache, 1);
  EXPECT_TRUE(holds(cache, 1));
  EXPECT_TRUE(list_cache(root(), true).at(0).intact);
}

TEST_F(CacheFiles, ClearsAKindOrAll) {
  const DiskCache a("a", 7), b("b", 7);
  for (int i = 0; i < 3; ++i) store(a, i);
  store(b, 9);
  EXPECT_EQ(clear_cache(root(), "a").files, 3u);
  EXPECT_TRUE(holds(b, 9));
  EXPECT_EQ(clear_cache(root()).files, 1u);
  EXPECT_TRUE(list_cache(root(), false).empty());
  EXPECT_EQ(clear_cache(folder_ / "nowhere").files, 0u);
}

TEST_F(CacheFiles, APackCarriesUsableEntriesToAnotherFolder) {
  const DiskCache a("a", 7), b("b", 8);
  for (int i = 0; i < 3; ++i) store(a, i);
  store(b, 9);
  const std::string damaged = a.path("entry 1");
  fs::resize_file(damaged, fs::file_size(damaged) - 1);
  const std::string pack = folder_ / "kernels.pack";
  EXPECT_EQ(pack_cache(root(), pack).size(), 3u);
  setenv("HEDDLE_CACHE_DIR", (folder_ / "elsewhere").c_str(), 1);
  const std::vector<CacheEntry> unpacked = unpack_cache(pack, folder_ / "elsewhere", NativeCode::trusted).entries;
  ASSERT_EQ(unpacked.size(), 3u);
  for (const CacheEntry& entry : unpacked)
    EXPECT_TRUE(entry.intact && entry.current && entry.label.starts_with("kernel_"));
  const DiskCache other_a("a", 7), other_b("b", 8);
  EXPECT_TRUE(holds(other_a, 0) && holds(other_a, 2) && holds(other_b, 9));
  EXPECT_FALSE(holds(other_a, 1));
  EXPECT_FALSE(holds(DiskCache("a", 1234), 0)) << "another driver's";
}

TEST_F(CacheFiles, APacksMachineCodeIsTakenOnlyFromATrustedFile) {
  for (const char* kind : {"spirv", "launch", "opencl", "cuda", "vulkan-pipelines"}) store(DiskCache(kind, 7), 0);
  const std::string pack = folder_ / "kernels.pack";
  ASSERT_EQ(pack_cache(root(), pack).size(), 5u);
  const Unpacked plain = unpack_cache(pack, folder_ / "plain");
  EXPECT_EQ(plain.refused, 3u);
  ASSERT_EQ(plain.entries.size(), 2u);
  for (const CacheEntry& entry : list_cache(folder_ / "plain", true))
    EXPECT_TRUE(entry.kind == "spirv" || entry.kind == "launch") << entry.kind;
  const Unpacked trusted = unpack_cache(pack, folder_ / "trusted", NativeCode::trusted);
  EXPECT_EQ(trusted.refused, 0u);
  EXPECT_EQ(list_cache(folder_ / "trusted", true).size(), 5u);
}

TEST_F(CacheFiles, ABadPackIsRefusedAndChangesNothing) {
  store(DiskCache("a", 7), 0);
  const std::string pack = folder_ / "kernels.pack", bad = folder_ / "bad.pack", target = folder_ / "elsewhere";
  pack_cache(root(), pack);
  const std::vector<uint8_t> good = test::read_bytes(pack);
  for (size_t at = 0; at < good.size(); at += 37) {
    std::vector<uint8_t> bytes = good;
    bytes[at] ^= 0x20;
    test::write_bytes(bad, bytes);
    EXPECT_THROW(unpack_cache(bad, target), IoError) << "byte " << at;
  }
  for (size_t length : {size_t{0}, size_t{10}, good.size() - 1}) {
    test::write_bytes(bad, {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)});
    EXPECT_THROW(unpack_cache(bad, target), IoError) << length;
  }
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { unpack_cache(folder_ / "none", target); }), "is not a file"));
  EXPECT_FALSE(fs::exists(target));
}

// Each of the two could lead out of the folder.
TEST_F(CacheFiles, APackWithABadNameOfAKindOrOfAFileIsRefused) {
  const DiskCache cache("a", 7);
  store(cache, 0);
  const std::string pack = folder_ / "kernels.pack", target = folder_ / "elsewhere", file = cache.path("entry 0");
  const auto text = [&] {
    pack_cache(root(), pack);
    return thrown_text<IoError>([&] { unpack_cache(pack, target); });
  };
  fs::rename(file, file + ".x");
  EXPECT_TRUE(contains(text(), ".x' is no name of an entry"));
  fs::rename(file + ".x", file);
  fs::rename(fs::path(root()) / "a", fs::path(root()) / "..a");  // Windows drops dots at a name's end
  EXPECT_TRUE(contains(text(), "'..a/"));
  EXPECT_FALSE(fs::exists(target));
}

}  // namespace
}  // namespace heddle
