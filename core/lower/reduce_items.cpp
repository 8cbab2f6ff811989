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

// How the lanes of a group go along their row: one element after the other, or PER_LANE at once, which are then read
// into registers ahead of what is computed of them. Where that is the whole row, later passes read the registers.
class RowWalk {
 public:
  RowWalk(ReduceRows& g, uint32_t lanes, int64_t per_lane)
      : g_(g), e_(g.e), lanes_(lanes), per_lane_(per_lane), whole_(per_lane > 1 && per_lane * lanes_ >= g.length) {
    if (per_lane_ > 1) reads_ = g.learn_reads();
  }

  // body() for each position of the row that belongs to the lane.
  void run(size_t pass, const auto& body) {
    if (per_lane_ <= 1) {
      e_.open(fmt::format("for (int t_at = t_lane; t_at < {}; t_at += {})", length(), "CAST(int, GROUP_SIZE(0))"));
      element(body);
    } else if (whole_) {
      read(pass, "t_lane");
      return each("t_lane", body);
    } else {
      e_.open(fmt::format("for (int t_from = t_lane; t_from < {}; t_from += {})", length(), per_lane_ * lanes_));
      held_.clear();
      read(pass, "t_from");
      each("t_from", body);
    }
    e_.close();
  }

 private:
  std::string length() { return e_.constant(g_.length); }
  void element(const auto& body) {
    split_index(e_, g_.inner, "t_at");
    body();
  }
  void each(const std::string& first, const auto& body) {
    e_.open(fmt::format("UNROLL for (int t_u = 0; t_u < {}; ++t_u)", per_lane_));
    e_.line(fmt::format("int t_at = {} + t_u * {};", first, lanes_));
    e_.open(fmt::format("if (t_at < {})", length()));
    element(body);
    e_.close();
    e_.close();
  }
  // What the pass reads and is not held yet goes into an array each.
  void read(size_t pass, const std::string& first) {
    std::vector<LoadSite> loads;
    for (const LoadSite& load : reads_[pass]) {
      if (std::find(held_.begin(), held_.end(), load) == held_.end()) loads.push_back(load);
    }
    e_.hold(loads, arrays_, per_lane_, "t_u", [&](const auto& fill) { each(first, fill); });
    arrays_ += loads.size();
    held_.insert(held_.end(), loads.begin(), loads.end());
  }

  ReduceRows& g_;
  Emitter& e_;
  const int64_t lanes_, per_lane_;
  const bool whole_;
  std::vector<std::vector<LoadSite>> reads_;  // by pass
  size_t arrays_ = 0;
  std::vector<LoadSite> held_;
};

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

// Registers that one element of everything read along a row takes.
int64_t words_read(const ReduceRows& g) {
  int64_t words = 0;
  for (const LoadSite& load : g.reads_along()) words += size_of(load.dtype) == 8 ? 2 : 1;
  return std::max<int64_t>(1, words);
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
  const RowsProblem problem{
      .rows = g.picked_rows, .length = g.picked_length, .words = words_read(g), .joined = g.in.options.joined};
  Bindings tunables = pick_rows(g.in.caps, problem);
  const bool exchange = tunables["SUBGROUPS"] != 0;
  uint32_t lanes = 1;
  const uint32_t most =
      std::min<uint32_t>(static_cast<uint32_t>(std::max<int64_t>(1, tunables["LANES"])), g.in.caps.max_group_lanes);
  while (2 * lanes <= most && (lanes < g.picked_length || g.whole_joined_row())) lanes *= 2;
  std::vector<SharedParam> shared;
  // Rows of a section, or of a length that varies, are read as they come.
  const bool held = !g.in.options.joined && g.in.section == nullptr && !e.varying();
  RowWalk walk(g, lanes, held ? tunables["PER_LANE"] : 1);
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
    walk.run(pass, [&] { g.accumulate(phase, ""); });
    for (const Reducer& r : phase) join_lanes(e, exchange, r, lanes, shared);
  }
  g.settle_row(g.phases().size());
  e.open("if (t_lane == 0)");
  g.store_members(Level::row);
  e.close();
  if (g.stores_at(Level::full)) walk.run(g.phases().size(), [&] { g.store_members(Level::full); });
  e.close();
  LoweredKernel kernel = finish(e, g.in, {lanes, 1, 1}, g.rows);
  kernel.source.shared = shared;
  kernel.loop_iterations = g.passes() * (ceil_div(g.length, lanes) + 16);  // 16: the tree
  return kernel;
}

}  // namespace heddle
