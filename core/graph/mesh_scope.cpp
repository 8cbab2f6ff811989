#include "heddle/core/graph/mesh_scope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/graph/evaluate.h"

namespace heddle {
namespace {

thread_local MeshScope* scope_of_thread = nullptr;

constexpr size_t most_axes = 31;  // the highest bit is varies_as_loop

std::string list(const std::vector<std::string>& words) {
  return fmt::format("{}{}{}", fmt::join(words.begin(), words.end() - 1, ", "), words.size() > 1 ? " and " : "",
                     words.back());
}

}  // namespace

MeshScope::MeshScope(AxisLinks& links) : links_(links) {
  if (scope_of_thread != nullptr) throw ValueError("[mesh] a program of ranks runs inside of another on this thread");
  if (axes().size() > most_axes)
    throw ValueError(fmt::format("[mesh] {} axes; there may be {}", axes().size(), most_axes));
  scope_of_thread = this;
}

MeshScope::~MeshScope() { scope_of_thread = nullptr; }

MeshScope* MeshScope::current() { return scope_of_thread; }

MeshScope& MeshScope::required(std::string_view who) {
  if (scope_of_thread == nullptr)
    throw AxisError(fmt::format("[{}] there is no mesh: axes have names inside of shard_map", who));
  return *scope_of_thread;
}

void MeshScope::finish() { make_collectives({}); }

AxisMask MeshScope::mask(std::span<const std::string> names, std::string_view who) const {
  if (names.empty()) throw AxisError(fmt::format("[{}] no axis is named", who));
  AxisMask found = 0;
  for (const std::string& name : names) {
    const auto at = std::find_if(axes().begin(), axes().end(), [&](const ScopeAxis& a) { return a.name == name; });
    if (at == axes().end()) {
      std::vector<std::string> known;
      for (const ScopeAxis& axis : axes()) known.push_back(fmt::format("{}={}", axis.name, axis.size));
      throw AxisError(fmt::format("[{}] the mesh {} has no axis '{}'", who, fmt::join(known, ","), name));
    }
    const AxisMask bit = AxisMask{1} << (at - axes().begin());
    if ((found & bit) != 0) throw AxisError(fmt::format("[{}] the axis '{}' stands twice", who, name));
    found |= bit;
  }
  return found;
}

std::string MeshScope::names(AxisMask mask) const {
  std::vector<std::string> found;
  for (size_t i = 0; i < axes().size(); ++i) {
    if ((mask >> i & 1) != 0) found.push_back(fmt::format("'{}'", axes()[i].name));
  }
  return found.empty() ? "no axis" : list(found);
}

int64_t MeshScope::size(AxisMask mask) const {
  int64_t product = 1;
  for (size_t i = 0; i < axes().size(); ++i) product *= (mask >> i & 1) != 0 ? axes()[i].size : 1;
  return product;
}

int64_t MeshScope::place(AxisMask mask) const {
  int64_t place = 0;
  for (size_t i = 0; i < axes().size(); ++i) {
    if ((mask >> i & 1) != 0) place = place * axes()[i].size + axes()[i].place;
  }
  return place;
}

void MeshScope::note(const NodePtr& collective) {
  recorded_.push_back(collective);
  ++count_;
}

std::vector<NodePtr> MeshScope::take_recorded() { return std::exchange(recorded_, {}); }

}  // namespace heddle
