#include <fcntl.h>
#include <fmt/format.h>
#include <io.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "heddle/core/base/system/files.h"
#include "heddle/core/base/system/windows_handle.h"

namespace heddle::os {
namespace {

constexpr DWORD share_all = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
constexpr size_t largest_piece = size_t{1} << 30;  // of one call

HANDLE handle_of(int descriptor) { return reinterpret_cast<HANDLE>(_get_osfhandle(descriptor)); }

bool told(BOOL done) {
  if (!done) set_errno();
  return done != 0;
}

// Open files can be renamed and removed, as elsewhere.
HANDLE open_handle(const std::string& path, FileAccess access) {
  const bool reads = access == FileAccess::read || access == FileAccess::update || access == FileAccess::append;
  const bool creates =
      access == FileAccess::create || access == FileAccess::create_own || access == FileAccess::create_append;
  const DWORD wanted =
      (reads ? GENERIC_READ : 0u) | (access == FileAccess::read ? FILE_WRITE_ATTRIBUTES : GENERIC_WRITE);
  const DWORD how = access == FileAccess::read ? OPEN_EXISTING : creates ? CREATE_NEW : OPEN_ALWAYS;
  const std::wstring name = wide_path(path);
  HANDLE handle = CreateFileW(name.c_str(), wanted, share_all, nullptr, how, FILE_ATTRIBUTE_NORMAL, nullptr);
  // A file that may not be changed cannot have its time of use noted either.
  if (handle == INVALID_HANDLE_VALUE && access == FileAccess::read && GetLastError() == ERROR_ACCESS_DENIED)
    handle = CreateFileW(name.c_str(), GENERIC_READ, share_all, nullptr, how, FILE_ATTRIBUTE_NORMAL, nullptr);
  return handle;
}

bool is_folder(const std::string& path) {
  const DWORD attributes = GetFileAttributesW(wide_path(path).c_str());
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

int open_once(const std::string& path, FileAccess access) {
  const HANDLE handle = open_handle(path, access);
  if (handle == INVALID_HANDLE_VALUE) {
    set_errno();
    if (errno == EACCES && is_folder(path)) errno = EISDIR;
    return -1;
  }
  const bool appends = access == FileAccess::append || access == FileAccess::create_append;
  const int descriptor =
      _open_osfhandle(reinterpret_cast<intptr_t>(handle), _O_BINARY | _O_NOINHERIT | (appends ? _O_APPEND : 0) |
                                                              (access == FileAccess::read ? _O_RDONLY : 0));
  if (descriptor < 0) CloseHandle(handle);
  return descriptor;
}

uint64_t joined(DWORD high, DWORD low) { return static_cast<uint64_t>(high) << 32 | low; }
uint64_t ticks(const FILETIME& time) { return joined(time.dwHighDateTime, time.dwLowDateTime); }

double seconds_since(const FILETIME& then) {
  FILETIME now{};
  GetSystemTimePreciseAsFileTime(&now);
  return 1e-7 * (static_cast<double>(ticks(now)) - static_cast<double>(ticks(then)));
}

// Of a file or folder, or of a link itself, without opening what it holds; sets errno where it cannot be.
HANDLE to_ask(const std::string& path, bool follow) {
  const DWORD flags = FILE_FLAG_BACKUP_SEMANTICS | (follow ? 0u : FILE_FLAG_OPEN_REPARSE_POINT);
  const HANDLE handle =
      CreateFileW(wide_path(path).c_str(), FILE_READ_ATTRIBUTES, share_all, nullptr, OPEN_EXISTING, flags, nullptr);
  if (handle == INVALID_HANDLE_VALUE) set_errno();
  return handle;
}

std::optional<FileFacts> facts_of_handle(HANDLE handle) {
  BY_HANDLE_FILE_INFORMATION info{};
  if (!told(GetFileInformationByHandle(handle, &info))) return std::nullopt;
  FileFacts result;
  result.folder = (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  result.regular = !result.folder && GetFileType(handle) == FILE_TYPE_DISK;
  result.bytes = joined(info.nFileSizeHigh, info.nFileSizeLow);
  result.used = seconds_since(info.ftLastAccessTime);
  result.modified = seconds_since(info.ftLastWriteTime);
  return result;
}

bool move_over(const std::wstring& from, const std::wstring& to) {
  return MoveFileExW(from.c_str(), to.c_str(), MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH) != 0;
}

// Since Windows 10: whoever has the old file open keeps it.
bool rename_as_posix(const std::wstring& from, const std::wstring& to) {
  constexpr auto rename_information_ex = static_cast<FILE_INFO_BY_HANDLE_CLASS>(22);
  constexpr DWORD replace = 1, posix = 2;
  const Handle file(CreateFileW(from.c_str(), DELETE, share_all, nullptr, OPEN_EXISTING, 0, nullptr));
  if (!file.open()) return false;
  const DWORD name_bytes = static_cast<DWORD>(to.size() * sizeof(wchar_t)), flags = replace | posix;
  std::vector<char> space(sizeof(FILE_RENAME_INFO) + name_bytes);
  auto* const info = reinterpret_cast<FILE_RENAME_INFO*>(space.data());
  std::memcpy(info, &flags, sizeof flags);
  info->FileNameLength = name_bytes;
  std::memcpy(info->FileName, to.data(), name_bytes);
  return SetFileInformationByHandle(file.handle, rename_information_ex, info, static_cast<DWORD>(space.size())) != 0;
}

// Where an open file cannot be replaced: those who read it whole have soon closed it.
bool move_when_closed(const std::wstring& from, const std::wstring& to) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    Sleep(1);
    if (move_over(from, to)) return true;
    if (GetLastError() != ERROR_ACCESS_DENIED && GetLastError() != ERROR_SHARING_VIOLATION) return false;
  }
  return false;
}

}  // namespace

// Numbers of closed standard streams are passed over; what took them is closed again.
int open_file(const std::string& path, FileAccess access) {
  const int descriptor = open_once(path, access);
  if (descriptor < 0 || descriptor > 2) return descriptor;
  const int above =
      access == FileAccess::create || access == FileAccess::create_own || access == FileAccess::create_append
          ? _dup(descriptor)
          : open_file(path, access);
  const int reason = errno;
  _close(descriptor);
  errno = reason;
  return above;
}

int open_beneath(const std::string& folder, const std::string& path) {
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string name = path.substr(at, end - at);
    BY_HANDLE_FILE_INFORMATION info{};
    const Handle entry(to_ask(folder + "/" + path.substr(0, end), false));
    if (!entry.open() || !told(GetFileInformationByHandle(entry.handle, &info))) return -1;
    const bool part = name.empty() || name == "." || name == "..", last = end == path.size();
    const bool is_folder = (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    errno = (info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 ? ELOOP
            : part || (last && is_folder)                               ? EINVAL
            : !last && !is_folder                                       ? ENOTDIR
            : last && info.nNumberOfLinks > 1                           ? EMLINK
                                                                        : 0;
    if (errno != 0) return -1;
    at = end + 1;
  }
  return open_file(folder + "/" + path, FileAccess::read);
}

bool close_file(int descriptor) { return _close(descriptor) == 0; }

int64_t read_some(int descriptor, void* to, size_t bytes) {
  return _read(descriptor, to, static_cast<unsigned>(std::min(bytes, largest_piece)));
}

int64_t write_some(int descriptor, const void* from, size_t bytes) {
  return _write(descriptor, from, static_cast<unsigned>(std::min(bytes, largest_piece)));
}

int64_t read_at(int descriptor, void* to, size_t bytes, uint64_t at) {
  OVERLAPPED place{};
  place.Offset = static_cast<DWORD>(at);
  place.OffsetHigh = static_cast<DWORD>(at >> 32);
  DWORD got = 0;
  const DWORD wanted = static_cast<DWORD>(std::min(bytes, largest_piece));
  if (ReadFile(handle_of(descriptor), to, wanted, &got, &place)) return got;
  if (GetLastError() == ERROR_HANDLE_EOF) return 0;
  set_errno();
  return -1;
}

bool seek_to(int descriptor, uint64_t at) { return _lseeki64(descriptor, static_cast<int64_t>(at), SEEK_SET) >= 0; }

int64_t seek_end(int descriptor) { return _lseeki64(descriptor, 0, SEEK_END); }

bool cut_file(int descriptor, int64_t bytes) {
  FILE_END_OF_FILE_INFO end{};
  end.EndOfFile.QuadPart = bytes;
  return told(SetFileInformationByHandle(handle_of(descriptor), FileEndOfFileInfo, &end, sizeof end));
}

bool flush_file(int descriptor) { return told(FlushFileBuffers(handle_of(descriptor))); }

// A rename that was told to write through is on the disk.
void flush_folder(const std::string&) {}

std::optional<FileFacts> facts_of(int descriptor) { return facts_of_handle(handle_of(descriptor)); }

std::optional<FileFacts> facts_of(const std::string& path, bool follow) {
  const Handle handle(to_ask(path, follow));
  return handle.open() ? facts_of_handle(handle.handle) : std::nullopt;
}

std::string stamp_of(const std::string& path) {
  const Handle handle(to_ask(path, true));
  BY_HANDLE_FILE_INFORMATION info{};
  if (!handle.open() || !GetFileInformationByHandle(handle.handle, &info)) return "absent";
  return fmt::format("{} {} {} {}", info.dwVolumeSerialNumber, joined(info.nFileIndexHigh, info.nFileIndexLow),
                     joined(info.nFileSizeHigh, info.nFileSizeLow), ticks(info.ftLastWriteTime));
}

void note_use(int descriptor) {
  FILETIME now{};
  GetSystemTimeAsFileTime(&now);
  SetFileTime(handle_of(descriptor), nullptr, &now, nullptr);
}

bool is_readable(const std::string& path) { return _waccess(wide_path(path).c_str(), 4) == 0; }
// By its name; whether it may be started shows as it is.
bool is_executable(const std::string& path) { return is_readable(path); }

bool replace_file(const std::string& from, const std::string& to) {
  const std::wstring source = wide_path(from), target = wide_path(to);
  if (move_over(source, target) || rename_as_posix(source, target)) return true;
  if (const std::optional<FileFacts> old = facts_of(to); old && !old->regular) {
    errno = EISDIR;
    return false;
  }
  if (move_when_closed(source, target)) return true;
  // A system that replaces no open file still renames it: it goes when its last reader has closed it.
  const std::wstring aside =
      target + wide(fmt::format(".old-{}-{}-{}", GetCurrentProcessId(), GetCurrentThreadId(), GetTickCount64()));
  const bool kept = MoveFileExW(target.c_str(), aside.c_str(), 0) != 0;  // not where another writer was faster
  const bool moved = told(move_over(source, target));
  if (!kept) return moved;
  if (moved)
    DeleteFileW(aside.c_str());
  else
    MoveFileExW(aside.c_str(), target.c_str(), 0);
  return moved;
}

bool remove_file(const std::string& path) { return told(DeleteFileW(wide_path(path).c_str())); }

std::string make_scratch_folder(const std::string& prefix) {
  for (unsigned attempt = 0; attempt < 1000; ++attempt) {
    const std::string name = fmt::format("{}-{:x}-{:x}", prefix, GetCurrentProcessId(), GetTickCount64() + attempt);
    if (CreateDirectoryW(wide_path(name).c_str(), nullptr)) return name;
    set_errno();
    if (errno != EEXIST) break;
  }
  return {};
}

std::vector<std::string> list_folder(const std::string& folder, std::error_code& error) {
  std::vector<std::string> names;
  error.clear();
  WIN32_FIND_DATAW entry{};
  const HANDLE search = FindFirstFileW((wide_path(folder) + L"\\*").c_str(), &entry);
  if (search == INVALID_HANDLE_VALUE) {
    set_errno();
    const std::optional<FileFacts> facts = facts_of(folder);
    error = {facts && !facts->folder ? ENOTDIR : errno, std::generic_category()};
    return names;
  }
  do {
    std::string name = utf8(entry.cFileName);
    if (name != "." && name != "..") names.push_back(std::move(name));
  } while (FindNextFileW(search, &entry));
  if (GetLastError() != ERROR_NO_MORE_FILES) {
    set_errno();
    error = {errno, std::generic_category()};
  }
  FindClose(search);
  return names;
}

// A byte far behind the end, since others may not read what is locked.
Lock lock_file(int descriptor) {
  OVERLAPPED place{};
  place.OffsetHigh = 0x7fffffff;
  if (LockFileEx(handle_of(descriptor), LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &place))
    return Lock::taken;
  const DWORD code = GetLastError();
  set_errno();
  return code == ERROR_LOCK_VIOLATION || code == ERROR_IO_PENDING ? Lock::busy : Lock::failed;
}

}  // namespace heddle::os
