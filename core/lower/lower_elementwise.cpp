// Elementwise groups: one pass over the output; and the elementwise work of a hand-written body, as the text of its
// hook.
//
// The results are dense, so they are written along the innermost dimension. A load that is contiguous along another one
// (a transpose) is turned tile by tile: lower_elementwise_tiled.cpp.
#include "heddle/core/lower/lower_elementwise.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/functions/user/user_definition.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/lower/emit_text.h"
#include "heddle/core/lower/finish.h"

namespace heddle {

void emit_elementwise(Emitter& e) {
  const Group& group = e.group();
  // First, because they say which elements are the section's.
  for (const Member& member : group.members) {
    if (e.copies_pick(member)) e.member_value(member);
  }
  for (const Member& member : group.members) {
    if (!member.stored) continue;
    const std::string v = e.member_value(member);
    e.store(member.node, v, e.linear_index(group.domain, 0));
  }
}

RowUnits row_units(int64_t rows, int64_t inner, int64_t wanted) {
  RowUnits u{.rows = rows, .inner = inner};
  u.stretch = inner <= 2 * wanted ? inner : wanted;
  u.stretches = ceil_div(inner, u.stretch);
  u.block = u.stretches > 1 ? 1 : std::max<int64_t>(1, wanted / std::max<int64_t>(1, inner));
  u.units = ceil_div(rows, u.block) * u.stretches;
  return u;
}

void open_units(Emitter& e, const RowUnits& u) {
  e.line(fmt::format("int t_unit = {};", e.group_index()));
  e.open(fmt::format("if (t_unit < {})", e.constant(u.units)));
  const std::string per_row = e.constant(u.stretches), rows = e.constant(u.rows), size = e.constant(u.inner);
  e.line(fmt::format("int t_first = t_unit / {} * {};", per_row, e.constant(u.block)));
  e.line(fmt::format("int t_last = min(t_first + {}, {});", e.constant(u.block), rows));
  e.line(fmt::format("int t_low = t_unit % {} * {};", per_row, e.constant(u.stretch)));
  e.line(fmt::format("int t_high = min(t_low + {}, {});", e.constant(u.stretch), size));
}

namespace {

// The loads whose index the position alone says; none where they are too many for registers.
std::vector<LoadSite> loads_ahead(const Emitter& e) {
  std::vector<LoadSite> found = e.distinct_loads([](const LoadSite& load) {
    return load.index.affine() && !load.index.terms.empty() && load.dtype != DType::boolean;
  });
  return found.size() <= 8 ? found : std::vector<LoadSite>{};
}

// One work item per PER_LANE elements, a group's lanes side by side, over a flat index.
LoweredKernel lanes_as_items(Emitter& e, const LowerInput& in, const std::vector<Axis>& axes, Bindings& tunables) {
  // A joined row's group looks its numbers up in the table first: many elements an item make that worth it. The same
  // for all sizes, as the text is.
  const bool cpu = in.caps.machine() != Machine::simt, joined = e.joined();
  const int64_t lanes = std::clamp<int64_t>(joined ? (cpu ? 64 : 256) : tunables["LANES"], 1, in.caps.max_group_lanes);
  const int64_t per_lane = joined ? (cpu ? 32 : 8) : std::max<int64_t>(1, tunables["PER_LANE"]);
  const int64_t total = extent(axes), block = lanes * per_lane;
  const bool reads_ahead = tunables["AHEAD"] != 0 && per_lane > 1 && per_lane <= 8 && in.section == nullptr;
  const std::vector<LoadSite> ahead = reads_ahead ? loads_ahead(e) : std::vector<LoadSite>{};
  // For each element of the lane.
  const auto each = [&](const auto& body) {
    if (per_lane == 1) {
      e.line(fmt::format("int t_flat = {} * CAST(int, GROUP_SIZE(0)) + CAST(int, LOCAL_ID(0));", e.group_index()));
    } else {
      e.open(fmt::format("{}for (int t_k = 0; t_k < {}; ++t_k)", per_lane > 8 ? "" : "UNROLL ", per_lane));
      e.line(fmt::format("int t_flat = t_start + t_k * {};", lanes));
    }
    e.open(fmt::format("if (t_flat < {})", e.constant(total)));
    split_index(e, axes, "t_flat");
    body();
    e.close();
    if (per_lane > 1) e.close();
  };
  if (per_lane > 1) e.line(fmt::format("int t_start = {} * {} + CAST(int, LOCAL_ID(0));", e.group_index(), block));
  // All elements of a lane are on their way before the first is computed: stores in between would hold the reads back.
  e.hold(ahead, 0, per_lane, "t_k", each);
  each([&] { emit_elementwise(e); });
  LoweredKernel kernel = finish(e, in, {static_cast<uint32_t>(lanes), 1, 1}, ceil_div(total, block));
  kernel.loop_iterations = per_lane > 1 ? per_lane : 0;
  return kernel;
}

// Four neighbouring elements along the innermost axis, from a place that is a multiple of four.
bool starts_at_quads(const LoadSite& load, const Axis& inner) {
  return load.index.constant % 4 == 0 &&
         std::all_of(load.index.terms.begin(), load.index.terms.end(),
                     [&](const auto& term) { return term.first == inner.variable || term.second % 4 == 0; });
}

// Loads of 16 bytes. Where sizes vary, also those that may start elsewhere.
std::vector<LoadSite> quad_loads(const Emitter& e, const Axis& inner) {
  return e.distinct_loads([&](const LoadSite& load) {
    const bool four_bytes = load.dtype == DType::f32 || load.dtype == DType::i32;
    return four_bytes && load.index.affine() && load.index.coefficient(inner.variable) == 1 &&
           (e.varying() || starts_at_quads(load, inner)) && e.only_read(load.slot);
  });
}

// The same four elements at a time, for drivers where the width of an access decides (llvmpipe).
LoweredKernel quads_as_items(Emitter& e, const LowerInput& in, const std::vector<Axis>& axes, Bindings& tunables) {
  const int64_t lanes = std::clamp<int64_t>(tunables["LANES"], 1, in.caps.max_group_lanes), quads = tunables["QUADS"];
  const int64_t total = extent(axes), block = 4 * lanes * quads;
  const std::vector<LoadSite> loads = quad_loads(e, axes.back());
  const bool fits = axes.back().size % 4 == 0 && std::all_of(loads.begin(), loads.end(), [&](const LoadSite& load) {
                      return starts_at_quads(load, axes.back());
                    });
  const std::string& inner = e.names[axes.back().variable];
  // The lanes of one vector register lie side by side and so do their quads: a vector reads one stretch, not `quads`
  // streams of each operand.
  const int64_t subgroup = std::max<int64_t>(in.caps.subgroup_size, 1), side = lanes % subgroup == 0 ? subgroup : lanes;
  e.line("int t_lane = CAST(int, LOCAL_ID(0));");
  e.line(fmt::format("int t_start = {} * {} + t_lane / {} * {} + t_lane % {} * 4;", e.group_index(), block, side,
                     4 * side * quads, side));
  e.open(fmt::format("{}for (int t_k = 0; t_k < {}; ++t_k)", quads > 8 ? "" : "UNROLL ", quads));
  e.line(fmt::format("int t_flat = t_start + t_k * {};", 4 * side));
  const std::string end = e.constant(total);
  if (e.varying()) {  // whether rows are whole quads is a number of the launch
    e.open(fmt::format("if ({} == 0)", e.constant(fits)));
    e.open("for (int t_l = t_flat; t_l < t_flat + 4; ++t_l)");
    e.open(fmt::format("if (t_l < {})", end));
    split_index(e, axes, "t_l");
    emit_elementwise(e);
    e.close();
    e.close();
    e.close();
    e.open(fmt::format("else if (t_flat < {})", end));
  } else {
    e.open(fmt::format("if (t_flat < {})", end));
  }
  split_index(e, axes, "t_flat");
  for (size_t s = 0; s < loads.size(); ++s) {
    e.line(fmt::format("QUAD t_q{} = LOAD_QUAD({}, {});", s, e.buffer_name(loads[s]), e.print(loads[s].index)));
    e.stage(loads[s], fmt::format("QUAD_ELEMENT({}, t_q{}, t_l)", e.buffer_name(loads[s]), s));
  }
  declare_streamed(e, 4);
  e.line(fmt::format("int t_four = {};", inner));
  e.stream_to("t_l");
  e.open("UNROLL for (int t_l = 0; t_l < 4; ++t_l)");
  e.line(fmt::format("int {} = t_four + t_l;", inner));
  emit_elementwise(e);
  e.close();
  e.stream_to("");
  const std::string at = e.linear_index(e.group().domain, 0);
  for (const Emitter::Streamed& s : e.streamed()) {
    e.line(s.bytes == 4 ? fmt::format("STORE_QUAD({}, {}, {});", s.buffer, at, s.array)
                        : fmt::format("STREAM({}, {}, {}, 4);", s.buffer, at, s.array));
  }
  e.close();
  e.close();
  LoweredKernel kernel = finish(e, in, {static_cast<uint32_t>(lanes), 1, 1}, ceil_div(total, block));
  // A joined row need not begin at a multiple of 16 bytes, so it goes without quads: worth it for what is small, not
  // for what quads make fast.
  kernel.parallel = kernel.parallel && total < (1 << 16);
  kernel.loop_iterations = 5 * quads;
  return kernel;
}

// Whether a load jumps over a few elements (the windows of a pool): compilers vectorise only a jump that they know.
bool tells_factors(const Emitter& e, const Axis& inner) {
  if (e.joined() || e.varying()) return false;
  return std::any_of(e.loads().begin(), e.loads().end(), [&](const LoadSite& load) {
    const int64_t along = load.index.coefficient(inner.variable);
    return load.index.affine() && along >= 2 && along <= 4;
  });
}

// Whether lanes read every second element of a row.
bool reads_pairs(const Emitter& e, const std::vector<Axis>& axes) {
  return axes.size() > 1 && std::any_of(e.loads().begin(), e.loads().end(), [&](const LoadSite& load) {
           return load.index.affine() && load.index.coefficient(axes.back().variable) == 2;
         });
}

// Whether what a vertex reads, through movement that no group computes, is picked by indices.
bool reads_picked(const Graph& graph, int id) {
  const IrNode& node = graph.nodes[static_cast<size_t>(id)];
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](int input) {
    const OpDef* op = graph.nodes[static_cast<size_t>(input)].op;
    return op == &ops::take_op || (op->kind == OpKind::movement && reads_picked(graph, input));
  });
}

