#include <algorithm>

#include "tests/ptx/parser_parts.h"

namespace heddle::ptx {
namespace {

class Parser : Body {
 public:
  explicit Parser(std::string_view text) : Body(text) {
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      module_.text.emplace_back(text.substr(at, end - at));
      at = end + 1;
    }
  }

  Module module() {
    while (peek().kind != Token::Kind::end) directive();
    for (const auto& v : module_.owned) {
      if (v->dynamic) v->offset = round_up(module_.shared_bytes, 16);
    }
    if (module_.version == 0) fail("no .version");
    return std::move(module_);
  }

 private:
  // ---- the module ----
  void directive() {
    const Token& first = peek();
    if (first.text == ".version") {
      next();
      const std::string version(next().text);
      const size_t dot = version.find('.');
      if (dot == version.npos || dot + 1 == version.size()) fail("no version: '" + version + "'");
      module_.version = std::stoi(version.substr(0, dot)) * 10 + std::stoi(version.substr(dot + 1));
    } else if (take(".target")) {
      const std::string target = name();
      if (target.rfind("sm_", 0) != 0) fail("unknown target '" + target + "'");
      module_.target = std::stoi(target.substr(3));
      while (take(",")) name();
    } else if (take(".address_size")) {
      if (integer() != 64) fail("addresses of 64 bits are known");
    } else if (first.text == ".file") {
      file();
    } else if (take(".section")) {
      name();
      skip_braces();
    } else {
      linked();
    }
  }

  void file() {
    expect(".file");
    const int index = static_cast<int>(integer());
    module_.files[index] = std::string(next().text);
    while (take(",")) next();
  }

  void skip_braces() {
    expect("{");
    for (int open = 1; open > 0;) {
      if (peek().kind == Token::Kind::end) fail("'}' expected");
      open += peek().text == "{" ? 1 : peek().text == "}" ? -1 : 0;
      next();
    }
  }

  // A function or a variable of the module, behind what says who may link to it.
  void linked() {
    bool external = false;
    while (peek().text == ".visible" || peek().text == ".extern" || peek().text == ".weak" || peek().text == ".common")
      external |= next().text == ".extern";
    if (peek().text == ".entry" || peek().text == ".func") return function();
    if (peek().text != ".global" && peek().text != ".const" && peek().text != ".shared")
      fail("unknown directive '" + std::string(peek().text) + "'");
    variables(external);
  }

  // ---- functions ----
  void function() {
    Function f;
    f.entry = next().text == ".entry";
    scopes_.emplace_back();
    if (!f.entry && peek().text == "(") f.results = formals(f);
    f.name = name();
    if (peek().text == "(") f.parameters = formals(f);
    while (peek().text != "{" && peek().text != ";") {
      const std::string word = name();
      if (word == ".maxntid" || word == ".reqntid") {
        f.max_lanes = static_cast<uint32_t>(integer());
        while (take(",")) f.max_lanes *= static_cast<uint32_t>(integer());
      } else if (word == ".minnctapersm" || word == ".maxnreg") {
        integer();
      } else if (word != ".noreturn") {
        fail("unknown directive '" + word + "' of a function");
      }
    }
    if (!take(";")) body(f);
    scopes_.pop_back();
    Function& known = module_.functions[f.name];
    if (!known.defined) known = std::move(f);
  }

  // A kernel's parameters have a layout of their own, a function's lie in the lane's frame.
  std::vector<const Variable*> formals(Function& f) {
    std::vector<const Variable*> made;
    expect("(");
    while (!take(")")) {
      expect(".param");
      uint64_t alignment = 0, element = 0;
      while (peek().text == ".align" || peek().text == ".ptr" || peek().text[0] == '.') {
        const std::string word = name();
        if (word == ".align")
          alignment = element ? (integer(), alignment) : integer();  // behind .ptr: of what it points to
        else if (bytes_of_type(word))
          element = bytes_of_type(word);
        else if (word != ".ptr" && word != ".global" && word != ".shared" && word != ".const" && word != ".local")
          fail("unknown word '" + word + "' of a parameter");
      }
      if (element == 0) fail("a parameter without a type");
      Variable& v = declare(Space::param, element, std::max(alignment, element));
      if (f.entry) {
        v.offset = round_up(f.parameter_bytes, v.alignment);
        f.parameter_bytes = v.offset + v.bytes;
      } else {
        place(v);
      }
      made.push_back(&v);
      take(",");
    }
    return made;
  }
};

}  // namespace

Module parse(std::string_view text) { return Parser(text).module(); }

}  // namespace heddle::ptx
