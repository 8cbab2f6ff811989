// A program run in a console that asks it to end, as a user's hand does; for Windows (tools/cross/windows.sh).
//   heddle_console_event C|BREAK|CLOSE LINES PROGRAM WORDS...
// What the program prints is passed on; once it has printed that many lines it is asked. Ends as the program does.
// Ctrl-C goes through the console. Wine 8's has nothing else: for the others the thread is begun in the program that
// Windows itself begins there.
#include <windows.h>
// It needs the one above.
#include <tlhelp32.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/process.h"
#include "heddle/core/base/system/terminal.h"
#include "heddle/core/base/system/windows_handle.h"

namespace heddle {
namespace {

// Standard streams stay what they were. A program that Wine began without a terminal has half a console: away with it.
void make_console() {
  constexpr DWORD streams[] = {STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE};
  HANDLE before[3];
  for (int i = 0; i < 3; ++i) before[i] = GetStdHandle(streams[i]);
  if (GetConsoleWindow() == nullptr) FreeConsole();
  AllocConsole();  // fails where there is one
  for (int i = 0; i < 3; ++i) SetStdHandle(streams[i], before[i]);
  // Ctrl-C reaches all programs of a console: this one goes on.
  SetConsoleCtrlHandler([](DWORD) -> BOOL { return TRUE; }, TRUE);
}

// The id of the process of that file which this one began; 0: there is none.
DWORD child_of_file(const std::wstring& file) {
  const os::Handle all(CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0));
  PROCESSENTRY32W entry{};
  entry.dwSize = sizeof entry;
  for (BOOL more = Process32FirstW(all.handle, &entry); more; more = Process32NextW(all.handle, &entry)) {
    const std::wstring name = entry.szExeFile;
    if (entry.th32ParentProcessID == GetCurrentProcessId() && file.ends_with(name)) return entry.th32ProcessID;
  }
  return 0;
}

bool begin_event_there(DWORD process, DWORD event) {
  const auto routine = reinterpret_cast<LPTHREAD_START_ROUTINE>(
      reinterpret_cast<void*>(GetProcAddress(GetModuleHandleW(L"kernelbase.dll"), "CtrlRoutine")));
  const os::Handle there(OpenProcess(PROCESS_ALL_ACCESS, FALSE, process));
  const auto argument = reinterpret_cast<void*>(static_cast<UINT_PTR>(event));
  const os::Handle thread(CreateRemoteThread(there.handle, nullptr, 0, routine, argument, 0, nullptr));
  return thread.open();
}

bool send(const std::string& event, const std::string& program) {
  if (event == "C") return GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0) != 0;
  return begin_event_there(child_of_file(os::wide(program)), event == "BREAK" ? CTRL_BREAK_EVENT : CTRL_CLOSE_EVENT);
}

int run(const std::vector<std::string>& words) {
  const long wanted = std::atol(words.at(2).c_str());
  os::ChildOptions options;
  options.own_group = false;
  options.error = os::ChildStream::same;
  os::ChildProcess child(words.at(3), {words.begin() + 3, words.end()}, options);
  long lines = 0;
  bool sent = false;
  for (std::string output; child.read(output, nullptr, 1); output.clear()) {
    std::fwrite(output.data(), 1, output.size(), stdout);
    lines += std::count(output.begin(), output.end(), '\n');
    if (sent || lines < wanted) continue;
    sent = true;
    if (!send(words.at(1), words.at(3)))
      std::fprintf(stderr, "heddle_console_event: nothing could be sent: error %lu\n", GetLastError());
  }
  return child.wait().exit_code;
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) try {
  heddle::os::occupy_standard_streams();
  heddle::make_console();
  return heddle::run(heddle::os::arguments(argc, argv));
} catch (const std::exception& error) {
  std::fprintf(stderr, "heddle_console_event: %s\n", error.what());
  return 2;
}