// Rows after the one being copied that a kernel should ask for, where indices pick them: no prefetcher knows what is
// picked next. About 2 KiB are under way (16384 rows of 256 floats, picked from 50000, one thread: 1.85 ms without,
// 1.15 one row ahead, 0.65 two); 0: rows are not picked, or so long that prefetchers see them.
int64_t picked_ahead(const Emitter& e, const LowerInput& in, const Axis& inner) {
  constexpr int64_t least_bytes = 64, most_bytes = 8192, under_way = 2048;
  if (e.joined() || e.varying() || in.section != nullptr) return 0;
  const auto picks = [&](int id) { return reads_picked(in.scheduled.graph, id); };
  const Group& group = in.group;
  if (std::none_of(group.inlined.begin(), group.inlined.end(), picks) &&
      std::none_of(group.members.begin(), group.members.end(), [&](const Member& m) { return picks(m.node); }))
    return 0;
  int64_t bytes = 0;
  for (const LoadSite& load : e.loads()) {
    if (!load.index.affine() && load.index.coefficient(inner.variable) == 1)
      bytes = std::max(bytes, inner.size * static_cast<int64_t>(size_of(load.dtype)));
  }
  return bytes < least_bytes || bytes > most_bytes ? 0 : std::clamp<int64_t>(under_way / bytes, 1, 4);
}

