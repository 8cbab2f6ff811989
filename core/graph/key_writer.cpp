#include "heddle/core/graph/key_writer.h"

#include <bit>

#include "heddle/core/graph/loop_node.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/op/user_row.h"

namespace heddle {
namespace {

// The header, from the top: stored, real numbers, keep (2 bits), rank (4), dtype (4), inputs (32), integers (20).
// Without its marks the view of a stored value could read like the attributes of a pending one.
constexpr int stored_at = 63, reals_at = 62, keep_at = 60, rank_at = 56, dtype_at = 52, inputs_at = 20;
static_assert(Shape::max_rank < 16 && dtype_count <= 16);

// What stands where a slot or strides do not.
constexpr uint64_t is_host = ~uint64_t{0}, is_dense = ~uint64_t{1};

// By bits: -0 is another constant than 0.
bool has_reals(const Attrs& attrs) {
  return (std::bit_cast<uint64_t>(attrs.real) | std::bit_cast<uint64_t>(attrs.real2)) != 0;
}

}  // namespace

void KeyWriter::size(int64_t value, uint16_t which) {
  if (sizes_ != nullptr) sizes_->push_back({static_cast<uint32_t>(key_.size()), node_, which});
  word(static_cast<uint64_t>(value));
}

void KeyWriter::begin(const OpDef& row, const Node& node, uint64_t rest) {
  word(row.id);
  word(static_cast<uint64_t>(node.shape.rank()) << rank_at | static_cast<uint64_t>(node.dtype) << dtype_at | rest);
  for (int d = 0; d < node.shape.rank(); ++d) size(node.shape[d], static_cast<uint16_t>(1u << d));
}

void KeyWriter::host_value(const Node& node) {
  begin(ops::leaf_op, node, uint64_t{1} << stored_at);
  word(is_host);
  ++node_;
}

void KeyWriter::stored_value(const Node& node, int slot, const View& view) {
  begin(ops::leaf_op, node, uint64_t{1} << stored_at);
  word(static_cast<uint64_t>(slot));
  size(view.offset, varies::offset);
  if (view.is_dense()) {
    word(is_dense);
  } else {
    for (int d = 0; d < view.shape.rank(); ++d) size(view.strides[d], varies::numbers);
  }
  ++node_;
}

void KeyWriter::begin_pending(const Node& node) {
  const bool reals = has_reals(node.attrs);
  begin(*planned_row(node.op), node,
        static_cast<uint64_t>(reals) << reals_at | static_cast<uint64_t>(node.keep) << keep_at |
            static_cast<uint64_t>(node.inputs.size()) << inputs_at | node.attrs.ints.size());
  for (int64_t i : node.attrs.ints) size(i, varies::numbers);
  if (reals) {
    size(std::bit_cast<int64_t>(node.attrs.real), varies::numbers);
    size(std::bit_cast<int64_t>(node.attrs.real2), varies::numbers);
  }
}

void KeyWriter::end_pending(const Node& node) {
  if (node.op == &ops::loop_op) {
    const std::vector<uint64_t>& body = as_loop(node).body->key;
    word(body.size());
    key_.insert(key_.end(), body.begin(), body.end());
  }
  ++node_;
}

void KeyWriter::output(size_t node, int slot) {
  word(uint64_t{1} << 63 | static_cast<uint64_t>(node) << 31 | static_cast<uint64_t>(slot + 1));
}

}  // namespace heddle
