// The cache folder as a whole: several processes at once, a folder that is full or cannot be written, its limit,
// clearing and packing.
#include "heddle/core/base/cache_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <utime.h>
#ifndef _WIN32
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/error.h"
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
#ifndef _WIN32
  // Runs `work` in a child process and returns what it wrote to stderr; its exit code must be 0.
  static std::string in_child(const std::function<int()>& work) {
    int ends[2];
    if (::pipe(ends) != 0) ADD_FAILURE() << "no pipe";
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(ends[1], 2);
      ::_exit(work());
    }
    ::close(ends[1]);
    std::string text;
    char buffer[256];
    for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text;
    return text;
  }
#endif
  static size_t count(const std::string& text, const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  }

  test::TemporaryFolder folder_;
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

#ifndef _WIN32
// Copies of this process, and limits of one, are what Windows does not have.
TEST_F(CacheFiles, ManyProcessesMayWriteAndReadAtOnce) {
  constexpr int processes = 6, entries = 20, rounds = 10;
  std::vector<pid_t> children;
  for (int p = 0; p < processes; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      const DiskCache cache("kind", 7);
      for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < entries; ++i) {
          store(cache, i);
          const auto found = cache.load(fmt::format("entry {}", i));
          if (!found || std::string(found->begin(), found->end()) != payload(i))
            ::_exit(1);  // stored before, so always whole
        }
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  const std::vector<CacheEntry> list = list_cache(root(), true);
  EXPECT_EQ(list.size(), static_cast<size_t>(entries));
  for (const CacheEntry& entry : list) EXPECT_TRUE(entry.intact && entry.current) << entry.file;
  for (const auto& file : fs::directory_iterator(root() + "/kind")) EXPECT_NE(file.path().extension(), ".tmp");
}

TEST_F(CacheFiles, AFolderThatCannotBeWrittenIsOneWarning) {
  test::write_bytes(folder_ / "file", {1});
  const std::string text = in_child([&] {
    setenv("HEDDLE_CACHE_DIR", (folder_ / "file" + "/below").c_str(), 1);
    const DiskCache first("kind", 7), second("other", 8);
    for (int i = 0; i < 5; ++i) {
      store(first, i);
      store(second, i);
      if (holds(first, i)) return 1;
    }
    return 0;
  });
  EXPECT_EQ(count(text, "warning"), 1u) << text;
  EXPECT_TRUE(contains(text, "Not a directory"));
  EXPECT_TRUE(contains(text, "HEDDLE_CACHE_DIR"));
}

TEST_F(CacheFiles, AFullDiskIsOneWarningAndLeavesNoHalfFiles) {
  const std::string text = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};  // bytes a file may have: a write beyond fails as on a full disk
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
    const DiskCache cache("kind", 7);
    for (int i = 0; i < 5; ++i) store(cache, i);
    return holds(cache, 0) ? 1 : 0;
  });
  EXPECT_EQ(count(text, "warning"), 1u) << text;
  EXPECT_TRUE(fs::is_empty(root() + "/kind"));
}
#endif

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
  fs::rename(fs::path(root()) / "a", fs::path(root()) / "a..");
  EXPECT_TRUE(contains(text(), "'a../"));
  EXPECT_FALSE(fs::exists(target));
}

}  // namespace
}  // namespace heddle
