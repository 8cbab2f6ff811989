// KernelLines: the lines of a kernel, its blocks, and which variables are known in them.
//
// Invariants: every name it gives is given once. Thread safety: none.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

class KernelLines {
 public:
  void line(const std::string& text) { text_ += text + "\n"; }
  void push_scope() { scopes_.emplace_back(); }
  void pop_scope() { scopes_.pop_back(); }
  // prefix and a number.
  std::string fresh(std::string_view prefix) { return std::string(prefix) + std::to_string(next_++); }
  // The variable that holds what `key` says, in this block or one around it; empty: none.
  std::string find(const std::string& key) const;
  // For the innermost block.
  void remember(const std::string& key, const std::string& variable) { scopes_.back()[key] = variable; }
  std::string take() { return std::move(text_); }
  void clear();

 private:
  std::string text_;
  std::vector<std::map<std::string, std::string>> scopes_{1};
  int next_ = 0;
};

}  // namespace heddle
