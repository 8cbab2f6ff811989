#include "heddle/core/dialect/prelude.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "heddle/core/base/ascii.h"
#include "heddle/core/base/error.h"
#include "heddle/core/dialect/builtin_files.h"

namespace heddle {
namespace {

struct Section {
  Identifiers names;  // empty: always taken
  Identifiers uses;
  std::string_view text;
  std::string_view file;
  int line = 1;  // of the text's first line
};

void cut(std::string_view file, std::vector<Section>& sections) {
  const std::string_view text = prelude_text(file);
  size_t at = 0;
  for (int line = 1; at < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view row = text.substr(at, end - at);
    at = std::min(end + 1, text.size());
    if (row.substr(0, 3) == "//@") {
      sections.push_back({identifiers(row), {}, text.substr(at, 0), file, line + 1});
    } else if (!sections.empty() && sections.back().file == file) {
      Section& s = sections.back();
      s.text = std::string_view(s.text.data(), static_cast<size_t>(text.data() + at - s.text.data()));
    }
  }
  for (auto& s : sections) s.uses = identifiers(s.text);
}

std::vector<Section> cut_all(std::string_view prelude) {
  std::vector<Section> sections;
  cut(prelude, sections);
  cut("prelude.math", sections);
  cut("prelude.shared", sections);
  return sections;
}

const std::vector<Section>& sections_of(Target target) {
  static const std::vector<Section> glsl = cut_all("prelude.glsl");
  static const std::vector<Section> opencl = cut_all("prelude.cl");
  static const std::vector<Section> cuda = cut_all("prelude.cu");
  static const std::vector<Section> c = cut_all("prelude.c99");
  return target == Target::glsl ? glsl : target == Target::opencl ? opencl : target == Target::cuda ? cuda : c;
}

bool wanted(const Section& s, const Identifiers& used) {
  if (s.names.empty()) return true;
  for (const auto& name : s.names) {
    if (used.contains(name)) return true;
  }
  return false;
}

// Length of the number at the start of `s` (with sign, fraction and exponent), 0 when there is none.
size_t number_length(std::string_view s) {
  size_t i = 0;
  if (i < s.size() && (s[i] == '-' || s[i] == '+')) ++i;
  const size_t first = i;
  while (i < s.size() && (continues_name(s[i]) || s[i] == '.' ||
                          ((s[i] == '-' || s[i] == '+') && (s[i - 1] == 'e' || s[i - 1] == 'E'))))
    ++i;
  return i > first && (is_ascii_digit(s[first]) || s[first] == '.') ? i : 0;
}

}  // namespace

std::string_view prelude_text(std::string_view name) {
  for (const auto& f : builtin_files()) {
    if (f.name == name) return f.text;
  }
  throw Error(fmt::format("[print] the library was built without shaders/{}", name));
}

Identifiers identifiers(std::string_view text) {
  Identifiers found;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (continues_name(text[i])) {
      while (end < text.size() && continues_name(text[end])) ++end;
      if (starts_name(text[i])) found.emplace(text.substr(i, end - i));
    }
    i = end;
  }
  return found;
}

std::string select_prelude(Target target, Identifiers& used) {
  const auto& sections = sections_of(target);
  std::vector<bool> taken(sections.size(), false);
  for (bool grew = true; grew;) {
    grew = false;
    for (size_t i = 0; i < sections.size(); ++i) {
      if (taken[i] || !wanted(sections[i], used)) continue;
      taken[i] = grew = true;
      // The always-taken sections define the language itself: what they mention asks for nothing more.
      if (!sections[i].names.empty()) used.insert(sections[i].uses.begin(), sections[i].uses.end());
    }
  }
  std::string text;
  for (size_t i = 0; i < sections.size(); ++i) {
    if (taken[i])
      text += fmt::format("#line {} \"shaders/{}\"\n{}", sections[i].line, sections[i].file, sections[i].text);
  }
  return text;
}

std::string glsl_literals(std::string_view text) {
  std::string out;
  size_t done = 0;
  for (size_t i = 0; i + 4 < text.size(); ++i) {
    const std::string_view word = text.substr(i, 4);
    if ((word != "F64(" && word != "I64(") || (i > 0 && continues_name(text[i - 1]))) continue;
    const size_t start = i + 4;
    const size_t length = number_length(text.substr(start));
    if (length == 0 || start + length >= text.size() || text[start + length] != ')') continue;
    out += text.substr(done, start + length - done);
    const std::string_view number = text.substr(start, length);
    const bool fraction = number.find_first_of(".eE") != std::string_view::npos;
    out += word[0] == 'I' ? "l" : fraction ? "lf" : ".0lf";
    done = start + length;
  }
  return out.append(text.substr(done));
}

}  // namespace heddle
