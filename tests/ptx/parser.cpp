#include <algorithm>
#include <unordered_map>

#include "tests/ptx/fault.h"
#include "tests/ptx/lexer.h"
#include "tests/ptx/module.h"

namespace heddle::ptx {
namespace {

uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

// Bytes of a type's name, 0 for what is no type.
uint8_t bytes_of(std::string_view type) {
  if (type == ".pred") return 1;
  if (type == ".b8" || type == ".u8" || type == ".s8") return 1;
  if (type == ".b16" || type == ".u16" || type == ".s16" || type == ".f16" || type == ".bf16") return 2;
  if (type == ".b32" || type == ".u32" || type == ".s32" || type == ".f32" || type == ".f16x2") return 4;
  if (type == ".b64" || type == ".u64" || type == ".s64" || type == ".f64") return 8;
  return 0;
}

struct Scope {
  std::unordered_map<std::string, uint32_t> registers;
  std::unordered_map<std::string, const Variable*> variables;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(tokens_of(text)) {
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      module_.text.emplace_back(text.substr(at, end - at));
      at = end + 1;
    }
    scopes_.emplace_back();
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
  // ---- words ----
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& next() {
    const Token& token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool take(std::string_view word) {
    if (peek().kind == Token::Kind::string || peek().text != word) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail("'" + std::string(word) + "' expected, not '" + std::string(peek().text) + "'");
  }
  std::string name() {
    if (peek().kind != Token::Kind::name) fail("a name expected, not '" + std::string(peek().text) + "'");
    return std::string(next().text);
  }
  uint64_t integer() {
    if (peek().kind != Token::Kind::integer) fail("a number expected, not '" + std::string(peek().text) + "'");
    return next().bits;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw PtxError("[ptx] " + what + " (line " + std::to_string(peek().line) + ")");
  }

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

  Space space_of(std::string_view word) const {
    if (word == ".global") return Space::global;
    if (word == ".const") return Space::constant;
    if (word == ".shared") return Space::shared;
    if (word == ".local") return Space::local;
    if (word == ".param") return Space::param;
    fail("unknown space '" + std::string(word) + "'");
  }

  // .shared .align 4 .b8 a[1024], b[8];
  void variables(bool external) {
    const Space space = space_of(name());
    uint64_t alignment = 0;
    uint64_t element = 0;
    while (element == 0) {
      if (take(".align"))
        alignment = integer();
      else if ((element = bytes_of(peek().text)) == 0)
        fail("unknown type '" + std::string(peek().text) + "' of a variable");
      else
        next();
    }
    do {
      Variable& v = declare(space, element, std::max(alignment, element));
      if (external && v.bytes == 0) {
        if (space != Space::shared) fail("'" + v.name + "' lies in another module");
        v.dynamic = module_.dynamic_shared = true;
      }
      if (take("=")) initialise(v, element);
      place(v);
    } while (take(","));
    expect(";");
  }

  // The name and the dimensions of a variable.
  Variable& declare(Space space, uint64_t element, uint64_t alignment) {
    module_.owned.push_back(std::make_unique<Variable>());
    Variable& v = *module_.owned.back();
    v.name = name();
    v.space = space;
    v.bytes = element;
    v.alignment = alignment;
    while (take("[")) {
      v.bytes *= peek().text == "]" ? 0 : integer();
      expect("]");
    }
    scopes_.back().variables[v.name] = &v;
    return v;
  }

  void place(Variable& v) {
    const bool frame = v.space == Space::local || v.space == Space::param;
    uint64_t& end = frame                      ? module_.frame_bytes
                    : v.space == Space::shared ? module_.shared_bytes
                                               : module_.global_bytes;
    if (v.space == Space::param) v.space = Space::local;  // of a call; a kernel's parameters are placed by function()
    v.offset = end = round_up(end, v.alignment);
    end += v.bytes;
    if (v.space == Space::global || v.space == Space::constant) module_.globals.push_back(&v);
  }

  void initialise(Variable& v, uint64_t element) {
    v.initial.assign(v.bytes, std::byte{0});
    uint64_t at = 0;
    const bool several = take("{");
    do {
      const bool negative = take("-");
      if (peek().kind != Token::Kind::integer && peek().kind != Token::Kind::f32 && peek().kind != Token::Kind::f64)
        fail("a number expected in what '" + v.name + "' holds at first");
      uint64_t bits = next().bits;
      if (negative) bits = 0 - bits;
      if (at + element > v.bytes) fail("'" + v.name + "' has more values than elements");
      for (uint64_t i = 0; i < element; ++i) v.initial[at + i] = static_cast<std::byte>(bits >> (8 * i));
      at += element;
    } while (several && take(","));
    if (several) expect("}");
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
        else if (bytes_of(word))
          element = bytes_of(word);
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

  void body(Function& f) {
    f.defined = true;
    function_ = &f;
    labels_.clear();
    location_ = {};
    expect("{");
    for (int open = 1; open > 0;) {
      if (take("{")) {
        scopes_.emplace_back();
        ++open;
      } else if (take("}")) {
        if (--open > 0) scopes_.pop_back();
      } else {
        statement(f);
      }
    }
    for (Instruction& i : f.code) {
      for (Operand& o : i.operands) resolve_label(o);
    }
    for (auto& [table, names] : tables_) {
      std::vector<int64_t> targets;
      for (const std::string& label : names) targets.push_back(label_index(label));
      module_.branch_tables[table] = std::move(targets);
    }
    tables_.clear();
  }

  void statement(Function& f) {
    const Token& first = peek();
    if (first.kind == Token::Kind::end) fail("'}' expected");
    if (first.kind == Token::Kind::name && peek(1).text == ":") return label(f);
    if (first.text == ".reg") return registers(f);
    if (first.text == ".loc") return loc();
    if (first.text == ".pragma") {
      while (next().text != ";") {
      }
      return;
    }
    if (first.text[0] == '.') return variables(false);
    instruction(f);
  }

  void label(Function& f) {
    const std::string label = name();
    expect(":");
    if (take(".branchtargets")) {
      std::vector<std::string> targets;
      do targets.push_back(name());
      while (take(","));
      expect(";");
      labels_[label] = -1 - static_cast<int64_t>(module_.branch_tables.size());
      tables_.emplace_back(module_.branch_tables.size(), std::move(targets));
      module_.branch_tables.emplace_back();
    } else if (!labels_.emplace(label, static_cast<int64_t>(f.code.size())).second) {
      fail("the label '" + label + "' stands twice");
    }
  }

  // .reg .b32 %r<452>;
  void registers(Function& f) {
    expect(".reg");
    const std::string type = name();
    const uint8_t bytes = bytes_of(type);
    if (bytes == 0) fail("unknown type '" + type + "' of a register");
    do {
      const std::string prefix = name();
      const auto add = [&](const std::string& full) {
        scopes_.back().registers[full] = static_cast<uint32_t>(f.registers.size());
        f.registers.push_back({full, bytes});
      };
      if (take("<")) {
        const uint64_t count = integer();
        expect(">");
        for (uint64_t i = 0; i < count; ++i) add(prefix + std::to_string(i));
      } else {
        add(prefix);
      }
    } while (take(","));
    expect(";");
  }

  // .loc 1 12 3, function_name $L__info_string0, inlined_at 1 40 5
  void loc() {
    const int line = next().line;
    location_ = {};
    location_.file = static_cast<int>(integer());
    location_.line = static_cast<int>(integer());
    if (peek().kind == Token::Kind::integer) next();
    while (take(",")) {
      const std::string word = name();
      if (word == "inlined_at") {
        location_.outer_file = static_cast<int>(integer());
        location_.outer_line = static_cast<int>(integer());
        integer();
      } else if (word == "function_name") {
        name();
        if (take("+")) integer();
      } else {
        fail("unknown word '" + word + "' of .loc");
      }
    }
    if (peek().line == line) fail("unknown word '" + std::string(peek().text) + "' of .loc");
  }

  // ---- instructions ----
  void instruction(Function& f) {
    Instruction i;
    i.line = peek().line;
    i.location = location_;
    if (take("@")) {
      i.negated = take("!");
      const Operand p = operand();
      if (p.kind != Operand::Kind::reg) fail("no predicate behind '@'");
      i.predicate = static_cast<int32_t>(p.reg);
    }
    i.opcode = name();
    if (!take(";")) {
      do i.operands.push_back(operand());
      while (take(","));
      expect(";");
    }
    f.code.push_back(std::move(i));
  }

  Operand operand() {
    Operand o;
    if (take("{")) {
      o.kind = Operand::Kind::vector;
      do o.parts.push_back(operand());
      while (take(","));
      expect("}");
      return o;
    }
    if (take("(")) {
      o.kind = Operand::Kind::list;
      while (!take(")")) {
        o.parts.push_back(operand());
        take(",");
      }
      return o;
    }
    if (take("[")) return address();
    if (take("!")) {
      o = operand();
      o.negated = true;
      return o;
    }
    const bool negative = take("-");
    const Token& token = next();
    switch (token.kind) {
      case Token::Kind::integer:
        o.kind = Operand::Kind::integer;
        o.bits = negative ? 0 - token.bits : token.bits;
        return o;
      case Token::Kind::f32:
      case Token::Kind::f64:
        o.kind = token.kind == Token::Kind::f32 ? Operand::Kind::f32 : Operand::Kind::f64;
        o.bits = token.bits ^ (!negative ? 0 : o.kind == Operand::Kind::f32 ? 1ull << 31 : 1ull << 63);
        return o;
      case Token::Kind::name:
        break;
      default:
        fail("an operand expected, not '" + std::string(token.text) + "'");
    }
    named(o, std::string(token.text));
    if (take("|")) o.parts.push_back(operand());
    return o;
  }

  void named(Operand& o, const std::string& word) {
    o.name = word;
    if (word == "_") {
      o.kind = Operand::Kind::sink;
      return;
    }
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (auto found = scope->registers.find(word); found != scope->registers.end()) {
        o.kind = Operand::Kind::reg;
        o.reg = found->second;
        return;
      }
      if (auto found = scope->variables.find(word); found != scope->variables.end()) {
        o.kind = Operand::Kind::variable;
        o.variable = found->second;
        if (take("+")) o.offset = static_cast<int64_t>(integer());
        return;
      }
    }
    if (word[0] == '%' || word == "WARP_SZ")
      o.kind = Operand::Kind::special;
    else
      o.kind = Operand::Kind::label;  // or a function: resolve_label()
  }

  // [%rd1+16], [x+-4], [x]
  Operand address() {
    Operand o;
    o.kind = Operand::Kind::address;
    if (peek().kind == Token::Kind::integer) {
      o.offset = static_cast<int64_t>(next().bits);
    } else {
      Operand base;
      named(base, name());
      o.based = base.kind == Operand::Kind::reg;
      o.reg = base.reg;
      o.variable = base.variable;
      o.offset = base.offset;
      if (!o.based && !o.variable) fail("'" + base.name + "' is no address");
      while (peek().text == "+" || peek().text == "-") {
        bool negative = next().text == "-";
        if (take("-")) negative = !negative;
        const auto by = static_cast<int64_t>(integer());
        o.offset += negative ? -by : by;
      }
    }
    expect("]");
    return o;
  }

  int64_t label_index(const std::string& label) const {
    const auto found = labels_.find(label);
    if (found == labels_.end()) fail("no label '" + label + "'");
    return found->second;
  }

  void resolve_label(Operand& o) {
    for (Operand& part : o.parts) resolve_label(part);
    if (o.kind != Operand::Kind::label) return;
    if (labels_.contains(o.name))
      o.bits = static_cast<uint64_t>(labels_[o.name]);
    else
      o.kind = Operand::Kind::function;
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  Module module_;
  std::vector<Scope> scopes_;
  Function* function_ = nullptr;
  Location location_;
  std::unordered_map<std::string, int64_t> labels_;  // index of an instruction; -1 - i: the branch table i
  std::vector<std::pair<size_t, std::vector<std::string>>> tables_;
};

}  // namespace

Module parse(std::string_view text) { return Parser(text).module(); }

}  // namespace heddle::ptx
