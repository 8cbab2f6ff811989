#include "heddle/core/lower/reduce_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

ReduceRows::ReduceRows(const LowerInput& lowered)
    : in(lowered), e(in.scheduled, in.group, 12, in.options.joined, in.section), phases_of(in.scheduled, in.group) {
  e.names.assign(static_cast<size_t>(2 * Shape::max_rank), "t_d");
  e.learn_every_path();  // passes over the row do not share values, so each may read them through its own path
  note_divisible(in.section, in.group.domain);
  learn_indices();
  outer = merge_axes(e, within(in.section, in.group.domain, 0), 0, "t_x");
  inner = merge_axes(e, in.group.inner, in.group.domain.rank(), "t_r");
  rows = extent(outer);
  length = in.group.inner.numel();
  length_varies = e.varying() && some_length_varies();
  picked_rows = e.varying() ? nominal_size : rows;
  picked_length = length_varies ? nominal_size : length;
  lanes_on_rows_ = choose_lanes_on_rows();
  e.start_over();
}

// Whether some dimension does that any of the reductions reduces.
bool ReduceRows::some_length_varies() const {
  const auto varies = [&](const Reducer& r) {
    const IrNode &node = graph().nodes[r.node()], &x = graph().nodes[node.inputs[0]];
    return std::any_of(axes_of(node.attrs).begin(), axes_of(node.attrs).end(),
                       [&](int64_t axis) { return dimension_varies(x, static_cast<int>(axis)); });
  };
  return std::any_of(phases().begin(), phases().end(),
                     [&](const auto& phase) { return std::any_of(phase.begin(), phase.end(), varies); });
}

void ReduceRows::learn_indices() {
  for (const auto& phase : phases()) {
    for (const Reducer& r : phase) input_value(r);
    for (const Reducer& r : phase) e.bind(r.node(), "t_unknown");
  }
  store_members(Level::row);
  store_members(Level::full);
}

std::vector<LoadSite> ReduceRows::reads_along(size_t first) const {
  const int first_along = group().domain.rank();
  return e.distinct_loads(
      [&](const LoadSite& load) {
        return load.index.affine() && load.dtype != DType::boolean &&
               std::any_of(load.index.terms.begin(), load.index.terms.end(),
                           [&](const auto& term) { return term.first >= first_along; });
      },
      first);
}

std::vector<std::vector<LoadSite>> ReduceRows::learn_reads() {
  std::vector<std::vector<LoadSite>> reads;
  const auto learn = [&](const auto& pass) {
    const size_t before = e.loads().size();
    e.push_scope();  // another pass reads again
    pass();
    e.pop_scope();
    reads.push_back(reads_along(before));
  };
  for (const auto& phase : phases()) {
    learn([&] {
      for (const Reducer& r : phase) input_value(r);
    });
    for (const Reducer& r : phase) e.bind(r.node(), "t_unknown");
  }
  learn([&] { store_members(Level::full); });
  e.start_over();
  return reads;
}

std::string ReduceRows::input_value(const Reducer& r) {
  const Member* member = group().find(r.node());
  return e.value(graph().nodes[r.node()].inputs[0], e.in_section(member_path(graph(), group(), *member, 0)));
}

void ReduceRows::store_members(Level level) {
  const Shape shape = domain_of(level);
  for (const Member& member : group().members) {
    if (!member.stored || member.level != level) continue;
    const std::string v = e.member_value(member);
    e.store(member.node, v, e.linear_index(shape, 0));
  }
}

bool ReduceRows::stores_at(Level level) const {
  return std::any_of(group().members.begin(), group().members.end(),
                     [&](const Member& m) { return m.stored && m.level == level; });
}

bool ReduceRows::choose_lanes_on_rows() const {
  // Lanes along the row are joined in shared memory, whose arrays are 32 bits wide.
  if (!in.options.loop_lanes && phases_of.any([](const Reducer& r) { return !r.tree(); })) return true;
  if (outer.empty()) return false;
  const int along = inner.empty() ? 0 : e.unit_stride_loads(inner.back().variable);
  // Only loads that change along the row count: what is read once a row decides nothing.
  const int across = e.unit_stride_loads(outer.back().variable, in.group.domain.rank());
  if (across > along) return picked_rows >= 8;
  return picked_rows >= 64 && picked_length < 16;
}

void ReduceRows::open_inner_loops(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = e.names[inner[i].variable];
    e.open(fmt::format("for (int {} = 0; {} < {}; ++{})", name, name, e.constant(inner[i].size), name));
  }
}
void ReduceRows::close_loops(size_t count) {
  for (size_t i = 0; i < count; ++i) e.close();
}

void ReduceRows::settle_row(size_t pass) {
  for (const Member& member : group().members) {
    const bool reduction = graph().nodes[member.node].op->kind == OpKind::reduce;
    if (member.level == Level::row && !reduction && phases_of.depth(member.node) <= static_cast<int>(pass))
      e.member_value(member);
  }
}

void ReduceRows::accumulate(const std::vector<Reducer>& phase, const std::string& lane) {
  // Position within the reduced axis, for argmax and argmin (they reduce one axis).
  const std::string position = inner.empty() ? "0" : e.names[inner.back().variable];
  for (const Reducer& r : phase) {
    const std::string v = input_value(r);
    for (const std::string& text : r.accumulate(lane, v, position)) e.line(text);
  }
}

}  // namespace heddle
