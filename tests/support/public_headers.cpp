#include "tests/support/public_headers.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

namespace heddle::tests {
namespace {

constexpr const char* tensor_types[] = {"Tensor", "Factors", "AdaptiveTail"};

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Without comments, preprocessor lines (with their continuations) and macros that stand alone.
std::string code_of(const std::string& text) {
  static const std::regex macro(R"(^[A-Z_]+\(.*\)$)");
  std::istringstream lines(text);
  std::string result, line;
  bool directive = false;
  while (std::getline(lines, line)) {
    directive = directive || line.starts_with("#");
    if (!directive && !std::regex_match(line, macro)) result += line.substr(0, line.find("//")) + "\n";
    directive = directive && line.ends_with("\\");
  }
  return result;
}

// The declarations at the level of namespace heddle, bodies left out.
std::vector<std::string> declarations(const std::string& code) {
  std::vector<std::string> result;
  std::string now;
  int braces = 0, parentheses = 0;
  for (const char c : code) {
    if (braces == 1 && (c == '(' || c == ')')) parentheses += c == '(' ? 1 : -1;
    const bool body = c == '{' && parentheses == 0;
    if (braces >= 1 && (body || (braces == 1 && parentheses == 0 && c == ';'))) {
      if (braces == 1) result.push_back(now);
      now.clear();
    } else if (braces == 1 && (c != '}' || parentheses != 0)) {
      now += c;
    }
    if (parentheses != 0) continue;  // braces of default arguments
    if (c == '{' && braces == 0) now.clear();
    braces += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (c == '}') now.clear();
  }
  return result;
}

// At commas outside of brackets.
std::vector<std::string> split_parameters(const std::string& list) {
  std::vector<std::string> result(1);
  int depth = 0;
  for (const char c : list) {
    depth += std::string("(<{").find(c) != std::string::npos   ? 1
             : std::string(")>}").find(c) != std::string::npos ? -1
                                                               : 0;
    if (c == ',' && depth == 0) {
      result.emplace_back();
    } else {
      result.back() += c;
    }
  }
  return result;
}

bool holds_tensors(const std::string& type) {
  return std::any_of(std::begin(tensor_types), std::end(tensor_types),
                     [&](const char* part) { return type.find(part) != std::string::npos; });
}

void add(std::map<std::string, Declared>& all, const std::string& header, const std::string& declaration) {
  static const std::regex form(R"(^\s*(?:inline\s+)?([\w:<>&]+)\s+(\w+)\s*\(([\s\S]*)\)\s*$)");
  std::smatch m;
  if (!std::regex_match(declaration, m, form) || declaration.find("operator") != std::string::npos) return;
  std::vector<std::string> tensors;
  bool list = false;
  for (const std::string& parameter : split_parameters(m[3])) {
    static const std::regex named(R"(^\s*([\s\S]*?)\s*(\w+)\s*(?:=[\s\S]*)?$)");
    std::smatch p;
    if (!std::regex_match(parameter, p, named) || !holds_tensors(p[1])) continue;
    list = list || (tensors.empty() && p[1].str().find('<') != std::string::npos);
    tensors.push_back(p[2]);
  }
  if (tensors.empty() && m[1].str().find("Tensor") == std::string::npos) return;
  Declared& d = all[m[2]];
  d.header = header;
  d.forms.push_back(std::move(tensors));
  d.lists.push_back(list);
}

void add_rows(std::map<std::string, Declared>& all, const std::string& text) {
  static const std::regex row(R"(HEDDLE_(UNARY|BINARY)\((\w+), \w+, \w+, \d)");
  for (std::sregex_iterator i(text.begin(), text.end(), row), end; i != end; ++i) {
    Declared& d = all[(*i)[2]];
    d.header = "core/op/elementwise.inc";
    d.forms.push_back((*i)[1] == "UNARY" ? std::vector<std::string>{"x"} : std::vector<std::string>{"x", "y"});
    d.lists.push_back(false);
  }
}

}  // namespace

std::map<std::string, Declared> declared_functions(const std::string& source_dir) {
  std::map<std::string, Declared> result;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(source_dir + "/core/functions")) {
    if (entry.path().extension() != ".h") continue;
    const std::string text = read(entry.path()),
                      header = std::filesystem::relative(entry.path(), source_dir).generic_string();
    if (text.find("Internal to") != std::string::npos) continue;
    for (const std::string& declaration : declarations(code_of(text))) add(result, header, declaration);
  }
  add_rows(result, read(source_dir + "/core/op/elementwise.inc"));
  return result;
}

}  // namespace heddle::tests
