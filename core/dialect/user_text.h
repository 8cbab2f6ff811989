// The text of a user's elementwise kernel: checked once, printed into kernels for given dtypes.
//
// Purpose: what a user writes for one element becomes a block of statements that may stand anywhere in a generated
// kernel or in a macro of a hand-written one. So every name of his gets a prefix, and only words of the dialect that
// concern one element are let through; a mistake that can be seen without a compiler is a ValueError with the line.
// Invariants: immutable once made; the printed block has the text's lines in order. Thread safety: pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/dtype.h"

namespace heddle {

class UserText {
 public:
  UserText() = default;
  // `who` in front of errors.
  UserText(std::string_view who, std::string_view text, std::vector<std::string> inputs,
           std::vector<std::string> outputs);

  bool loops() const { return loops_; }
  bool transcendental() const { return transcendental_; }
  int cost() const { return cost_; }  // a guess; what stands in loops once

  // One operand of the block: its arithmetic type, and the variable outside of the block.
  struct Operand {
    std::string type, variable;
  };
  // "{ ... }": sets the variables of `outputs`, which are declared before it. `common`: what T is. With `lines` the
  // text's lines are named after `who` by #line.
  std::string block(const std::vector<Operand>& inputs, const std::vector<Operand>& outputs, DType common,
                    bool lines = false) const;

  // What a compiler said, with the user's names.
  static std::string with_own_names(std::string_view message);
  // The first line of the text of `who` that the log names; 0: none.
  static int line_in(std::string_view log, const std::string& who);

 private:
  enum class Kind : uint8_t { space, word, name, number, mark };
  struct Token {
    Kind kind;
    std::string text;
  };
  void check(const std::vector<Token>& tokens);
  [[noreturn]] void fail(int line, const std::string& what) const;

  std::string who_;
  std::vector<Token> tokens_;
  std::vector<std::string> inputs_, outputs_;
  bool expression_ = false, loops_ = false, transcendental_ = false;
  int cost_ = 0;
};

// Whether a name may be that of a kernel or a value: letters, digits, single underscores, not a word of the dialect.
bool is_user_name(std::string_view name);

}  // namespace heddle
