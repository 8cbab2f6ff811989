#include "heddle/core/lower/reduce_items.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/lower/finish.h"
#include "heddle/core/tiles/generated_tiles.h"

namespace heddle {
namespace {

void one_row(ReduceRows& g) {
  Emitter& e = g.e;
  for (size_t pass = 0; pass < g.phases().size(); ++pass) {
    const std::vector<Reducer>& phase = g.phases()[pass];
    g.settle_row(pass);
    for (const Reducer& r : phase) {
      for (const std::string& text : r.declare("")) e.line(text);
    }
    g.open_inner_loops(g.inner.size());
    g.accumulate(phase, "");
    g.close_loops(g.inner.size());
    for (const Reducer& r : phase) e.bind(r.node(), r.result(""));
  }
  g.settle_row(g.phases().size());
  g.store_members(Level::row);
  if (!g.stores_at(Level::full)) return;
  g.open_inner_loops(g.inner.size());
  g.store_members(Level::full);
  g.close_loops(g.inner.size());
}

// body() for each position of the row that belongs to the lane.
void strided_loop(ReduceRows& g, const auto& body) {
  Emitter& e = g.e;
  e.open(fmt::format("for (int t_at = t_lane; t_at < {}; t_at += CAST(int, GROUP_SIZE(0)))", e.constant(g.length)));
  split_index(e, g.inner, "t_at");
  body();
  e.close();
}

void join_in_shared(Emitter& e, const Reducer& r, uint32_t lanes, std::vector<SharedParam>& shared) {
  const std::string array = "t_s" + r.own("").value;
  const Reducer::Slots low = r.slots(array, "[t_lane]"), high = r.slots(array, "[t_lane + t_half]");
  shared.push_back({array, std::string(r.type()), lanes});
  if (r.positional()) shared.push_back({array + "_at", "int", lanes});
  e.line(r.assign(low, r.own("")));
  e.line("BARRIER();");
  e.open("for (int t_half = CAST(int, GROUP_SIZE(0)) / 2; t_half > 0; t_half = t_half / 2)");
  e.line(fmt::format("if (t_lane < t_half) {{ {} }}", r.join(low, high)));
  e.line("BARRIER();");
  e.close();
  e.line(r.assign(r.own(""), r.slots(array, "[0]")));
  e.bind(r.node(), r.result(""));
}

// `exchange`: inside subgroups by exchanging values where lanes can (the prelude knows), then in shared memory.
void join_lanes(Emitter& e, bool exchange, const Reducer& r, uint32_t lanes, std::vector<SharedParam>& shared) {
  if (!exchange || r.group_word().empty()) return join_in_shared(e, r, lanes, shared);
  const std::string array = fmt::format("t_scratch_{}", r.type());
  if (std::none_of(shared.begin(), shared.end(), [&](const SharedParam& s) { return s.name == array; }))
    shared.push_back({array, std::string(r.type()), lanes});
  e.line(fmt::format("{}({}, {})", r.group_word(), r.own("").value, array));
  e.bind(r.node(), r.result(""));
}

}  // namespace

LoweredKernel rows_as_items(ReduceRows& g) {
  Emitter& e = g.e;
  const uint32_t wanted = g.in.caps.machine() == Machine::simt ? 64 : 32;
  const uint32_t lanes = std::min(wanted, g.in.caps.max_group_lanes);
  e.line(fmt::format("int t_row = {} * CAST(int, GROUP_SIZE(0)) + CAST(int, LOCAL_ID(0));", e.group_index()));
  e.open(fmt::format("if (t_row < {})", e.constant(g.rows)));
  split_index(e, g.outer, "t_row");
  one_row(g);
  e.close();
  LoweredKernel kernel = finish(e, g.in, {lanes, 1, 1}, ceil_div(g.rows, lanes));
  kernel.loop_iterations = g.passes() * g.length;
  return kernel;
}

LoweredKernel row_over_items(ReduceRows& g) {
  Emitter& e = g.e;
  Bindings tunables = pick_rows(g.in.caps, {.rows = g.picked_rows, .length = g.picked_length});
  const bool exchange = tunables["SUBGROUPS"] != 0;
  uint32_t lanes = 1;
  const uint32_t most =
      std::min<uint32_t>(static_cast<uint32_t>(std::max<int64_t>(1, tunables["LANES"])), g.in.caps.max_group_lanes);
  while (2 * lanes <= most && (lanes < g.picked_length || g.whole_joined_row())) lanes *= 2;
  std::vector<SharedParam> shared;
  e.line(fmt::format("int t_row = {};", e.group_index()));
  e.line("int t_lane = CAST(int, LOCAL_ID(0));");
  e.open(fmt::format("if (t_row < {})", e.constant(g.rows)));
  split_index(e, g.outer, "t_row");
  for (size_t pass = 0; pass < g.phases().size(); ++pass) {
    const std::vector<Reducer>& phase = g.phases()[pass];
    g.settle_row(pass);
    for (const Reducer& r : phase) {
      for (const std::string& text : r.declare("")) e.line(text);
    }
    strided_loop(g, [&] { g.accumulate(phase, ""); });
    for (const Reducer& r : phase) join_lanes(e, exchange, r, lanes, shared);
  }
  g.settle_row(g.phases().size());
  e.open("if (t_lane == 0)");
  g.store_members(Level::row);
  e.close();
  if (g.stores_at(Level::full)) strided_loop(g, [&] { g.store_members(Level::full); });
  e.close();
  LoweredKernel kernel = finish(e, g.in, {lanes, 1, 1}, g.rows);
  kernel.source.shared = shared;
  kernel.loop_iterations = g.passes() * (ceil_div(g.length, lanes) + 16);  // 16: the tree
  return kernel;
}

}  // namespace heddle
