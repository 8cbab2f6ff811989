#include "tools/mpirun_errors.h"

#include <algorithm>

#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/print_error.h"
#include "tools/launched.h"

namespace heddle::tools {
namespace {

bool is_rule(std::string_view line) {
  return line.size() >= 70 && line.find_first_not_of('-') == std::string_view::npos;
}

// "[host:1234] 1 more process has sent ...", "[host][[6106,1],1][btl_tcp.c:266:...] ...", of the library within ranks
// and of mpirun.
bool is_from_mpi(std::string_view line) {
  if (line.starts_with('[') && line.find("][[") < line.find(' ')) return true;
  const size_t end = line.find(']'), colon = line.find(':');
  if (line.empty() || line.front() != '[' || end == std::string_view::npos || colon > end || colon + 1 == end)
    return false;
  return line.substr(colon + 1, end - colon - 1).find_first_not_of("0123456789,[]") == std::string_view::npos;
}

bool is_from_ssh(std::string_view line) {
  return line.starts_with("ssh: ") || line.starts_with("Host key verification failed") ||
         line.find("Permission denied (") != std::string_view::npos;
}

void append(std::string& text, std::string_view line) {
  if (!text.empty()) text += ' ';
  text += line;
}

}  // namespace

void MpirunErrors::take(std::string_view text) {
  open_ += text;
  size_t from = 0;
  for (size_t end = open_.find('\n'); end != std::string::npos; end = open_.find('\n', from)) {
    take_line(std::string_view(open_).substr(from, end - from));
    from = end + 1;
  }
  open_.erase(0, from);
}

void MpirunErrors::finish() {
  if (!open_.empty()) take_line(open_);
  open_.clear();
}

void MpirunErrors::take_line(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == '\0')) line.remove_suffix(1);  // 0: Open MPI 5's
  if (is_rule(line)) {
    within_ = !within_;
  } else if (within_) {
    if (!line.empty()) append(own_, line);
  } else if (line.starts_with(launcher_line)) {
    heard_.emplace(line.substr(std::string_view(launcher_line).size()));
  } else if (is_from_ssh(line)) {
    append(shell_, line);
  } else if (!is_from_mpi(line) && !line.empty() && !line.ends_with("processes failed to start")) {
    say_once(line);
  }
}

void MpirunErrors::say_once(std::string_view line) {
  constexpr size_t remembered = 64;
  if (line.starts_with("heddle: ")) {
    if (std::find(said_.begin(), said_.end(), line) != said_.end()) return;
    said_.emplace_back(line);
    if (said_.size() > remembered) said_.pop_front();
  }
  print_error("{}\n", line);
}

MpirunErrors::End MpirunErrors::end() const {
  if (own_.find("exited on signal") != std::string::npos) return End::by_signal;
  if (own_.find("non-zero exit code") != std::string::npos || own_.find("non-zero status") != std::string::npos)
    return End::by_itself;
  return own_.empty() && shell_.empty() ? End::unknown : End::not_started;
}

std::string MpirunErrors::reason() const {
  constexpr std::string_view noticed = " noticed that ";  // by mpirun, or prterun since Open MPI 5
  if (end() == End::by_signal) {
    const size_t at = own_.find(noticed);
    const std::string text = at == std::string::npos ? own_ : own_.substr(at + noticed.size());
    return text.substr(0, text.find(").") == std::string::npos ? text.size() : text.find(").") + 1);
  }
  if (!shell_.empty()) return shell_;
  return own_.substr(0, own_.find(". "));
}

bool MpirunErrors::heard(std::string_view what) const { return heard_.contains(what); }

int MpirunErrors::rank() const {
  constexpr std::string_view before = "process rank ";
  const size_t at = own_.find(before);
  if (end() != End::by_signal || at == std::string::npos) return -1;
  const size_t first = at + before.size();
  return parse_number<int>(own_.substr(first, own_.find(' ', first) - first)).value_or(-1);
}

}  // namespace heddle::tools
