// Names in anonymous namespaces: the presets quickstart, asan and tsan compile the files of a folder as one
// (cmake/units.cmake; of tests, the groups that tests/CMakeLists.txt names), so no two of them may define the same, nor
// what a header of the folder calls a type. Overloads of a function, and an alias of the same type, may stand in
// several.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "heddle/io/read_file.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

// What a name stands for: "alias", "function" or "entity", with the text that tells two of a kind apart.
struct Definition {
  std::string name, kind, detail;
  bool operator<(const Definition& o) const {
    return std::tie(name, kind, detail) < std::tie(o.name, o.kind, o.detail);
  }
};

// The end of what begins at `at` and ends with `mark`, behind it.
size_t end_of(const std::string& text, size_t at, std::string_view mark) {
  const size_t found = text.find(mark, at);
  return found == text.npos ? text.size() : found + mark.size();
}

// The end of the literal whose quote stands at `at`.
size_t literal_end(const std::string& text, size_t at) {
  if (text[at] == '"' && at > 0 && text[at - 1] == 'R') {
    const size_t open = text.find('(', at);
    return end_of(text, open, ")" + text.substr(at + 1, open - at - 1) + "\"");
  }
  size_t end = at + 1;
  while (end < text.size() && text[end] != text[at]) end += text[end] == '\\' ? 2 : 1;
  return end + 1;
}

// The text without comments, literals and lines of the preprocessor.
std::string code_of(const std::string& text) {
  std::string code;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    const bool digits = c == '\'' && at > 0 && std::isxdigit(static_cast<unsigned char>(text[at - 1])) != 0;  // 10'000
    if (text.compare(at, 2, "//") == 0) {
      at = text.find('\n', at);
    } else if (text.compare(at, 2, "/*") == 0) {
      at = end_of(text, at, "*/");
    } else if (c == '"' || (c == '\'' && !digits)) {
      at = literal_end(text, at);
    } else if (c == '#') {
      do at = end_of(text, at, "\n");
      while (at < text.size() && text[at - 2] == '\\');
    } else {
      code += c;
      ++at;
    }
  }
  return code;
}

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Calls visit(at) for the places of `text` outside of all brackets; false ends the walk.
template <class F>
void outside_brackets(std::string_view text, const F& visit) {
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (depth == 0 && !visit(at)) return;
    depth += c == '(' || c == '[' || c == '<';
    depth -= (c == ')' || c == ']' || (c == '>' && (at == 0 || text[at - 1] != '-'))) && depth > 0;
  }
}

// The first `wanted` outside of brackets.
size_t find_outside(std::string_view text, char wanted) {
  size_t found = text.npos;
  outside_brackets(text, [&](size_t at) {
    if (text[at] == wanted) found = at;
    return found == text.npos;
  });
  return found;
}

std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts(1);
  size_t before = 0;
  outside_brackets(text, [&](size_t at) {
    if (text[at] != ',') return true;
    parts.back() = text.substr(before, at - before);
    parts.emplace_back();
    before = at + 1;
    return true;
  });
  parts.back() = text.substr(before);
  return parts;
}

// The word at the end, and the text without it.
std::string last_word(std::string& text) {
  while (!text.empty() && !in_word(text.back())) text.pop_back();
  size_t begin = text.size();
  while (begin > 0 && in_word(text[begin - 1])) --begin;
  const std::string word = text.substr(begin);
  text.resize(begin);
  return word;
}

// "const Caps& caps, int64_t n = 1" -> "constCaps&,int64_t,".
std::string types_of(std::string_view parameters) {
  std::string types;
  for (std::string one : parts_of(parameters)) {
    one = one.substr(0, find_outside(one, '='));
    std::string words;
    for (std::istringstream in(one); in >> one;) words += words.empty() ? one : " " + one;
    const size_t space = words.find_last_of(" &*");
    if (space != words.npos && space + 1 < words.size()) words.resize(space + 1);
    std::erase(words, ' ');
    types += words + ",";
  }
  return types;
}

