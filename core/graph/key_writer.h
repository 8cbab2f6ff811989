// KeyWriter: the words by which recorded structure is found again, and where sizes stand among them.
//
// Purpose: graphs and bodies of loops are found again by a key, and only this file knows the grammar of one. A word
// that may differ between two evaluations of one structure (a dimension, a stride, an offset, a number of the
// attributes) is noted as it is written; whoever compares structures goes by those notes.
//   node     row header dimension* (stored | pending)
//   header   what follows: a stored or a pending value, how many dimensions, integers and inputs, whether real numbers
//   stored   host | slot offset (dense | stride*)
//   pending  integer* (real real)? input* body?
//   body     of a loop: how many words, the words
//   output   position in the order, slot that it is assigned to
// Invariants: equal keys mean equal structure. A key is names (OpDef::id) and numbers, never an address, so it means
// the same in another process. Thread safety: a writer belongs to one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/base/view.h"
#include "heddle/core/graph/node.h"

namespace heddle {

// Which sizes of a node vary, as bits. The lowest eight: a dimension each.
namespace varies {
constexpr uint16_t dimensions = 0xff;
constexpr uint16_t numbers = 0x100;   // of the attributes; a leaf's strides
constexpr uint16_t offset = 0x200;    // of a leaf
constexpr uint16_t unknown = 0x8000;  // a pass made the vertex: settle_sizes() finds it
}  // namespace varies

// A word of a key that is a size, a number or an offset.
struct KeySize {
  uint32_t at = 0;     // position in the key
  uint32_t node = 0;   // position of the node among those written
  uint16_t which = 0;  // a bit of varies
};

class KeyWriter {
 public:
  // `sizes` may be null: nothing is noted.
  explicit KeyWriter(std::vector<uint64_t>& key, std::vector<KeySize>* sizes = nullptr) : key_(key), sizes_(sizes) {}

  // A value that is there, whatever op it came from: a parameter before and after its first update is the same.
  void host_value(const Node& node);
  // `view`: of the storage as it is bound to `slot`.
  void stored_value(const Node& node, int slot, const View& view);
  // `number_of(input)`: the position of an input among the nodes written.
  void pending(const Node& node, const auto& number_of) {
    begin_pending(node);
    for (const NodePtr& input : node.inputs) word(static_cast<uint64_t>(number_of(*input)));
    end_pending(node);
  }
  // `slot`: the storage that is overwritten in place; -1: none.
  void output(size_t node, int slot);
  // A plain number.
  void word(uint64_t word) { key_.push_back(word); }

 private:
  void size(int64_t value, uint16_t which);
  void begin(const OpDef& row, const Node& node, uint64_t rest);
  void begin_pending(const Node& node);
  void end_pending(const Node& node);

  std::vector<uint64_t>& key_;
  std::vector<KeySize>* sizes_;
  uint32_t node_ = 0;
};

}  // namespace heddle
