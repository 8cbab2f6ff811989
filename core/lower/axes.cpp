#include "heddle/core/lower/axes.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

int64_t extent(const std::vector<Axis>& axes) {
  int64_t n = 1;
  for (const Axis& axis : axes) n *= axis.size;
  return n;
}

std::vector<Axis> merge_axes(Emitter& emitter, const Shape& shape, int first, const std::string& prefix) {
  std::vector<Axis> axes;
  for (int d = 0; d < shape.rank(); ++d) {
    const int variable = first + d;
    if (shape[d] == 1) {
      emitter.names[static_cast<size_t>(variable)].clear();  // of a section: 0
      continue;
    }
    const bool merges =
        !axes.empty() && std::all_of(emitter.printed().begin(), emitter.printed().end(), [&](const Index& index) {
          return index.coefficient(axes.back().variable) == index.coefficient(variable) * shape[d];
        });
    if (merges) {
      emitter.names[axes.back().variable].clear();
      axes.back() = {variable, axes.back().size * shape[d]};
    } else {
      axes.push_back({variable, shape[d]});
    }
  }
  for (size_t i = 0; i < axes.size(); ++i) emitter.names[axes[i].variable] = fmt::format("{}{}", prefix, i);
  return axes;
}

void split_index(Emitter& emitter, const std::vector<Axis>& axes, const std::string& flat) {
  std::string rest = flat;
  for (size_t i = axes.size(); i-- > 0;) {
    const std::string& name = emitter.names[axes[i].variable];
    if (i == 0) {
      emitter.line(fmt::format("int {} = {};", name, rest));
      break;
    }
    const std::string size = emitter.constant(axes[i].size);
    emitter.line(fmt::format("int {} = {} % {};", name, rest, size));
    const std::string next = fmt::format("{}_rest", name);
    emitter.line(fmt::format("int {} = {} / {};", next, rest, size));
    rest = next;
  }
}

}  // namespace heddle
