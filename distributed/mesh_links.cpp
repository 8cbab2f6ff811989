#include "heddle/distributed/mesh_links.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::distributed {
namespace {

// One value, from its place to another; zeros where none comes.
void send_along(Group& group, const Node& node, std::span<const uint8_t> operand, std::span<uint8_t> result) {
  const Caller caller = node.where.caller;
  std::vector<Ticket> tickets;
  std::ranges::fill(result, uint8_t{0});
  for (const auto& [from, to] : CollectiveAttrs(node.attrs).pairs) {
    const bool sends = from == group.rank(), receives = to == group.rank();
    if (sends && receives) {
      std::copy(operand.begin(), operand.end(), result.begin());
    } else if (sends) {
      tickets.push_back(group.send(operand.data(), node.dtype, node.shape, static_cast<int>(to), caller));
    } else if (receives) {
      tickets.push_back(group.receive(result.data(), node.dtype, node.shape, static_cast<int>(from), caller));
    }
  }
  for (const Ticket& ticket : tickets) ticket.wait();
}

void reduce_over(Group& group, const Node& node, std::span<const uint8_t> operand, std::span<uint8_t> result) {
  std::copy(operand.begin(), operand.end(), result.begin());
  const Reduction reduction = node.op == &ops::psum_op   ? Reduction::sum
                              : node.op == &ops::pmax_op ? Reduction::max
                                                         : Reduction::min;
  group.all_reduce(result.data(), node.dtype, node.shape, reduction, node.where.caller).wait();
}

}  // namespace

MeshLinks::MeshLinks(World& world, const Mesh& mesh) : world_(world), mesh_(mesh) {
  if (mesh.ranks() != world.size()) {
    throw ValueError(fmt::format("[mesh] {} needs {} ranks; the world has {}", mesh.str(), mesh.ranks(), world.size()));
  }
  const std::vector<int64_t> places = mesh.coordinates(world.rank());
  for (size_t i = 0; i < places.size(); ++i) axes_.push_back({mesh.axes()[i].name, mesh.axes()[i].size, places[i]});
}

Group MeshLinks::group(AxisMask axes) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < axes_.size(); ++i) {
    if ((axes >> i & 1) != 0) names.push_back(axes_[i].name);
  }
  return world_.group(mesh_, names);
}

void MeshLinks::call(const Node& node, std::span<const uint8_t> operand, std::span<uint8_t> result) {
  Group ranks = group(CollectiveAttrs(node.attrs).axes);
  const Caller caller = node.where.caller;
  if (node.op == &ops::ppermute_op) {
    send_along(ranks, node, operand, result);
  } else if (node.op == &ops::all_gather_op) {
    ranks.all_gather(operand.data(), result.data(), node.dtype, node.shape.without(0), caller).wait();
  } else if (node.op == &ops::reduce_scatter_op) {
    ranks.reduce_scatter(operand.data(), result.data(), node.dtype, node.shape, Reduction::sum, caller).wait();
  } else if (node.op == &ops::all_to_all_op) {
    ranks.all_to_all(operand.data(), result.data(), node.dtype, node.shape.without(0), caller).wait();
  } else {
    reduce_over(ranks, node, operand, result);
  }
}

}  // namespace heddle::distributed
