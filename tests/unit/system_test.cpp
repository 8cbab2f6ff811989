// What core/base/system promises on every system; children are this program itself, run on one of the disabled tests.
#include <gtest/gtest.h>

#ifndef _WIN32
#include <spawn.h>
#include <sys/wait.h>
#endif

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>

#include "heddle/core/base/files.h"
#include "heddle/core/base/folders.h"
#include "heddle/core/base/system/library.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/process.h"
#include "heddle/core/base/system/signals.h"

#ifdef _WIN32
#include <windows.h>
#endif

#ifndef _WIN32
extern char** environ;
#endif

namespace heddle {
namespace {

using os::ChildOptions;
using os::ChildProcess;
using os::ChildStream;
using Clock = std::chrono::steady_clock;

// ---- children ----

TEST(SystemChild, DISABLED_Echoes) {
  for (std::string line; std::getline(std::cin, line);) std::cout << "<" << line << ">" << std::endl;
}
TEST(SystemChild, DISABLED_Sleeps) {
  std::cout << "asleep" << std::endl;
  std::this_thread::sleep_for(std::chrono::seconds(60));
}
TEST(SystemChild, DISABLED_ExitsWithSeven) { std::_Exit(7); }
TEST(SystemChild, DISABLED_SaysItsVariable) {
  std::cout << "[" << os::variable("HEDDLE_SYSTEM_TEST").value_or("none") << "]" << std::endl;
  std::cerr << "an error" << std::endl;
}

TEST(SystemChild, DISABLED_HoldsAName) {
  const std::string name = os::variable("HEDDLE_SYSTEM_TEST").value_or("");
  std::cout << (os::hold_on_machine(name.c_str()) ? "held" : "taken") << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
  }
}

std::vector<std::string> words(const std::string& test) {
  return {"child", "--gtest_also_run_disabled_tests", "--gtest_filter=SystemChild.DISABLED_" + test};
}

// Until the text has come, or 30 seconds have passed.
bool wait_for(ChildProcess& child, std::string& output, const std::string& text) {
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  while (output.find(text) == std::string::npos && Clock::now() < deadline) {
    if (!child.read(output, nullptr, 0.5)) break;
  }
  return output.find(text) != std::string::npos;
}

// Whether the system says when it starts a child that there is no such program. qemu-user, whose vfork() is a fork(),
// does not: posix_spawn() begins a copy of this process, which ends with 127.
bool missing_programs_are_told() {
#ifndef _WIN32
  char name[] = "program";
  char* const argv[] = {name, nullptr};
  pid_t child = -1;
  if (::posix_spawn(&child, "/no/such/program", nullptr, nullptr, argv, environ) != 0) return true;
  ::waitpid(child, nullptr, 0);
  return false;
#else
  return true;
#endif
}

TEST(SystemProcess, LinesGoBothWaysAndTheEndIsSeen) {
  ChildOptions options;
  options.input = ChildStream::pipe;
  ChildProcess child(os::program_file(), words("Echoes"), options);
  std::string output;
  ASSERT_TRUE(child.write("one\n"));
  EXPECT_TRUE(wait_for(child, output, "<one>")) << output;
  ASSERT_TRUE(child.write("zw\xc3\xb6lf\n"));
  EXPECT_TRUE(wait_for(child, output, "<zw\xc3\xb6lf>")) << output;
  EXPECT_TRUE(child.running());
}

TEST(SystemProcess, ExitCodesAndKillsAreToldApart) {
  ChildProcess seven(os::program_file(), words("ExitsWithSeven"), {});
  std::string output;
  while (seven.read(output, nullptr, 1)) {
  }
  EXPECT_EQ(seven.wait().exit_code, 7);
  EXPECT_EQ(seven.wait().str(), "exit code 7");
  EXPECT_FALSE(seven.running());

  ChildProcess sleeper(os::program_file(), words("Sleeps"), {});
  const auto start = Clock::now();
  EXPECT_TRUE(wait_for(sleeper, output, "asleep")) << output;
  sleeper.kill();
  EXPECT_EQ(sleeper.wait().exit_code, -1);
  EXPECT_NE(sleeper.wait().signal, 0);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(40));
}

TEST(SystemProcess, AReadWaitsNoLongerThanItIsTold) {
  ChildProcess sleeper(os::program_file(), words("Sleeps"), {});
  std::string output;
  ASSERT_TRUE(wait_for(sleeper, output, "asleep"));
  output.clear();
  const auto start = Clock::now();
  EXPECT_TRUE(sleeper.read(output, nullptr, 0.2));
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(150));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
}

