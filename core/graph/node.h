// Node: one vertex of the immutable graph: op, attributes, inputs, shape, dtype.
//
// Purpose: what operators record. Invariants: op, attrs, shape, dtype and device never change and were checked when the
// node was made; the graph is acyclic. A node may gain a value (`storage` and `view`): that is a cache of what it
// means. When it gains one and no gradient may ask for its past (`tracks` false), its inputs are dropped, so that
// history is freed. Thread safety: a graph is recorded and evaluated by one thread; finished values may be read by
// others.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "heddle/core/base/caller.h"
#include "heddle/core/base/dtype.h"
#include "heddle/core/base/shape.h"
#include "heddle/core/base/view.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/graph/node_ptr.h"
#include "heddle/core/op/op.h"

namespace heddle {

// A few numbers that change from step to step without changing the graph's structure: learning rates, random keys.
// All of a step's host values reach the device in one small write. At most four 32-bit words.
struct HostValue {
  std::array<uint32_t, 4> words{};
};

struct Node {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<NodePtr> inputs;
  Shape shape;
  DType dtype = DType::f32;
  DeviceContext* device = nullptr;
  bool tracks = false;  // gradients flow through this node (or, for a leaf, into it)
  Keep keep = Keep::plain;
  AxisMask varying = 0;  // along which axes of the thread's mesh it may differ between ranks (core/graph/mesh_scope.h)

  // The value, once there is one.
  StoragePtr storage;
  View view;                        // how the value lies in `storage`, in elements of dtype
  std::unique_ptr<HostValue> host;  // leaf with a host value instead of storage (shape.numel() <= 4; f32 or i32)
  bool overwritten = false;         // its storage was updated in place since: the old value is gone

  SourceLine where;  // the user's call that recorded this. Never part of a structure: a step that is found again shows
                     // the lines of its first recording

  std::atomic<int> handles{0};            // Tensors that hold this node: held nodes become outputs when evaluated
  std::weak_ptr<TensorImpl> grad_target;  // leaf (or assign) with requires_grad: where backward() accumulates

  // Scratch of capture() for nodes without a value, which one thread has: the number in the capture of that epoch.
  uint64_t capture_epoch = 0;
  int capture_number = 0;

  bool has_value() const { return storage != nullptr || host != nullptr; }
  ~Node();  // frees long chains without recursion
};

// Makes a node, checks nothing but that all inputs share `device`; shape rules live in the functions that call it.
// Registers it as pending on this thread; in eager mode evaluates it at once.
NodePtr make_node(const OpDef& op, std::vector<NodePtr> inputs, Attrs attrs, const Shape& shape, DType dtype);
// The same without inputs (constants, random without key), on a device.
NodePtr make_node_on(DeviceContext& device, const OpDef& op, Attrs attrs, const Shape& shape, DType dtype);
// A leaf over existing storage.
NodePtr make_leaf(StoragePtr storage, const View& view, DType dtype);
// A leaf over up to four host words (f32 or i32).
NodePtr make_host_leaf(DeviceContext& device, const HostValue& value, const Shape& shape, DType dtype);

// The bit of what is computed in the body of a loop from its arguments: it varies as the loop's inputs do.
constexpr AxisMask varies_as_loop = AxisMask{1} << 31;

// How a node over `inputs` varies. Inputs that vary less than others and have a gradient pass a pvary first. AxisError
// for an assign to what collects gradients of a value that varies along more axes.
AxisMask unify_inputs(const OpDef& op, const Attrs& attrs, std::vector<NodePtr>& inputs);

// "matmul (32, 128) f32" with inputs and the user's line, for messages and dumps.
std::string describe(const Node& node);

}  // namespace heddle
