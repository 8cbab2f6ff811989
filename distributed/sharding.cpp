#include "heddle/distributed/sharding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"

namespace heddle::distributed {
namespace {

using Coordinates = std::vector<int64_t>;
using ByPlace = std::map<Coordinates, Tensor>;

size_t number_of(const Mesh& mesh, const std::string& name) {
  mesh.size(name);  // ValueError where there is none
  const auto at =
      std::find_if(mesh.axes().begin(), mesh.axes().end(), [&](const MeshAxis& a) { return a.name == name; });
  return static_cast<size_t>(at - mesh.axes().begin());
}

// What lies along one axis becomes one value, at its place 0.
template <class Merge>
ByPlace merged(const ByPlace& parts, size_t axis, const Merge& merge) {
  std::map<Coordinates, std::vector<Tensor>> lines;  // each in the order of the axis
  for (const auto& [place, part] : parts) {
    Coordinates first = place;
    first[axis] = 0;
    lines[first].push_back(part);
  }
  ByPlace result;
  for (const auto& [place, line] : lines) result.emplace(place, merge(line));
  return result;
}

Tensor added(const std::vector<Tensor>& terms) {
  Tensor total = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) total = total + terms[i];
  return total;
}

}  // namespace

Sharding::Sharding(Mesh mesh, Spec spec) : mesh_(std::move(mesh)), spec_(std::move(spec)) {
  const std::vector<std::string> named = axes();
  for (const std::string& name : named) {
    mesh_.size(name);
    if (std::count(named.begin(), named.end(), name) > 1)
      throw ValueError(fmt::format("[sharding] {} names the axis '{}' twice", str(), name));
  }
}

std::vector<std::string> Sharding::axes() const {
  std::vector<std::string> all = spec_.partial;
  for (const AxisNames& dim : spec_.dims) all.insert(all.end(), dim.list().begin(), dim.list().end());
  return all;
}

int64_t Sharding::cuts(size_t dim) const {
  int64_t parts = 1;
  for (const std::string& axis : spec_.dims[dim].list()) parts *= mesh_.size(axis);
  return parts;
}

Shape Sharding::shard_shape(const Shape& whole) const {
  if (spec_.dims.size() > static_cast<size_t>(whole.rank())) {
    throw ShapeError(fmt::format("[sharding] {} names {} dimensions; {} has {}", str(), spec_.dims.size(), whole.str(),
                                 whole.rank()));
  }
  Shape shape = whole;
  for (size_t d = 0; d < spec_.dims.size(); ++d) {
    const int64_t parts = cuts(d), size = whole[static_cast<int>(d)];
    if (size % parts != 0)
      throw ShapeError(fmt::format("[sharding] {} ranks do not divide axis {} of {}, as {} of {} asks", parts, d,
                                   whole.str(), str(), mesh_.str()));
    shape = shape.with(static_cast<int>(d), size / parts);
  }
  return shape;
}

Tensor Sharding::shard(const Tensor& whole, int rank, Caller caller) const {
  const CallerScope scope(caller);
  if (!spec_.partial.empty())
    throw ValueError(fmt::format("[sharding] {}: a value that is given is no sum that is still to be made", str()));
  const Shape shape = shard_shape(whole.shape());
  const Coordinates place = mesh_.coordinates(rank);
  std::vector<Slice> ranges;
  for (size_t d = 0; d < spec_.dims.size(); ++d) {
    int64_t part = 0;
    for (const std::string& axis : spec_.dims[d].list()) part = part * mesh_.size(axis) + place[number_of(mesh_, axis)];
    const int64_t size = shape[static_cast<int>(d)];
    ranges.push_back({part * size, (part + 1) * size, 1});
  }
  return ranges.empty() ? whole : slice(whole, ranges);
}

Tensor Sharding::join(std::span<const Tensor> shards, Caller caller) const {
  const CallerScope scope(caller);
  if (shards.size() != static_cast<size_t>(mesh_.ranks()))
    throw ValueError(
        fmt::format("[sharding] {} parts for the {} ranks of {}", shards.size(), mesh_.ranks(), mesh_.str()));
  std::vector<bool> named(mesh_.axes().size());
  for (const std::string& axis : axes()) named[number_of(mesh_, axis)] = true;
  ByPlace parts;
  for (int rank = 0; rank < mesh_.ranks(); ++rank) {
    const Coordinates place = mesh_.coordinates(rank);
    bool copy = false;
    for (size_t i = 0; i < place.size(); ++i) copy = copy || (!named[i] && place[i] != 0);
    if (!copy) parts.emplace(place, shards[static_cast<size_t>(rank)]);
  }
  for (const std::string& axis : spec_.partial) parts = merged(parts, number_of(mesh_, axis), added);
  for (size_t d = 0; d < spec_.dims.size(); ++d) {
    const std::vector<std::string>& along = spec_.dims[d].list();
    for (auto axis = along.rbegin(); axis != along.rend(); ++axis) {  // neighbours first
      parts = merged(parts, number_of(mesh_, *axis),
                     [d](const std::vector<Tensor>& line) { return concat(line, static_cast<int>(d)); });
    }
  }
  return parts.begin()->second;
}

std::string Sharding::str() const {
  std::vector<std::string> words;
  for (const AxisNames& dim : spec_.dims)
    words.push_back(dim.list().empty() ? "-" : fmt::format("{}", fmt::join(dim.list(), "+")));
  std::string text = fmt::format("({})", fmt::join(words, ", "));
  if (!spec_.partial.empty()) text += fmt::format(" partial {}", fmt::join(spec_.partial, "+"));
  return text;
}

}  // namespace heddle::distributed
