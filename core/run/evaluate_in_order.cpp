#include "heddle/core/graph/evaluate_in_order.h"

#include <algorithm>
#include <utility>

#include "heddle/core/graph/evaluate.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/run/segments.h"

namespace heddle {

void evaluate_in_order(std::vector<Tensor> values, const Callable<void(size_t place, const Tensor& value)>& made) {
  {
    std::vector<NodePtr> ends;
    for (const Tensor& value : values) ends.push_back(value.node());
    std::vector<NodePtr> rest = held_pending();
    std::erase_if(rest, [&](const NodePtr& node) { return std::ranges::find(ends, node) != ends.end(); });
    Segments segments(std::move(ends), rest);
    rest.clear();  // what is held is not freed
    const auto hand_over = [&](size_t place) { made(place, std::exchange(values[place], Tensor())); };
    for (size_t i = 0; i < values.size(); ++i) {
      segments.evaluate(i);
      if (i > 0) hand_over(i - 1);
    }
    if (!values.empty()) hand_over(values.size() - 1);
  }
  evaluate_pending();
}

}  // namespace heddle
