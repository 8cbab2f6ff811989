#include "heddle/distributed/mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"

namespace heddle::distributed {
namespace {

std::string text_of(const std::vector<MeshAxis>& axes) {
  std::vector<std::string> words;
  for (const MeshAxis& axis : axes) words.push_back(fmt::format("{}={}", axis.name, axis.size));
  return fmt::format("{}", fmt::join(words, ","));
}

void check_axes(const std::vector<MeshAxis>& axes) {
  for (const MeshAxis& axis : axes) {
    if (axis.name.empty()) throw ValueError("[mesh] an axis has no name");
    if (axis.size < 1) throw ValueError(fmt::format("[mesh] {} is {}; it must be at least 1", axis.name, axis.size));
    const auto same = [&](const MeshAxis& other) { return other.name == axis.name; };
    if (std::count_if(axes.begin(), axes.end(), same) > 1)
      throw ValueError(fmt::format("[mesh] two axes are called {}", axis.name));
  }
}

// How many ranks the axes need, as text: the product may be beyond any integer.
bool make_up(const std::vector<MeshAxis>& axes, int ranks, std::string& needed) {
  int64_t product = 1;
  for (const MeshAxis& axis : axes) {
    if (__builtin_mul_overflow(product, axis.size, &product)) {
      needed = "more than 2^63";
      return false;
    }
  }
  needed = std::to_string(product);
  return product == ranks;
}

MeshAxis parse_axis(std::string_view word) {
  const size_t equals = word.find('=');
  if (equals != std::string_view::npos && equals > 0) {
    if (const auto size = parse_number<decltype(MeshAxis::size)>(word.substr(equals + 1)))
      return {std::string(word.substr(0, equals)), *size};
  }
  throw ValueError(fmt::format("[mesh] '{}' is no axis; a mesh is written as dp=2,tp=4", word));
}

}  // namespace

Mesh::Mesh(std::vector<MeshAxis> axes, int ranks) : axes_(std::move(axes)), ranks_(ranks) {
  check_axes(axes_);
  std::string needed;
  if (!make_up(axes_, ranks_, needed)) {
    throw ValueError(
        fmt::format("[mesh] {} needs {} rank{}; the world has {}", str(), needed, needed == "1" ? "" : "s", ranks_));
  }
}

Mesh Mesh::parse(std::string_view text, int ranks) {
  std::vector<MeshAxis> axes;
  for (size_t from = 0; from <= text.size();) {
    const size_t end = std::min(text.find(',', from), text.size());
    axes.push_back(parse_axis(text.substr(from, end - from)));
    from = end + 1;
  }
  return Mesh(std::move(axes), ranks);
}

size_t Mesh::place_of(std::string_view axis) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == axis) return i;
  }
  throw ValueError(fmt::format("[mesh] {} has no axis '{}'", str(), axis));
}

int64_t Mesh::size(std::string_view axis) const { return axes_[place_of(axis)].size; }

std::vector<int64_t> Mesh::coordinates(int rank) const {
  if (rank < 0 || rank >= ranks_) throw ValueError(fmt::format("[mesh] rank {} is not below {}", rank, ranks_));
  std::vector<int64_t> found(axes_.size());
  int64_t rest = rank;
  for (size_t i = axes_.size(); i-- > 0; rest /= axes_[i].size) found[i] = rest % axes_[i].size;
  return found;
}

int Mesh::rank_at(const std::vector<int64_t>& coordinates) const {
  if (coordinates.size() != axes_.size())
    throw ValueError(
        fmt::format("[mesh] {} coordinates for the {} axes of {}", coordinates.size(), axes_.size(), str()));
  int64_t rank = 0;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (coordinates[i] < 0 || coordinates[i] >= axes_[i].size)
      throw ValueError(fmt::format("[mesh] {}={} is outside of {}", axes_[i].name, coordinates[i], str()));
    rank = rank * axes_[i].size + coordinates[i];
  }
  return static_cast<int>(rank);
}

Partition Mesh::groups(const std::vector<std::string>& names) const {
  std::vector<bool> within(axes_.size());
  for (const std::string& name : names) {
    const size_t place = place_of(name);
    if (within[place]) throw ValueError(fmt::format("[mesh] the axis {} stands twice", name));
    within[place] = true;
  }
  std::map<std::vector<int64_t>, std::vector<int>> lines;  // by the coordinates on the other axes
  for (int rank = 0; rank < ranks_; ++rank) {
    std::vector<int64_t> others = coordinates(rank);
    for (size_t i = 0; i < others.size(); ++i) {
      if (within[i]) others[i] = 0;
    }
    lines[others].push_back(rank);
  }
  Partition found;
  for (auto& [place, ranks] : lines) found.push_back(std::move(ranks));
  return found;
}

std::string Mesh::str() const { return text_of(axes_); }

}  // namespace heddle::distributed