void ask_for_picked_row(Emitter& e, const std::vector<Axis>& axes, const Axis& inner, int64_t ahead) {
  e.open(fmt::format("if (t_row + {} < t_last)", ahead));
  split_index(e, axes, fmt::format("(t_row + {})", ahead));
  e.line(fmt::format("int {} = t_low;", e.names[inner.variable]));
  e.ask_for_picked(inner.variable, "t_high - t_low");
  emit_elementwise(e);
  e.ask_for_picked(-1, "");
  e.close();
}

// One work item per block of rows and stretch of the innermost axis, with a loop the compiler vectorises. `edges`: of
// the parts that the innermost dimension consists of.
LoweredKernel lanes_as_loop(Emitter& e, const LowerInput& in, std::vector<Axis> axes, std::vector<int64_t> edges,
                            Bindings& tunables) {
  const Axis inner = axes.empty() ? Axis{0, 1} : axes.back();
  if (edges.empty()) edges = {0, inner.size};
  if (!axes.empty()) axes.pop_back();
  const RowUnits units =
      row_units(extent(axes), inner.size, e.joined() ? 16384 : std::max<int64_t>(256, tunables["CHUNK"] / 256 * 256));
  // Whole lines: of rows that begin with one, and of others that are long.
  const bool aligned_rows =
      std::all_of(edges.begin(), edges.end(), [](int64_t edge) { return edge % streamed_line == 0; });
  int64_t shortest = inner.size;
  for (size_t p = 0; p + 1 < edges.size(); ++p) shortest = std::min(shortest, edges[p + 1] - edges[p]);
  // Elements at a time. What is left over at the ends of other rows goes through the caches.
  const int64_t streamed = aligned_rows ? std::min<int64_t>(shortest, 256) : streamed_line;
  const bool stream = tunables["STREAM"] != 0 && shortest >= (aligned_rows ? streamed_line : 512) && !e.joined();
  if (tells_factors(e, inner)) e.tell_factors(inner.variable);
  const int64_t ahead = axes.empty() ? 0 : picked_ahead(e, in, inner);
  open_units(e, units);
  if (stream) declare_streamed(e, streamed);
  e.open("for (int t_row = t_first; t_row < t_last; ++t_row)");
  if (ahead > 0) ask_for_picked_row(e, axes, inner, ahead);
  split_index(e, axes, "t_row");
  const std::string i = inner.size > 1 ? e.names[inner.variable] : "t_once";
  const auto row = [&](const Stretch& part) {
    if (stream) return stream_row(e, i, part, streamed, aligned_rows, reads_backwards(e, inner.variable));
    e.open(fmt::format("{} for (int {} = {}; {} < {}; ++{})",
                       e.joined() || e.varying() || inner.size >= 128 ? "VLOOP_LONG" : "VLOOP", i, part.low, i,
                       part.high, i));
    emit_elementwise(e);
    e.close();
  };
  if (edges.size() == 2) row({});
  for (size_t p = 0; edges.size() > 2 && p + 1 < edges.size(); ++p) {
    e.run_in_steps(inner.variable, {1, edges[p], edges[p + 1] - edges[p]});
    e.open("");
    e.line(fmt::format("int t_from = max(t_low - {}, 0);", e.constant(edges[p])));
    e.line(fmt::format("int t_to = min(t_high, {}) - {};", e.constant(edges[p + 1]), e.constant(edges[p])));
    row({"t_from", "t_to"});
    e.close();
  }
  e.close();
  e.close();
  LoweredKernel kernel = finish(e, in, {1, 1, 1}, units.units);
  kernel.parallel = kernel.parallel &&
                    !stream;  // a joined row is written through the caches, and a launch saved is nothing beside 16 MB
  return kernel;
}