// Adds what a statement of a namespace defines or declares.
void add_statement(std::string text, std::set<Definition>& all) {
  std::string words;
  for (std::istringstream in(text); in >> text;) words += words.empty() ? text : " " + text;
  std::smatch match;
  while (words.starts_with("template")) words.erase(0, find_outside(words.substr(9), ' ') + 10);
  static const std::regex type(R"(^(?:struct|class|union|enum(?: class)?) (\w+)(?: final)?(?: :.*)?$)"),
      alias(R"(^(?:using|namespace) (\w+) = (.*)$)");
  if (std::regex_match(words, match, type)) {
    all.insert({match[1], "entity", ""});
  } else if (std::regex_match(words, match, alias)) {
    all.insert({match[1], "alias", match[2]});
  } else if (!words.empty() && !words.starts_with("using") && !words.starts_with("static_assert")) {
    const size_t open = find_outside(words, '('), value = find_outside(words, '=');
    if (open < value) {
      std::string front = words.substr(0, open);
      const size_t close = words.rfind(')');
      all.insert({last_word(front), "function", types_of(words.substr(open + 1, close - open - 1))});
      return;
    }
    for (std::string one : parts_of(words)) {
      one = one.substr(0, std::min(find_outside(one, '='), find_outside(one, '[')));
      all.insert({last_word(one), "entity", ""});
    }
  }
}

// What the namespaces whose opening `opening` matches define in a text; of functions, what they declare too.
std::set<Definition> names_within(const std::string& text, const std::regex& opening) {
  const std::string code = code_of(text);
  std::set<Definition> all;
  for (std::sregex_iterator at(code.begin(), code.end(), opening), end; at != end; ++at) {
    std::string statement;
    int depth = 1;
    for (auto i = static_cast<size_t>(at->position() + at->length()); i < code.size() && depth > 0; ++i) {
      const char c = code[i];
      if (depth == 1 && (c == ';' || c == '{')) {
        add_statement(statement, all);
        statement.clear();
      } else if (depth == 1 && c != '}') {
        statement += c;
      }
      depth += (c == '{') - (c == '}');
    }
  }
  return all;
}

std::set<Definition> anonymous_names(const std::string& text) {
  static const std::regex opening(R"(\bnamespace\s*\{)");
  return names_within(text, opening);
}

// The types that a header defines or declares.
std::set<Definition> named_types(const std::string& text) {
  static const std::regex opening(R"(\bnamespace\s+[\w:]+\s*\{)"), type(R"([A-Z]\w*)");
  std::set<Definition> all = names_within(text, opening);
  std::erase_if(all, [](const Definition& one) { return one.kind == "function" || !std::regex_match(one.name, type); });
  return all;
}

bool clash(const Definition& a, const Definition& b) {
  if (a.name != b.name || a.name.empty()) return false;
  if (a.kind != b.kind) return true;
  return a.kind == "function" ? a.detail == b.detail : a.kind == "alias" ? a.detail != b.detail : true;
}

// "name: a.cpp and b.cpp" for each clash of two of the files.
std::vector<std::string> clashes(const std::map<std::string, std::set<Definition>>& files) {
  std::map<std::string, std::vector<std::pair<Definition, std::string>>> by_name;
  std::vector<std::string> found;
  for (const auto& [file, names] : files) {
    for (const Definition& one : names) {
      for (const auto& [other, where] : by_name[one.name]) {
        if (where.ends_with(".h") && file.ends_with(".h")) continue;  // one type, declared in both
        if (where != file && clash(one, other)) found.push_back(one.name + ": " + where + " and " + file);
      }
    }
    for (const Definition& one : names) by_name[one.name].emplace_back(one, file);
  }
  return found;
}

