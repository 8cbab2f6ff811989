#include "heddle/distributed/pmap.h"

#include <fmt/format.h>

#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/distributed/world.h"

namespace heddle::distributed {
namespace {

struct Mapped {
  ShardFunction f;
  std::string axis;
  MappedAxes in, out;
};

Mapped checked(ShardFunction f, std::string axis, MappedAxes in, MappedAxes out) {
  for (const std::optional<int>& at : out) {
    if (at && *at < 0) throw ValueError(fmt::format("[pmap] the axis {} of a result; it must be 0 or above", *at));
  }
  return {std::move(f), std::move(axis), std::move(in), std::move(out)};
}

// From the front, one for each argument.
MappedAxes axes_of(const Mapped& mapped, const std::vector<Tensor>& arguments) {
  MappedAxes axes = mapped.in;
  if (axes.size() == 1) axes.resize(arguments.size(), axes[0]);
  if (axes.size() != arguments.size())
    throw ValueError(fmt::format("[pmap] {} axes for {} arguments", axes.size(), arguments.size()));
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!arguments[i].defined()) throw ValueError(fmt::format("[pmap] argument {} is undefined", i));
    if (axes[i]) axes[i] = normalize_axis(*axes[i], arguments[i].rank(), "pmap");
  }
  return axes;
}

// How many slices there are.
int64_t count_of(const MappedAxes& axes, const std::vector<Tensor>& arguments) {
  std::optional<int64_t> count;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!axes[i]) continue;
    const int64_t size = arguments[i].dim(*axes[i]);
    if (size != count.value_or(size) || size < 1)
      throw ShapeError(fmt::format("[pmap] argument {}, {}, has {} slices along axis {}; {}", i,
                                   arguments[i].shape().str(), size, *axes[i],
                                   count ? fmt::format("one before has {}", *count) : "there must be one at least"));
    count = size;
  }
  if (!count) throw ValueError("[pmap] no argument is mapped: how many ranks are meant?");
  return *count;
}

std::vector<Spec> specs(const MappedAxes& axes, const std::string& name) {
  std::vector<Spec> made;
  for (const std::optional<int>& at : axes) {
    Spec spec;
    if (at) {
      spec.dims.assign(static_cast<size_t>(*at), AxisNames(std::vector<std::string>{}));
      spec.dims.emplace_back(name);
    }
    made.push_back(std::move(spec));
  }
  return made;
}

// f over shards, whose mapped axes have one slice.
ShardFunction over_shards(const Mapped& mapped, const MappedAxes& in) {
  return [f = mapped.f, in, out = mapped.out](const std::vector<Tensor>& shards) {
    std::vector<Tensor> slices = shards;
    for (size_t i = 0; i < slices.size(); ++i) {
      if (in[i]) slices[i] = squeeze(slices[i], *in[i]);
    }
    std::vector<Tensor> results = f(slices);
    if (results.size() != out.size())
      throw ValueError(fmt::format("[pmap] {} results, but {} axes for them", results.size(), out.size()));
    for (size_t i = 0; i < results.size(); ++i) {
      if (out[i] && results[i].defined()) results[i] = unsqueeze(results[i], *out[i]);
    }
    return results;
  };
}

}  // namespace

ShardFunction pmap(ShardFunction f, std::string axis, MappedAxes in_axes, MappedAxes out_axes) {
  return [mapped = checked(std::move(f), std::move(axis), std::move(in_axes), std::move(out_axes))](
             const std::vector<Tensor>& whole) {
    const MappedAxes in = axes_of(mapped, whole);
    const int64_t ranks = count_of(in, whole);
    const Mesh mesh({{mapped.axis, ranks}}, static_cast<int>(ranks));
    return shard_map(over_shards(mapped, in), mesh, specs(in, mapped.axis), specs(mapped.out, mapped.axis))(whole);
  };
}

ShardFunction pmap(ShardFunction f, World& world, std::string axis, MappedAxes in_axes, MappedAxes out_axes) {
  return [mapped = checked(std::move(f), std::move(axis), std::move(in_axes), std::move(out_axes)),
          &world](const std::vector<Tensor>& shards) {
    const MappedAxes in = axes_of(mapped, shards);
    if (const int64_t slices = count_of(in, shards); slices != 1)
      throw ShapeError(fmt::format("[pmap] each of the {} processes brings one slice, not {}", world.size(), slices));
    const Mesh mesh({{mapped.axis, world.size()}}, world.size());
    return shard_map(over_shards(mapped, in), world, mesh, specs(in, mapped.axis),
                     specs(mapped.out, mapped.axis))(shards);
  };
}

}  // namespace heddle::distributed
