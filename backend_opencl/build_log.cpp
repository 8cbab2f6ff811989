#include "heddle/backend_opencl/build_log.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "heddle/core/base/lines.h"

namespace heddle::opencl {
namespace {

struct Line {
  std::string_view file;  // empty: in front of the first directive
  int64_t number = 0;
};

// The digits at the front of `text`, which they leave; nothing where there are none or too many.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

// #line NUMBER "FILE": where the line behind it is.
std::optional<Line> directive(std::string_view text) {
  constexpr std::string_view word = "#line ";
  if (!text.starts_with(word)) return std::nullopt;
  text.remove_prefix(word.size());
  const std::optional<int64_t> number = take_number(text);
  if (!number || !text.starts_with(" \"") || !text.ends_with('"') || text.size() < 3) return std::nullopt;
  return Line{text.substr(2, text.size() - 3), *number};
}

// Where every line of a program came from.
std::vector<Line> origins(std::string_view program) {
  std::vector<Line> lines;
  Line at;
  while (!program.empty()) {
    lines.push_back(at);
    const std::optional<Line> named = directive(take_line(program));
    at = named ? *named : Line{at.file, at.number + 1};
  }
  return lines;
}

std::string placed(std::string_view line, const std::vector<Line>& lines, const std::set<std::string_view>& files) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || files.contains(line.substr(0, colon))) return std::string(line);
  std::string_view rest = line.substr(colon + 1);
  const std::optional<int64_t> number = take_number(rest);
  if (!number || !rest.starts_with(':') || *number < 1 || *number > static_cast<int64_t>(lines.size()))
    return std::string(line);
  const Line& at = lines[static_cast<size_t>(*number) - 1];
  return at.file.empty() ? std::string(line) : fmt::format("{}:{}{}", at.file, at.number, rest);
}

}  // namespace

std::string by_line_directives(std::string_view log, std::string_view program) {
  const std::vector<Line> lines = origins(program);
  std::set<std::string_view> files;
  for (const Line& line : lines) files.insert(line.file);
  std::string result;
  while (!log.empty()) {
    const bool ends = log.find('\n') != std::string_view::npos;
    result += placed(take_line(log), lines, files);
    if (ends) result += '\n';
  }
  return result;
}

}  // namespace heddle::opencl