TEST(FolderNames, NoTwoFilesOfAFolderDefineTheSame) {
  std::map<std::string, std::map<std::string, std::set<Definition>>> folders;
  for (const char* room : {"core",
                           "autograd",
                           "nn",
                           "data",
                           "io",
                           "train",
                           "distributed",
                           "deploy",
                           "runtime",
                           "checks",
                           "tools",
                           "backend_cuda",
                           "backend_opencl",
                           "backend_vulkan",
                           "onnx",
                           "bench",
                           "tests/unit",
                           "tests/null",
                           "tests/conformance",
                           "tests/reference",
                           "tests/kernels",
                           "tests/autograd",
                           "tests/nn",
                           "tests/data",
                           "tests/train",
                           "tests/cli",
                           "tests/distributed",
                           "tests/onnx",
                           "tests/ptx",
                           "tests/fuzz"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(HEDDLE_SOURCE_DIR) / room)) {
      const std::string file = fs::relative(entry.path(), HEDDLE_SOURCE_DIR).generic_string();
      const bool header = file.ends_with(".h");
      if ((!header && !file.ends_with(".cpp")) || file.ends_with("_windows.cpp")) continue;
      if (file.starts_with("bench/llama/")) continue;  // programs of one file each
      const std::vector<uint8_t> bytes = read_file(entry.path().string(), "folder_names");
      const std::string text(bytes.begin(), bytes.end());
      folders[fs::path(file).parent_path().generic_string()][file] = header ? named_types(text) : anonymous_names(text);
    }
  }
  size_t names = 0;
  for (const auto& [folder, files] : folders) {
    for (const auto& [file, found] : files) names += found.size();
    for (const std::string& complaint : clashes(files))
      ADD_FAILURE() << complaint << ": one of them needs a better name";
  }
  EXPECT_GT(names, 2000u);  // the walk really found them
}

TEST(FolderNames, KindsOfClashes) {
  const auto said = [](const char* a, const char* b) {
    const auto within = [](const char* text) { return anonymous_names(std::string("namespace {\n") + text + "\n}"); };
    return !clashes({{"a.cpp", within(a)}, {"b.cpp", within(b)}}).empty();
  };
  EXPECT_TRUE(said("struct A { int a; };", "class A : public B { };"));
  EXPECT_TRUE(said("constexpr int most = 1, least = 2;", "int least(int x) { return x; }"));
  EXPECT_TRUE(said("thread_local T* now = nullptr;", "using now = int;"));
  EXPECT_TRUE(said("[[noreturn]] void fail(const S& a, int b = f(1, 2)) {}", "void fail(const S& path, int what) {}"));
  EXPECT_TRUE(said("template <class T, class U>\nint raw(T x) { return 1; }", "template <class V> int raw(T y) {}"));
  EXPECT_TRUE(said("const std::function<int(int)> f = [](int x) { return x; };", "int f[] = {1, 2};"));
  EXPECT_TRUE(said("using Json = a::json;", "using Json = a::ordered_json;"));
  EXPECT_FALSE(said("using Json = a::json;", "using Json = a::json;  // read"));
  EXPECT_FALSE(said("int f(int x) { return x; }", "int f(double x) { return 2; }"));
  EXPECT_FALSE(
      said("int f(int x) { int inner; return x; }", "int inner = 1; // int f(int y) {}\nauto s = \"struct A {\";"));
  EXPECT_FALSE(said("using build::record;", "using build::record;"));
}

TEST(FolderNames, TypesOfHeadersAreNamesToo) {
  const auto said = [](const std::string& header, const std::string& file) {
    return !clashes({{"a.h", named_types("namespace heddle::a {\n" + header + "\n}")},
                     {"b.cpp", anonymous_names("namespace heddle::a {\nnamespace {\n" + file + "\n}\n}")}})
                .empty();
  };
  EXPECT_TRUE(said("enum class Reduction : uint8_t { sum, max };", "using Reduction = Factor::Reduction;"));
  EXPECT_TRUE(said("class World;", "struct World { int a; };"));
  EXPECT_FALSE(said("struct Factor { enum class Reduction { none }; };", "enum class Reduction { none };"));
}

}  // namespace
}  // namespace heddle
