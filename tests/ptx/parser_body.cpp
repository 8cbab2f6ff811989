#include "tests/ptx/parser_parts.h"

namespace heddle::ptx {

void Body::body(Function& f) {
  f.defined = true;
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

void Body::statement(Function& f) {
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

void Body::label(Function& f) {
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
void Body::registers(Function& f) {
  expect(".reg");
  const std::string type = name();
  const uint8_t bytes = bytes_of_type(type);
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
void Body::loc() {
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
void Body::instruction(Function& f) {
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

Operand Body::operand() {
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

void Body::named(Operand& o, const std::string& word) {
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
Operand Body::address() {
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

int64_t Body::label_index(const std::string& label) const {
  const auto found = labels_.find(label);
  if (found == labels_.end()) fail("no label '" + label + "'");
  return found->second;
}

void Body::resolve_label(Operand& o) {
  for (Operand& part : o.parts) resolve_label(part);
  if (o.kind != Operand::Kind::label) return;
  if (labels_.contains(o.name))
    o.bits = static_cast<uint64_t>(labels_[o.name]);
  else
    o.kind = Operand::Kind::function;
}

}  // namespace heddle::ptx