TEST(SystemProcess, VariablesReplaceThoseOfThisProcessAndStreamsAreApart) {
  os::set_variable("HEDDLE_SYSTEM_TEST", "outer");
  ChildOptions options;
  options.error = ChildStream::pipe;
  options.variables = {{"HEDDLE_SYSTEM_TEST", "in n\"er\\"}};
  ChildProcess child(os::program_file(), words("SaysItsVariable"), options);
  std::string output, error;
  while (child.read(output, &error, 1)) {
  }
  EXPECT_EQ(child.wait().exit_code, 0);
  EXPECT_NE(output.find("[in n\"er\\]"), std::string::npos) << output;
  EXPECT_EQ(output.find("an error"), std::string::npos) << output;
  EXPECT_NE(error.find("an error"), std::string::npos) << error;
}

TEST(SystemProcess, AMissingProgramIsAnError) {
  if (missing_programs_are_told()) {
    EXPECT_THROW(ChildProcess("/no/such/program", {"program"}, {}), std::system_error);
  } else {
    EXPECT_EQ(ChildProcess("/no/such/program", {"program"}, {}).wait().exit_code, 127);
  }
}

TEST(SystemProcess, AVariableThatIsSetToNothingIsOne) {
  const auto child_says = [](const std::string& text) {
    ChildProcess child(os::program_file(), words("SaysItsVariable"), {});
    std::string output;
    while (child.read(output, nullptr, 1)) {
    }
    return output.find(text) != std::string::npos;
  };
  os::set_variable("HEDDLE_SYSTEM_TEST", "\xc3\xbc \xe6\xbc\xa2" + std::string(1000, 'x'));
  EXPECT_EQ(os::variable("HEDDLE_SYSTEM_TEST")->size(), 1006u);
  EXPECT_TRUE(os::variable("HEDDLE_SYSTEM_TEST")->starts_with("\xc3\xbc \xe6\xbc\xa2"));
  os::set_variable("HEDDLE_SYSTEM_TEST", "");
  EXPECT_EQ(os::variable("HEDDLE_SYSTEM_TEST"), "");
  EXPECT_TRUE(child_says("[]"));
  os::set_variable("HEDDLE_SYSTEM_TEST", std::nullopt);
  EXPECT_EQ(os::variable("HEDDLE_SYSTEM_TEST"), std::nullopt);
  EXPECT_TRUE(child_says("[none]"));
}

// ---- requests to end ----

std::atomic<int> asked = 0;

#ifdef _WIN32
// As Windows does it, for whom a request to end is Ctrl-Break: a thread that begins here.
void ask_to_end(int number) {
  const auto routine = reinterpret_cast<LPTHREAD_START_ROUTINE>(
      reinterpret_cast<void*>(GetProcAddress(GetModuleHandleW(L"kernelbase.dll"), "CtrlRoutine")));
  const UINT_PTR event = number == SIGINT ? CTRL_C_EVENT : number == SIGTERM ? CTRL_BREAK_EVENT : CTRL_CLOSE_EVENT;
  CloseHandle(CreateThread(nullptr, 0, routine, reinterpret_cast<void*>(event), 0, nullptr));
}
#else
void ask_to_end(int number) { std::raise(number); }
#endif

