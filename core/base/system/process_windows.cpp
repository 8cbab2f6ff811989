#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "heddle/core/base/system/process.h"
#include "heddle/core/base/system/windows_handle.h"

namespace heddle::os {
namespace {

[[noreturn]] void fail(const std::string& doing) {
  throw std::system_error(static_cast<int>(GetLastError()), std::system_category(), doing);
}

// The child's end of a stream, inherited; `mine` is this process's end of a pipe, `output` the child's standard output.
void give(Handle& theirs, Handle& mine, ChildStream stream, DWORD standard, HANDLE output) {
  const bool input = standard == STD_INPUT_HANDLE;
  SECURITY_ATTRIBUTES inherited{sizeof(SECURITY_ATTRIBUTES), nullptr, TRUE};
  if (stream == ChildStream::pipe || stream == ChildStream::broken) {
    HANDLE read = nullptr, write = nullptr;
    if (!CreatePipe(&read, &write, &inherited, 0)) fail("pipe");
    theirs.handle = input ? read : write;
    mine.handle = input ? write : read;
    SetHandleInformation(mine.handle, HANDLE_FLAG_INHERIT, 0);
    if (stream == ChildStream::broken) mine.close();
  } else if (stream == ChildStream::null || stream == ChildStream::full) {
    theirs.handle = CreateFileW(L"NUL", input ? GENERIC_READ : GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                                &inherited, OPEN_EXISTING, 0, nullptr);
  } else if (stream == ChildStream::same || stream == ChildStream::output) {
    const HANDLE from = stream == ChildStream::same ? GetStdHandle(standard) : output;
    DuplicateHandle(GetCurrentProcess(), from, GetCurrentProcess(), &theirs.handle, 0, TRUE, DUPLICATE_SAME_ACCESS);
  }
}

// As CommandLineToArgvW takes it apart.
std::wstring quoted(const std::string& word) {
  if (!word.empty() && word.find_first_of(" \t\n\v\"") == std::string::npos) return wide(word);
  std::string text = "\"";
  size_t slashes = 0;
  for (const char c : word) {
    if (c == '"') text.append(slashes + 1, '\\');  // doubled, and one for the quote
    slashes = c == '\\' ? slashes + 1 : 0;
    text += c;
  }
  return wide(text.append(slashes, '\\') + '"');
}

std::wstring command_of(const std::vector<std::string>& words) {
  std::wstring line;
  for (const std::string& word : words) line += (line.empty() ? L"" : L" ") + quoted(word);
  return line;
}

// "NAME=value" each, ended by an empty one. Names have no case.
std::wstring environment(const std::vector<std::pair<std::string, std::string>>& added) {
  std::wstring block;
  const auto is_added = [&](std::wstring_view entry) {
    return std::any_of(added.begin(), added.end(), [&](const auto& one) {
      const std::wstring name = wide(one.first) + L"=";
      return entry.size() >= name.size() && _wcsnicmp(entry.data(), name.c_str(), name.size()) == 0;
    });
  };
  wchar_t* const own = GetEnvironmentStringsW();
  for (const wchar_t* entry = own; *entry != L'\0'; entry += std::wstring_view(entry).size() + 1) {
    if (!is_added(entry)) block.append(entry).push_back(L'\0');
  }
  FreeEnvironmentStringsW(own);
  for (const auto& [name, value] : added) block.append(wide(name + "=" + value)).push_back(L'\0');
  block.push_back(L'\0');
  return block;
}

// What is read meanwhile; threads read, since pipes cannot be waited for with a limit.
struct Arrived {
  std::mutex mutex;
  std::condition_variable changed;
  std::string text[2];
  int open = 0;

