// NodePtr: what a Tensor knows of the node behind it (core/graph/node.h), and how this thread records.
// Thread safety: grad_mode() is per thread.
#pragma once

#include <cstdint>
#include <memory>

namespace heddle {

struct Node;
using NodePtr = std::shared_ptr<Node>;
struct TensorImpl;

// What checkpoint() said of a value (core/graph/checkpoint.h). inside: computed again for whoever reads it from
// outside. result: recorded inside, but kept; it reads what is inside as it is. offload: kept, in host memory while
// nothing on the device needs it for long.
enum class Keep : uint8_t { plain, inside, result, offload };

// Whether new nodes on this thread record gradient information; see NoGradScope in tensor.h.
bool grad_mode();
void set_grad_mode(bool on);

}  // namespace heddle