// What the handler was called with; 0 after 30 seconds without.
int answer() {
  for (int i = 0; i < 600 && asked == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return asked;
}

// A process that begins a group hears no Ctrl-C on Windows, and nothing at all on Wine 8.
ChildOptions in_this_group() {
  ChildOptions options;
  options.own_group = false;
  return options;
}

TEST(SystemInterrupts, TheHandlerHearsWhatWasAsked) {
  for (const int number : {SIGINT, SIGTERM}) {
    asked = 0;
    const os::Interrupts interrupts([](int heard) { asked = heard; });
    ask_to_end(number);
    EXPECT_EQ(answer(), number);
  }
}

TEST(SystemChild, DISABLED_IsAskedTwice) {
  const os::Interrupts interrupts([](int heard) { asked = heard; });
  ask_to_end(SIGINT);
  std::cout << "asked by " << answer() << std::endl;
  ask_to_end(SIGTERM);
  std::this_thread::sleep_for(std::chrono::seconds(60));
  std::cout << "survived" << std::endl;
}

TEST(SystemInterrupts, ASecondRequestEndsTheProcess) {
  ChildProcess child(os::program_file(), words("IsAskedTwice"), in_this_group());
  std::string output;
  while (child.read(output, nullptr, 1)) {
  }
  EXPECT_NE(output.find("asked by " + std::to_string(SIGINT)), std::string::npos) << output;
  EXPECT_EQ(output.find("survived"), std::string::npos) << output;
  EXPECT_NE(child.wait().exit_code, 1) << output;
}

#ifdef _WIN32
TEST(SystemChild, DISABLED_SavesWhenItsWindowIsClosed) {
  const os::Interrupts interrupts([](int heard) { asked = heard; });
  ask_to_end(0);
  const int heard = answer();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  std::cout << "saved, asked by " << heard << std::endl;
}

TEST(SystemInterrupts, AWindowThatIsClosedLeavesTimeToSave) {
  ChildProcess child(os::program_file(), words("SavesWhenItsWindowIsClosed"), in_this_group());
  std::string output;
  while (child.read(output, nullptr, 1)) {
  }
  EXPECT_NE(output.find("saved, asked by " + std::to_string(SIGTERM)), std::string::npos) << output;
  EXPECT_EQ(child.wait().exit_code, 0) << output;
}
#endif

// ---- files ----

class SystemFiles : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_FALSE(folder_.empty()); }
  void TearDown() override {
    std::error_code code;
    std::filesystem::remove_all(std::filesystem::path(folder_), code);
    EXPECT_FALSE(code) << code.message();
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  const std::string folder_ =
      os::make_scratch_folder((std::filesystem::temp_directory_path() / "heddle-system").string());
};

bool write_text(const std::string& path, std::string_view text) {
  const Descriptor file(open_file(path, FileAccess::create));
  return file && write_fully(file.number(), text.data(), text.size());
}

std::string text_of(const std::string& path) {
  std::string text;
  return read_contents(path, text) ? text : "unreadable";
}

TEST_F(SystemFiles, NamesBeyondAsciiAndLongPathsAreFiles) {
  const std::string folder = path(std::string(100, 'a'));
  std::string name(180, 'b');
  name += "\xc3\xbc \xe6\xbc\xa2\xf0\x9f\xa7\xb5.txt";
  const std::string file = folder + "/" + name;
  ASSERT_TRUE(std::filesystem::create_directories(std::filesystem::path(folder)));
  ASSERT_TRUE(write_text(file, "a\nb\r\n"));
  EXPECT_EQ(text_of(file), "a\nb\r\n");
  std::error_code error;
  EXPECT_EQ(names_in(folder, error), std::vector<std::string>{name});
  EXPECT_FALSE(error);
  EXPECT_EQ(files_below(path(""), error).size(), 1u);
  EXPECT_TRUE(os::remove_file(file));
}

TEST_F(SystemFiles, AFileIsReplacedWhileItIsRead) {
  ASSERT_TRUE(write_text(path("old"), "old") && write_text(path("new"), "new"));
  const Descriptor open(open_file(path("old"), FileAccess::read));
  ASSERT_TRUE(open);
  EXPECT_TRUE(os::replace_file(path("new"), path("old")));
  EXPECT_EQ(text_of(path("old")), "new");
  char text[4] = {};
  EXPECT_EQ(os::read_at(open.number(), text, 3, 0), 3);
  EXPECT_STREQ(text, "old");
  EXPECT_FALSE(os::facts_of(path("new")));
}

TEST_F(SystemFiles, WhatIsThereIsNotMadeAgain) {
  ASSERT_TRUE(write_text(path("file"), "text"));
  errno = 0;
  EXPECT_LT(open_file(path("file"), FileAccess::create), 0);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_LT(open_file(path("none"), FileAccess::read), 0);
  EXPECT_EQ(errno, ENOENT);
  const Descriptor end(open_file(path("file"), FileAccess::append));
  ASSERT_TRUE(append_whole(end.number(), " more"));
  EXPECT_EQ(text_of(path("file")), "text more");
  EXPECT_TRUE(os::cut_file(end.number(), 2));
  EXPECT_EQ(text_of(path("file")), "te");
  const std::optional<os::FileFacts> facts = os::facts_of(path("file"));
  ASSERT_TRUE(facts);
  EXPECT_TRUE(facts->regular && !facts->folder && facts->bytes == 2);
  EXPECT_NEAR(facts->modified, 0, 30);
  EXPECT_TRUE(os::facts_of(path(""))->folder);
}