  void read(HANDLE pipe, int which) {
    std::array<char, 4096> chunk;
    DWORD got = 0;
    while (ReadFile(pipe, chunk.data(), static_cast<DWORD>(chunk.size()), &got, nullptr) && got > 0) {
      const std::lock_guard lock(mutex);
      text[which].append(chunk.data(), got);
      changed.notify_all();
    }
    CloseHandle(pipe);
    const std::lock_guard lock(mutex);
    --open;
    changed.notify_all();
  }
};

// All processes of a job end with it.
void make_job(Handle& job) {
  job.handle = CreateJobObjectW(nullptr, nullptr);
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits{};
  limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
  SetInformationJobObject(job.handle, JobObjectExtendedLimitInformation, &limits, sizeof limits);
}

constexpr UINT killed = 0xdead;  // an exit code that programs do not have

}  // namespace

std::string ChildEnd::str() const {
  return exit_code >= 0 ? fmt::format("exit code {}", exit_code)
                        : fmt::format("error 0x{:x}", static_cast<unsigned>(signal));
}

std::string ChildEnd::signal_name() const {
  return signal == 0 ? std::string() : fmt::format("error 0x{:x}", static_cast<unsigned>(signal));
}

bool is_running(int process) {
  const HANDLE handle = OpenProcess(SYNCHRONIZE, FALSE, static_cast<DWORD>(process));
  if (handle == nullptr) return GetLastError() == ERROR_ACCESS_DENIED;
  const bool running = WaitForSingleObject(handle, 0) == WAIT_TIMEOUT;
  CloseHandle(handle);
  return running;
}

struct ChildProcess::State {
  Handle process, job, input;
  DWORD id = 0;
  std::shared_ptr<Arrived> arrived = std::make_shared<Arrived>();
  ChildEnd end;
};

ChildProcess::ChildProcess(const std::string& program, const std::vector<std::string>& words,
                           const ChildOptions& options)
    : state_(std::make_unique<State>()) {
  // Handles of two starts at once would be inherited by both children.
  static std::mutex starting;
  const std::lock_guard lock(starting);
  Handle theirs[3], output, error;
  give(theirs[0], state_->input, options.input, STD_INPUT_HANDLE, nullptr);
  give(theirs[1], output, options.output, STD_OUTPUT_HANDLE, nullptr);
  give(theirs[2], error, options.error, STD_ERROR_HANDLE, theirs[1].handle);
  STARTUPINFOW startup{};
  startup.cb = sizeof startup;
  startup.dwFlags = STARTF_USESTDHANDLES;
  startup.hStdInput = theirs[0].handle;
  startup.hStdOutput = theirs[1].handle;
  startup.hStdError = theirs[2].handle;
  std::wstring line = command_of(words), block = environment(options.variables);
  const std::wstring file = wide_path(program), folder = wide(options.folder);
  const DWORD flags =
      CREATE_UNICODE_ENVIRONMENT | CREATE_SUSPENDED | (options.own_group ? CREATE_NEW_PROCESS_GROUP : 0u);
  PROCESS_INFORMATION made{};
  if (!CreateProcessW(file.c_str(), line.data(), nullptr, nullptr, TRUE, flags, block.data(),
                      folder.empty() ? nullptr : folder.c_str(), &startup, &made))
    fail(program);
  state_->process.handle = made.hProcess;
  state_->id = made.dwProcessId;
  make_job(state_->job);
  AssignProcessToJobObject(state_->job.handle, made.hProcess);
  ResumeThread(made.hThread);
  CloseHandle(made.hThread);
  for (int which = 0; which < 2; ++which) {
    Handle& pipe = which == 0 ? output : error;
    if (pipe.handle == nullptr) continue;
    ++state_->arrived->open;
    // Detached: a process that the child left behind may hold the pipe open.
    std::thread([arrived = state_->arrived, handle = pipe.handle, which] { arrived->read(handle, which); }).detach();
    pipe.handle = nullptr;
  }
}

ChildProcess::~ChildProcess() {
  if (!running()) return;
  kill();
  wait();
}

bool ChildProcess::write(const std::string& text) {
  for (size_t sent = 0; sent < text.size();) {
    DWORD n = 0;
    if (!WriteFile(state_->input.handle, text.data() + sent, static_cast<DWORD>(text.size() - sent), &n, nullptr))
      return false;
    sent += n;
  }
  return true;
}

bool ChildProcess::read(std::string& output, std::string* error, double seconds) {
  Arrived& arrived = *state_->arrived;
  std::unique_lock lock(arrived.mutex);
  arrived.changed.wait_for(lock, std::chrono::duration<double>(std::clamp(seconds, 0.0, 3600.0)),
                           [&] { return arrived.open == 0 || !arrived.text[0].empty() || !arrived.text[1].empty(); });
  output += std::exchange(arrived.text[0], {});
  if (error != nullptr) *error += arrived.text[1];
  arrived.text[1].clear();
  return arrived.open > 0;
}

void ChildProcess::send_signal(int number) {
  if (!running()) return;
  if (number == SIGINT || number == SIGTERM)
    GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, state_->id);
  else
    kill();
}

void ChildProcess::kill() {
  if (!running()) return;
  TerminateJobObject(state_->job.handle, killed);
  TerminateProcess(state_->process.handle, killed);
}

// What a fault ended has the fault's code, 0xC....... .
const ChildEnd& ChildProcess::wait() {
  if (!running()) return state_->end;
  WaitForSingleObject(state_->process.handle, INFINITE);
  DWORD code = killed;
  GetExitCodeProcess(state_->process.handle, &code);
  if (code < 0x80000000u && code != killed)
    state_->end.exit_code = static_cast<int>(code);
  else
    state_->end.signal = static_cast<int>(code);
  state_->process.close();
  return state_->end;
}

bool ChildProcess::running() const { return state_->process.handle != nullptr; }

}  // namespace heddle::os
