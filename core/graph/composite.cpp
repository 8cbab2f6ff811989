#include "heddle/core/graph/composite.h"

#include <utility>

#include "heddle/core/graph/node.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {
namespace {

thread_local CompositeScope* innermost = nullptr;

}  // namespace

CompositeScope::CompositeScope() : outer_(innermost) { innermost = this; }
CompositeScope::~CompositeScope() { innermost = outer_; }
bool CompositeScope::active() { return innermost != nullptr; }

void note_composite(std::string_view name, const Tensor& result, std::initializer_list<const Tensor*> inputs,
                    std::vector<int64_t> ints, double real) {
  if (!innermost) return;
  Composite note{name, result.node(), {}, std::move(ints), real};
  for (const Tensor* input : inputs) {
    note.inputs.push_back(input->defined() ? input->node() : nullptr);
    if (note.inputs.back() == note.result) return;  // the function had nothing to do
  }
  innermost->notes_.insert_or_assign(note.result.get(), std::move(note));
}

}  // namespace heddle