TEST_F(SystemFiles, ALockIsHeldUntilItsDescriptorIsClosed) {
  auto first = std::make_unique<Descriptor>(open_file(path("lock"), FileAccess::update));
  const Descriptor second(open_file(path("lock"), FileAccess::update));
  ASSERT_TRUE(*first && second);
  EXPECT_EQ(os::lock_file(first->number()), os::Lock::taken);
  EXPECT_EQ(os::lock_file(second.number()), os::Lock::busy);
  first.reset();
  EXPECT_EQ(os::lock_file(second.number()), os::Lock::taken);
}

// ---- names of the machine ----

TEST(SystemNames, OneProcessHoldsANameUntilItEnds) {
#ifndef __linux__
  GTEST_SKIP() << "the system has no such names";
#endif
  ChildOptions options;
  options.input = ChildStream::pipe;
  const std::string name = "heddle test " + std::to_string(os::process_id());
  options.variables = {{"HEDDLE_SYSTEM_TEST", name}};
  {
    ChildProcess first(os::program_file(), words("HoldsAName"), options);
    std::string output;
    EXPECT_TRUE(wait_for(first, output, "held")) << output;
    EXPECT_FALSE(os::hold_on_machine(name.c_str()));
    ChildProcess second(os::program_file(), words("HoldsAName"), options);
    EXPECT_TRUE(wait_for(second, output, "taken")) << output;
    EXPECT_TRUE(os::hold_on_machine((name + " of its own").c_str()));
  }
  EXPECT_TRUE(os::hold_on_machine(name.c_str()));
}

// ---- the rest ----

TEST(System, ItKnowsItsCodeAndItsMachine) {
  std::error_code code;
  EXPECT_TRUE(std::filesystem::exists(os::file_of_code(reinterpret_cast<const void*>(&names_in)), code));
  EXPECT_GT(os::memory_bytes(), uint64_t{1} << 26);
  EXPECT_GT(os::process_id(), 0);
  EXPECT_FALSE(os::command_line().empty());
  EXPECT_FALSE(os::host_name().empty());
  EXPECT_FALSE(os::system_name().empty());
  for (const os::Vendor vendor : {os::Vendor::opencl, os::Vendor::vulkan, os::Vendor::cuda, os::Vendor::nvrtc,
                                  os::Vendor::cublas, os::Vendor::mpi})
    EXPECT_FALSE(os::names_of(vendor).empty());
  std::string reason;
  EXPECT_EQ(os::open_library("heddle-no-such-library", &reason), nullptr);
  EXPECT_FALSE(reason.empty());
}

TEST(System, AlignedMemoryIsAligned) {
  for (const size_t alignment : {size_t{16}, size_t{256}, size_t{4096}}) {
    void* const memory = os::allocate_aligned(alignment, 1000);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % alignment, 0u);
    os::free_aligned(memory);
  }
}

#ifdef __linux__
// The flags that the system keeps of the mapping around an address.
std::string mapping_flags(const void* memory) {
  std::string all, flags;
  read_contents("/proc/self/smaps", all);
  std::istringstream lines(all);
  const auto at = reinterpret_cast<uintptr_t>(memory);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    unsigned long long first = 0, last = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &first, &last) == 2) inside = at >= first && at < last;
    if (inside && line.starts_with("VmFlags:")) flags = line + " ";
  }
  return flags;
}

TEST(System, LargePagesAreAskedForWhereWholeOnesFit) {
  constexpr size_t page = size_t{2} << 20;
  if (std::filesystem::exists("/sys/kernel/mm/transparent_hugepage/enabled")) {
    const std::unique_ptr<char, void (*)(void*)> memory(static_cast<char*>(os::allocate_aligned(page, 4 * page)),
                                                        os::free_aligned);
    os::prefer_large_pages(memory.get() + page + 1, page);  // holds none
    EXPECT_EQ(mapping_flags(memory.get() + page).find(" hg "), std::string::npos);
    os::prefer_large_pages(memory.get() + 64, 3 * page);
    EXPECT_NE(mapping_flags(memory.get() + page).find(" hg "), std::string::npos);
    EXPECT_NE(mapping_flags(memory.get() + 3 * page - 1).find(" hg "), std::string::npos);
    EXPECT_EQ(mapping_flags(memory.get() + 3 * page).find(" hg "), std::string::npos);
    std::fill_n(memory.get(), 4 * page, '\x5a');
    EXPECT_EQ(memory.get()[3 * page], '\x5a');
  }
}
#endif

}  // namespace
}  // namespace heddle
