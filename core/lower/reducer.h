// Reducer: the dialect text of one reduction: its accumulator, how a value enters it, how two accumulators join.
//
// Invariants: sums and products are in the order of the loop around them; max and min keep NaN; argmax and argmin take
// the first of equals and a NaN before everything. Thread safety: plain value.
#pragma once

#include <string>
#include <vector>

#include "heddle/core/ir/ir.h"

namespace heddle {

class Reducer {
 public:
  // `ordinal` names the accumulator: the text must not depend on vertex numbers.
  Reducer(const IrNode& node, DType input, int id, int ordinal);

  int node() const { return id_; }
  // argmax and argmin: the accumulator is a value and where it stood.
  bool positional() const { return arg_; }
  // The dialect's reduction over the lanes of a group; empty where there is none.
  std::string_view group_word() const;
  // 32-bit registers that an accumulator takes.
  int registers() const { return (tree() ? 1 : 2) + arg_; }
  // Can lanes be joined in 32-bit shared memory? Not 64-bit types.
  bool tree() const { return type_ != "F64" && type_ != "I64"; }
  std::string_view type() const { return type_; }

  // Where an accumulator lies: its value and, for argmax and argmin, its position.
  struct Slots {
    std::string value, at;
  };
  static Slots slots(const std::string& name, const std::string& lane) { return {name + lane, name + "_at" + lane}; }
  Slots own(const std::string& lane) const {
    return slots(name_, lane);
  }  // the declared one, with `lane` ("" or "[t_l]") appended
  std::vector<std::string> declare(const std::string& lane) const;
  // An array of them, of which `lane` "[t_l]" (or `suffix` + "[t_l]") names one; `word` stands before its loop.
  std::vector<std::string> declare_array(int64_t width, const std::string& word, const std::string& suffix = "") const;
  std::vector<std::string> accumulate(const std::string& lane, const std::string& value,
                                      const std::string& position) const;
  // Statements: to = from; a = a joined with b.
  std::string assign(const Slots& to, const Slots& from) const;
  std::string join(const Slots& a, const Slots& b) const;
  // The reduction's value in the arithmetic type of the node's dtype.
  std::string result(const std::string& lane) const;

 private:
  std::string combine(const std::string& a, const std::string& b) const;
  // Does value v take the place of a (not looking at positions)?
  std::string beats(const std::string& v, const std::string& a) const;

  int id_;
  DType dtype_;
  DType input_;
  bool arg_ = false;
  std::string_view op_;
  std::string name_;
  std::string type_;  // of the accumulator
  std::string start_;
};

}  // namespace heddle
