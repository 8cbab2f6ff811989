#include "heddle/core/base/caller.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace heddle {
namespace {

enum class Owner : uint8_t { user, library, standard };

// How the compiler was told the path of this file, without "core/base/caller.cpp": what all files of the library begin
// with.
constexpr std::string_view sources_root() {
  constexpr std::string_view here = __FILE__, name = "core/base/caller.cpp";
  return here.substr(0, here.size() - name.size());
}

// "core/base/caller.h" of a file of the project, header or source; of others "".
std::string_view below_root(std::string_view path) {
  constexpr std::string_view headers = "include/heddle/";  // of the build folder, or installed
  if (const size_t at = path.rfind(headers); at == 0 || (at != std::string_view::npos && path[at - 1] == '/'))
    return path.substr(at + headers.size());
  return path.starts_with(sources_root()) ? path.substr(sources_root().size()) : std::string_view();
}

Owner owner_of_path(std::string_view path) {
  if (path.find("/include/c++/") != std::string_view::npos) return Owner::standard;
  path = below_root(path);
  if (path.starts_with("nn/models/")) return Owner::user;
  for (const std::string_view folder : {"core/", "autograd/", "nn/", "io/", "data/"}) {
    if (path.starts_with(folder)) return Owner::library;
  }
  return Owner::user;
}

// Names of files are constants of a translation unit, so their addresses tell them apart: what was found out once is
// looked up.
Owner owner_of(const Caller& caller) noexcept {
  struct Known {
    const char* file = nullptr;
    Owner owner = Owner::user;
  };
  thread_local std::array<Known, 64> known{};
  const char* file = caller.file_name();
  const auto address = reinterpret_cast<uintptr_t>(file);
  Known& entry = known[(address >> 3 ^ address >> 9) % known.size()];
  if (entry.file != file) entry = {file, owner_of_path(file)};
  return entry.owner;
}

thread_local SourceLine present;

// The lines of the user's code that this thread is in calls of, the outermost first, and the file of each one's scope.
struct Call {
  SourceLine line;
  const char* file;
};
struct Calls {
  std::array<Call, 64> list;  // what lies deeper is not noted
  size_t depth = 0;
};
thread_local Calls user_calls;

// Scopes that stand there put back the line of what was recorded earlier, and say nothing of who calls now (LineScope,
// which makes its scope inside of std::optional; the judges of watched values).
bool puts_back(std::string_view file) {
  return file.find("/include/c++/") != std::string_view::npos || file.ends_with("core/ir/source_lines.h") ||
         file.ends_with("core/graph/watched.cpp");
}

// ", called from train.cpp:40": the outermost of the calls under way, where that is another line.
std::string called_from() {
  const auto noted = std::span(user_calls.list).first(std::min(user_calls.depth, user_calls.list.size()));
  if (noted.size() < 2 || noted.front().line == present ||
      std::any_of(noted.begin(), noted.end(), [](const Call& call) { return puts_back(call.file); }))
    return {};
  return ", called from " + noted.front().line.str();
}
thread_local const CallerScope* innermost = nullptr;

// "[index_add] text" as "[fold] index_add: text" where fold is the function called.
std::string with_function(const std::string& message) {
  const std::string_view name = CallerScope::public_function();
  const size_t end = message.find("] ");
  if (name.empty() || !message.starts_with("[") || end == std::string::npos || message.compare(1, end - 1, name) == 0)
    return message;
  return fmt::format("[{}] {}: {}", name, message.substr(1, end - 1), message.substr(end + 2));
}

}  // namespace

std::string SourceLine::str() const {
  const std::string text = line_of(caller);
  return text.empty() || !backward ? text : text + " (backward)";
}

bool SourceLine::operator==(const SourceLine& other) const {
  return backward == other.backward && caller.line() == other.caller.line() &&
         (caller.file_name() == other.caller.file_name() ||
          std::string_view(caller.file_name()) == other.caller.file_name());
}

SourceLine current_line() noexcept { return present; }

std::string line_of(const Caller& caller) {
  if (caller.line() == 0) return {};
  const std::string_view path = caller.file_name();
  const size_t slash = path.find_last_of('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1)) + ":" +
         std::to_string(caller.line());
}

std::string list_lines(std::span<const SourceLine> lines, size_t most) {
  std::vector<std::string> users, others;
  for (const SourceLine& line : lines) {
    if (line.known()) (owner_of(line.caller) == Owner::user ? users : others).push_back(line.str());
  }
  const std::vector<std::string>& shown = users.empty() ? others : users;
  std::string text;
  for (size_t i = 0; i < shown.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + shown[i];
  if (shown.size() > most) text += " and " + std::to_string(shown.size() - most) + " more";
  return text;
}

std::string with_line(const std::string& thrown) {
  const std::string message = with_function(thrown);
  if (!present.known() || owner_of(present.caller) != Owner::user) return message;
  const std::string suffix = " (" + present.str() + called_from() + ")";
  return message.ends_with(suffix) ? message : message + suffix;
}

CallerScope::CallerScope(const Caller& caller, const char* function, const char* file) noexcept
    : before_(present), outer_(innermost), function_(function), file_(file) {
  const Owner owner = owner_of(caller);
  by_user_ = owner == Owner::user;
  if (by_user_ && user_calls.depth++ < user_calls.list.size())
    user_calls.list[user_calls.depth - 1] = {{caller, present.backward}, file};
  if (by_user_ || (owner == Owner::library && !present.known())) present.caller = caller;
  innermost = this;
}

CallerScope::~CallerScope() {
  if (by_user_) --user_calls.depth;
  present = before_;
  innermost = outer_;
}

// Files whose scopes stand in public functions, each under its own name.
bool CallerScope::in_functions() const {
  const std::string_view path = below_root(file_);
  // A user's kernel is called by a name of its own.
  return (path.starts_with("core/functions/") && !path.starts_with("core/functions/user/")) ||
         path == "core/op/elementwise.inc";
}

// Outward to the first call from the user's code, or the last before other code of the library (a module, a gradient
// rule).
std::string_view CallerScope::public_function() {
  std::string_view name;
  for (const CallerScope* scope = innermost; scope != nullptr && scope->in_functions(); scope = scope->outer_) {
    name = scope->function_;
    if (scope->by_user_) break;
  }
  return name.starts_with("operator") ? std::string_view() : name;
}

BackwardScope::BackwardScope(const SourceLine& forward) noexcept : before_(present) {
  if (forward.known()) present.caller = forward.caller;
  present.backward = true;
}

BackwardScope::~BackwardScope() { present = before_; }

}  // namespace heddle