// Iterations of loops in users' texts, for one element.
int64_t user_loops(const LowerInput& in) {
  int64_t total = 0;
  for (const Member& member : in.group.members)
    total += loops_of(*in.scheduled.graph.nodes[static_cast<size_t>(member.node)].op);
  for (const int id : in.group.inlined) total += loops_of(*in.scheduled.graph.nodes[static_cast<size_t>(id)].op);
  return total;
}

ElementwiseProblem problem_of(const Emitter& e, const LowerInput& in, const std::vector<Axis>& axes,
                              const std::optional<Turn>& turn) {
  ElementwiseProblem p;
  p.loop_lanes = in.options.loop_lanes;
  p.elements = e.varying() ? nominal_size * nominal_size : extent(axes);
  p.inner = axes.empty() ? 1 : e.varying() ? nominal_size : axes.back().size;
  p.narrowest = 8;
  for (const Member& member : in.group.members) {
    if (!member.stored) continue;
    const int64_t bytes = static_cast<int64_t>(size_of(in.scheduled.graph.nodes[member.node].dtype));
    p.narrowest = std::min(p.narrowest, bytes);
    if (e.can_stream(member.node) && !e.varying()) p.stored_bytes = std::max(p.stored_bytes, bytes * p.elements);
  }
  p.turned = turn.has_value();
  if (turn) p.across = e.varying() ? nominal_size : axes[turn->across].size;
  return p;
}

}  // namespace

