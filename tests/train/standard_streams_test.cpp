// Files never get the number of a closed standard stream: what is printed would land in them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <vector>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/files.h"
#include "heddle/data/records.h"
#include "heddle/io/atomic_file.h"
#include "heddle/io/event_file.h"
#include "heddle/io/read_file.h"
#include "heddle/train/fingerprint.h"
#include "heddle/train/run_folder.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

bool streams_are_closed() {
  for (int number = 0; number < 3; ++number) {
    if (::fcntl(number, F_GETFD) >= 0 || errno != EBADF) return false;
  }
  return true;
}

// In a process without standard streams: the number of the first of these whose file took one; 0 for none.
int first_that_takes_a_stream(const std::vector<std::function<bool()>>& all) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int number = 0; number < 3; ++number) ::close(number);
    int at = 0;
    try {
      while (at < static_cast<int>(all.size()) && all[static_cast<size_t>(at)]() && streams_are_closed()) ++at;
    } catch (...) {
    }
    ::_exit(at == static_cast<int>(all.size()) ? 0 : at + 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(StandardStreams, NoFileTakesTheirNumbers) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "file", records = folder / "records";
  EXPECT_EQ(first_that_takes_a_stream({
                [&] { return open_file(path, FileAccess::update) >= 3; },
                [&] {
                  const AtomicFile file(path);
                  return streams_are_closed();
                },
                [&] {
                  write_file_atomically(path, "text");
                  return read_text_file(path, "test") == "text";
                },
                [&] {
                  const EventFile events(folder.path());
                  return streams_are_closed();
                },
                [&] {
                  const train::RunFolder run(folder / "run", false);
                  run.append("{}");
                  return streams_are_closed() && read_text_file(run.file("metrics.jsonl"), "test") == "{}\n" &&
                         read_text_file(run.file(".lock"), "test").empty();
                },
                [&] {
                  data::RecordWriter writer(records, "");
                  if (!streams_are_closed()) return false;
                  writer.add({data::Array::scalar(7)});
                  writer.finish();
                  return data::RecordFile(records).size() == 1 && !train::data_fingerprint(records).empty();
                },
                [&] {
                  ::setenv("HEDDLE_CACHE_DIR", (folder / "cache").c_str(), 1);
                  const DiskCache cache("kind", 1);
                  cache.store("name", "value", 5, "");
                  return cache.load("name").has_value();
                },
            }),
            0);
}

TEST(Files, AnAppendThatFailsLeavesNothing) {
  const test::TemporaryFolder folder;
  const Descriptor file(open_file(folder / "log", FileAccess::append));
  ASSERT_TRUE(append_whole(file.number(), "one\n"));
  const Descriptor readable(open_file(folder / "log", FileAccess::read));
  EXPECT_FALSE(append_whole(readable.number(), "two\n"));
  EXPECT_EQ(errno, EBADF);
  std::string text;
  ASSERT_TRUE(read_contents(folder / "log", text));
  EXPECT_EQ(text, "one\n");
  EXPECT_FALSE(read_contents(folder.path(), text));  // a folder
  EXPECT_FALSE(read_contents(folder / "none", text));
  EXPECT_EQ(errno, ENOENT);
}

}  // namespace
}  // namespace heddle
