#include "heddle/core/graph/composite.h"

#include <utility>

#include "heddle/core/graph/node.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {
namespace {

thread_local CompositeScope* inner_composite = nullptr;

}  // namespace

CompositeScope::CompositeScope() : outer_(inner_composite) { inner_composite = this; }
CompositeScope::~CompositeScope() { inner_composite = outer_; }
bool CompositeScope::active() { return inner_composite != nullptr; }

void note_composite(std::string_view name, const Tensor& result, std::initializer_list<const Tensor*> inputs,
                    std::vector<int64_t> ints, double real) {
  if (!inner_composite) return;
  Composite note{name, result.node(), {}, std::move(ints), real};
  for (const Tensor* input : inputs) {
    note.inputs.push_back(input->defined() ? input->node() : nullptr);
    if (note.inputs.back() == note.result) return;  // the function had nothing to do
  }
  inner_composite->notes_.insert_or_assign(note.result.get(), std::move(note));
}

}  // namespace heddle