LoweredKernel lower_elementwise(const LowerInput& in) {
  Emitter e(in.scheduled, in.group, 12, in.options.joined, in.section);
  note_divisible(in.section, in.group.domain);
  e.names.assign(static_cast<size_t>(Shape::max_rank), "t_d");
  emit_elementwise(e);  // to learn the indices
  const std::vector<int64_t> edges =
      in.options.loop_lanes && e.knows_extents() ? find_parts(in) : std::vector<int64_t>{};
  for (size_t p = 0; p + 1 < edges.size(); ++p) {
    e.run_in_steps(in.group.domain.rank() - 1, {1, edges[p], edges[p + 1] - edges[p]});
    e.open("");
    emit_elementwise(e);
    e.close();
  }
  const std::vector<Axis> axes = merge_axes(e, within(in.section, in.group.domain, 0), 0, "t_x");
  const std::optional<Turn> turn = find_turn(e, axes);
  e.start_over();
  Bindings tunables = pick_elementwise(in.caps, problem_of(e, in, axes, turn));
  if (in.options.loop_lanes && e.knows_extents()) {
    const std::vector<StepDim> steps = find_steps(e, in);
    if (const bool pairs =
            tunables["PAIRS"] != 0 && tunables["STREAM"] == 0 && (!steps.empty() || reads_pairs(e, axes));
        pairs && !(turn && tunables["TILE"] != 0)) {
      if (std::optional<LoweredKernel> kernel = pairs_as_loop(in, steps, tunables["CHUNK"])) return *std::move(kernel);
    }
    if (!steps.empty()) return steps_as_loop(in, steps, tunables["CHUNK"]);
  }
  if (const int64_t loops = user_loops(in);
      loops > 0 && in.caps.max_loop_iterations < UINT64_MAX && !in.options.loop_lanes) {
    tunables["PER_LANE"] = 1;
    LoweredKernel kernel = lanes_as_items(e, in, axes, tunables);
    kernel.loop_iterations += loops;
    kernel.parallel = false;  // a joined row's lane has many elements
    return kernel;
  }
  const bool quads = in.caps.texel_loads && tunables["QUADS"] > 0 && !e.joined() && !axes.empty() &&
                     (e.varying() || axes.back().size % 4 == 0);
  if (turn && tunables["TILE"] != 0 && !e.joined()) {
    return in.options.loop_lanes ? tiled_as_loop(e, in, axes, *turn, tunables)
                                 : tiled_as_items(e, in, axes, *turn, tunables);
  }
  if (quads && !in.options.loop_lanes) return quads_as_items(e, in, axes, tunables);
  return in.options.loop_lanes ? lanes_as_loop(e, in, axes, edges, tunables) : lanes_as_items(e, in, axes, tunables);
}

// ---- epilogues

std::string print_epilogue(Emitter& e, const LowerInput& in, const std::string& value,
                           const std::vector<EpilogueBlock>& blocks) {
  const IrNode& node = in.scheduled.graph.nodes[in.group.anchor];
  // The first pass learns how everything is indexed, and so which dimensions of a block need no index of their own.
  e.names.assign(static_cast<size_t>(Shape::max_rank), "t_d");
  e.bind(in.group.anchor, "t_acc");
  emit_elementwise(e);
  std::vector<std::vector<Axis>> axes;
  int first = 0;
  for (const EpilogueBlock& block : blocks) {
    const Shape shape(node.shape.dims().subspan(first, block.dimensions));
    axes.push_back(merge_axes(e, within(in.section, shape, first), first, "t_" + block.index));
    first += block.dimensions;
  }
  e.start_over();
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (axes[i].empty()) continue;
    const std::string flat = "t_flat_" + blocks[i].index;
    e.line(fmt::format("int {} = CAST(int, {});", flat, blocks[i].index));
    split_index(e, axes[i], flat);
  }
  e.line(fmt::format("{} t_acc = {};", dialect_type(node.dtype), wrap_narrow(value, node.dtype)));
  e.bind(in.group.anchor, "t_acc");
  emit_elementwise(e);
  return "{\n" + e.take_text() + "}";
}

}  // namespace heddle
