// The parser of PTX in its parts: words, variables, what stands in a function's body. parser.cpp is the whole.
//
// Purpose: shared by the parser's files. Thread safety: none.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/ptx/fault.h"
#include "tests/ptx/lexer.h"
#include "tests/ptx/module.h"

namespace heddle::ptx {

inline uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

// Bytes of a type's name (".b32"), 0 for what is no type.
uint8_t bytes_of_type(std::string_view type);

// A cursor over the text's words.
class Words {
 protected:
  explicit Words(std::string_view text) : tokens_(tokens_of(text)) {}

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

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

// Variables of a module or a function, and the scopes that names are looked up in.
class Variables : protected Words {
 protected:
  struct Scope {
    std::unordered_map<std::string, uint32_t> registers;
    std::unordered_map<std::string, const Variable*> variables;
  };
  explicit Variables(std::string_view text) : Words(text) { scopes_.emplace_back(); }

  // .shared .align 4 .b8 a[1024], b[8];
  void variables(bool external);
  // The name and the dimensions of a variable.
  Variable& declare(Space space, uint64_t element, uint64_t alignment);
  void place(Variable& v);

  Module module_;
  std::vector<Scope> scopes_;

 private:
  Space space_of(std::string_view word) const;
  void initialise(Variable& v, uint64_t element);
};

// What stands between a function's braces.
class Body : protected Variables {
 protected:
  explicit Body(std::string_view text) : Variables(text) {}
  void body(Function& f);

 private:
  void statement(Function& f);
  void label(Function& f);
  void registers(Function& f);
  void loc();
  void instruction(Function& f);
  Operand operand();
  void named(Operand& o, const std::string& word);
  Operand address();
  int64_t label_index(const std::string& label) const;
  void resolve_label(Operand& o);

  Location location_;
  std::unordered_map<std::string, int64_t> labels_;  // index of an instruction; -1 - i: the branch table i
  std::vector<std::pair<size_t, std::vector<std::string>>> tables_;
};

}  // namespace heddle::ptx
