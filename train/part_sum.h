// PartSum: the sum of lists that come one after the other, added by a balanced binary tree over their numbers.
//
// Purpose: gradients of the parts of a batch (train/batch_parts.h): of 2^k lists, ((0+1)+(2+3))+((4+5)+(6+7)), as
// collectives add over ranks (distributed/reduce.h), so that ranks with 2^j lists each give the same bits. It keeps at
// most one list for each level of the tree. Invariants: lists are of one length. Thread safety: none.
#pragma once

#include <span>
#include <vector>

namespace heddle::train {

class PartSum {
 public:
  void add(std::vector<float> list);
  // The last of 2^k lists becomes the sum of all; the next one is the first of another sum.
  void finish(std::span<float> last);

 private:
  std::vector<std::vector<float>> levels_;  // of 2^level lists each
  std::vector<bool> full_;                  // by level
};

}  // namespace heddle::train
