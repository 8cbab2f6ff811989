// Reduce groups: rows of `domain`, each reduced over `inner`, possibly several times (softmax: max, then sum), with elementwise work before,
// between and after. Reductions are done in phases: one pass over the row computes every reduction whose inputs are known.
//
// Four loop structures from two choices: along which axis lanes run (the row itself, or neighbouring rows), and what a lane is (a work item,
// or an iteration of a vectorised loop).
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/exec/lower.h"
#include "core/exec/row_phases.h"
#include "core/graph/primitives.h"

namespace heddle {
namespace {

class ReduceLowering {
 public:
  explicit ReduceLowering(const LowerInput& in)
      : in_(in), e_(in.scheduled, in.group, 12, in.options.segmented), rows_of_(in.scheduled, in.group) {
    e_.names.assign(static_cast<size_t>(2 * Shape::max_rank), "t_d");
    learn_indices();
    outer_ = merge_axes(e_, in.group.domain, 0, "t_x");
    inner_ = merge_axes(e_, in.group.inner, in.group.domain.rank(), "t_r");
    rows_ = extent(outer_);
    length_ = in.group.inner.numel();
    lanes_on_rows_ = choose_lanes_on_rows();
    e_.start_over();
  }

  LoweredKernel run() {
    if (in_.options.loop_lanes) return lanes_on_rows_ ? row_lanes_loop() : inner_lanes_loop();
    return lanes_on_rows_ ? row_lanes_items() : inner_lanes_items();
  }

 private:
  const Graph& graph() const { return in_.scheduled.graph; }
  const Group& group() const { return in_.group; }

  // ---- phases
  void learn_indices() {
    for (const auto& phase : rows_of_.phases()) {
      for (const Reducer& r : phase) input_value(r);
      for (const Reducer& r : phase) e_.bind(r.node(), "t_unknown");
    }
    store_members(Level::row);
    store_members(Level::full);
  }

  std::string input_value(const Reducer& r) {
    const Member* member = group().find(r.node());
    return e_.value(graph().nodes[r.node()].inputs[0], member_path(graph(), group(), *member, 0));
  }

  void store_members(Level level) {
    Shape shape = group().domain;
    if (level == Level::full) {
      for (int64_t d : group().inner) shape.push_back(d);
    }
    for (const Member& member : group().members) {
      if (!member.stored || member.level != level) continue;
      const std::string v = e_.member_value(member);
      e_.store(member.node, v, e_.linear_index(shape, 0));
    }
  }

  bool stores_at(Level level) const {
    return std::any_of(group().members.begin(), group().members.end(), [&](const Member& m) { return m.stored && m.level == level; });
  }

  bool choose_lanes_on_rows() const {
    // Lanes along the row are joined in shared memory, whose arrays are 32 bits wide.
    if (!in_.options.loop_lanes && rows_of_.any([](const Reducer& r) { return !r.tree(); })) return true;
    if (outer_.empty()) return false;
    const int along = inner_.empty() ? 0 : e_.unit_stride_loads(inner_.back().variable);
    // Only loads that change along the row count: what is read once a row decides nothing.
    const int across = e_.unit_stride_loads(outer_.back().variable, in_.group.domain.rank());
    if (across > along) return rows_ >= 8;
    return rows_ >= 64 && length_ < 16;
  }

  // ---- pieces
  void open_inner_loops(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const std::string& name = e_.names[inner_[i].variable];
      e_.open(fmt::format("for (int {} = 0; {} < {}; ++{})", name, name, e_.constant(inner_[i].size), name));
    }
  }
  void close_loops(size_t count) {
    for (size_t i = 0; i < count; ++i) e_.close();
  }

  // Position within the reduced axis, for argmax and argmin (they reduce one axis).
  std::string position() { return inner_.empty() ? "0" : e_.names[inner_.back().variable]; }

  // What belongs to a row is computed before the loop that needs it.
  void settle_row(size_t pass) {
    for (const Member& member : group().members) {
      const bool reduction = graph().nodes[member.node].op->kind == OpKind::reduce;
      if (member.level == Level::row && !reduction && rows_of_.depth(member.node) <= static_cast<int>(pass)) e_.member_value(member);
    }
  }

  void accumulate(const std::vector<Reducer>& phase, const std::string& lane) {
    for (const Reducer& r : phase) {
      const std::string v = input_value(r);
      for (const std::string& text : r.accumulate(lane, v, position())) e_.line(text);
    }
  }

  // ---- lanes are work items, one row each
  LoweredKernel row_lanes_items() {
    const uint32_t wanted = in_.options.loop_lanes ? 1 : in_.caps.device_class == DeviceClass::cpu ? 32 : 64;
    const uint32_t lanes = std::min(wanted, in_.caps.max_group_lanes);
    e_.line(fmt::format("int t_row = {} * CAST(int, GROUP_SIZE(0)) + CAST(int, LOCAL_ID(0));", e_.group_index()));
    e_.open(fmt::format("if (t_row < {})", e_.constant(rows_)));
    split_index(e_, outer_, "t_row");
    one_row();
    e_.close();
    LoweredKernel kernel = finish(e_, in_, {lanes, 1, 1}, (rows_ + lanes - 1) / lanes);
    kernel.loop_iterations = passes() * length_;
    return kernel;
  }

  // A segment that is one row: its lanes do not depend on its length, so that all such segments have one text.
  bool whole_segment() const { return in_.options.segmented && outer_.empty(); }

  // Times each row is walked.
  int64_t passes() const { return static_cast<int64_t>(rows_of_.phases().size()) + stores_at(Level::full); }

  void one_row() {
    for (size_t pass = 0; pass < rows_of_.phases().size(); ++pass) {
      const std::vector<Reducer>& phase = rows_of_.phases()[pass];
      settle_row(pass);
      for (const Reducer& r : phase) {
        for (const std::string& text : r.declare("")) e_.line(text);
      }
      open_inner_loops(inner_.size());
      accumulate(phase, "");
      close_loops(inner_.size());
      for (const Reducer& r : phase) e_.bind(r.node(), r.result(""));
    }
    settle_row(rows_of_.phases().size());
    store_members(Level::row);
    if (!stores_at(Level::full)) return;
    open_inner_loops(inner_.size());
    store_members(Level::full);
    close_loops(inner_.size());
  }

  // ---- lanes are work items along the row; a tree in shared memory joins them
  LoweredKernel inner_lanes_items() {
    uint32_t lanes = 1;
    const uint32_t most = std::min<uint32_t>(in_.caps.device_class == DeviceClass::cpu ? 32 : 256, in_.caps.max_group_lanes);
    while (lanes < most && (lanes < length_ || whole_segment())) lanes *= 2;
    std::vector<SharedParam> shared;
    e_.line(fmt::format("int t_row = {};", e_.group_index()));
    e_.line("int t_lane = CAST(int, LOCAL_ID(0));");
    e_.open(fmt::format("if (t_row < {})", e_.constant(rows_)));
    split_index(e_, outer_, "t_row");
    for (size_t pass = 0; pass < rows_of_.phases().size(); ++pass) {
      const std::vector<Reducer>& phase = rows_of_.phases()[pass];
      settle_row(pass);
      for (const Reducer& r : phase) {
        for (const std::string& text : r.declare("")) e_.line(text);
      }
      strided_loop([&] { accumulate(phase, ""); });
      for (const Reducer& r : phase) join_in_shared(r, lanes, shared);
    }
    settle_row(rows_of_.phases().size());
    e_.open("if (t_lane == 0)");
    store_members(Level::row);
    e_.close();
    if (stores_at(Level::full)) strided_loop([&] { store_members(Level::full); });
    e_.close();
    LoweredKernel kernel = finish(e_, in_, {lanes, 1, 1}, rows_);
    kernel.source.shared = shared;
    kernel.loop_iterations = passes() * ((length_ + lanes - 1) / lanes + 16);  // 16: the tree
    return kernel;
  }

  void strided_loop(const auto& body) {
    e_.open(fmt::format("for (int t_at = t_lane; t_at < {}; t_at += CAST(int, GROUP_SIZE(0)))", e_.constant(length_)));
    split_index(e_, inner_, "t_at");
    body();
    e_.close();
  }

  void join_in_shared(const Reducer& r, uint32_t lanes, std::vector<SharedParam>& shared) {
    const std::string array = "t_s" + r.own("").value;
    const Reducer::Slots low = r.slots(array, "[t_lane]"), high = r.slots(array, "[t_lane + t_half]");
    shared.push_back({array, std::string(r.type()), lanes});
    if (r.positional()) shared.push_back({array + "_at", "int", lanes});
    e_.line(r.assign(low, r.own("")));
    e_.line("BARRIER();");
    e_.open("for (int t_half = CAST(int, GROUP_SIZE(0)) / 2; t_half > 0; t_half = t_half / 2)");
    e_.line(fmt::format("if (t_lane < t_half) {{ {} }}", r.join(low, high)));
    e_.line("BARRIER();");
    e_.close();
    e_.line(r.assign(r.own(""), r.slots(array, "[0]")));
    e_.bind(r.node(), r.result(""));
  }

  // ---- lanes are loop iterations over neighbouring rows
  LoweredKernel row_lanes_loop() {
    const Axis across = outer_.back();
    // Wide enough that memory is read in long stretches, narrow enough that every core has work.
    const int64_t others = rows_ / across.size;
    int64_t width = 32;
    while (width < 1024 && width < across.size && others * across.size >= 8 * width * in_.caps.compute_units) width *= 2;
    std::vector<Axis> rest(outer_.begin(), outer_.end() - 1);
    const int64_t blocks = (across.size + width - 1) / width;
    const int64_t units = extent(rest) * blocks;
    const std::string& x = e_.names[across.variable];
    e_.line(fmt::format("int t_unit = {};", e_.group_index()));
    e_.open(fmt::format("if (t_unit < {})", e_.constant(units)));
    e_.line(fmt::format("int t_base = t_unit % {} * {};", e_.constant(blocks), width));
    e_.line(fmt::format("int t_count = min({} - t_base, {});", e_.constant(across.size), width));
    e_.line(fmt::format("int t_row = t_unit / {};", e_.constant(blocks)));
    split_index(e_, rest, "t_row");
    const auto lanes = [&](const auto& body) {
      e_.open(fmt::format("{} for (int t_l = 0; t_l < t_count; ++t_l)", width >= 128 ? "VLOOP_LONG" : "VLOOP"));
      e_.line(fmt::format("int {} = t_base + t_l;", x));
      body();
      e_.close();
    };
    for (const auto& phase : rows_of_.phases()) {
      for (const Reducer& r : phase) {
        for (const std::string& text : r.declare_array(width)) e_.line(text);
      }
      open_inner_loops(inner_.size());
      lanes([&] { accumulate(phase, "[t_l]"); });
      close_loops(inner_.size());
      for (const Reducer& r : phase) e_.bind(r.node(), r.result("[t_l]"));
    }
    if (stores_at(Level::row)) lanes([&] { store_members(Level::row); });
    if (stores_at(Level::full)) {
      open_inner_loops(inner_.size());
      lanes([&] { store_members(Level::full); });
      close_loops(inner_.size());
    }
    e_.close();
    return finish(e_, in_, {1, 1, 1}, units);
  }

  // ---- lanes are loop iterations along the row
  LoweredKernel inner_lanes_loop() {
    const int64_t last = inner_.empty() ? 1 : inner_.back().size;
    const int64_t width = last >= 256 || whole_segment() ? 64 : last >= 16 ? 16 : 1;
    // Several short rows a unit, so that starting it does not dominate.
    const int64_t block = std::clamp<int64_t>(4096 / std::max<int64_t>(1, length_), 1, std::max<int64_t>(1, rows_ / (2 * in_.caps.compute_units)));
    const int64_t units = (rows_ + block - 1) / block;
    e_.line(fmt::format("int t_unit = {};", e_.group_index()));
    e_.open(fmt::format("if (t_unit < {})", e_.constant(units)));
    const std::string rows = e_.constant(rows_), step = e_.constant(block);
    e_.line(fmt::format("int t_end = min(t_unit * {} + {}, {});", step, step, rows));
    e_.open(fmt::format("for (int t_row = t_unit * {}; t_row < t_end; ++t_row)", step));
    split_index(e_, outer_, "t_row");
    for (size_t pass = 0; pass < rows_of_.phases().size(); ++pass) {
      settle_row(pass);
      inner_pass(pass, width);
    }
    settle_row(rows_of_.phases().size());
    store_members(Level::row);
    if (stores_at(Level::full)) {
      const size_t around = inner_.empty() ? 0 : inner_.size() - 1;
      open_inner_loops(around);
      e_.open(fmt::format("{} for (int {} = 0; {} < {}; ++{})", loop_word(last), along(), along(), e_.constant(last), along()));
      store_members(Level::full);
      e_.close();
      close_loops(around);
    }
    e_.close();
    e_.close();
    return finish(e_, in_, {1, 1, 1}, units);
  }

  const char* loop_word(int64_t iterations) const { return iterations >= 64 || whole_segment() ? "VLOOP_LONG" : "VLOOP"; }
  std::string along() const { return inner_.empty() ? "t_once" : e_.names[inner_.back().variable]; }

  // One pass over the row: whole vectors, then what is left, then the lanes are joined pairwise.
  void inner_pass(size_t pass, int64_t width) {
    const std::vector<Reducer>& phase = rows_of_.phases()[pass];
    std::vector<std::pair<int, std::string>> kept;  // vertex, array
    for (const KeptValue& value : rows_of_.kept()) {
      if (value.first != pass || inner_.size() != 1 || length_ > max_kept || in_.options.segmented) continue;
      kept.push_back({value.node, fmt::format("t_k{}_{}", pass, kept.size())});
      const uint64_t room = std::max<uint64_t>(64, std::bit_ceil(static_cast<uint64_t>(length_)));
      e_.line(fmt::format("{} {}[{}];", dialect_type(graph().nodes[value.node].dtype), kept.back().second, room));
    }
    for (const Reducer& r : phase) {
      for (const std::string& text : r.declare_array(width)) e_.line(text);
    }
    const size_t around = inner_.empty() ? 0 : inner_.size() - 1;
    open_inner_loops(around);
    const std::string size = inner_.empty() ? "1" : e_.constant(inner_.back().size);
    const auto lanes = [&](const std::string& count, const char* word) {
      e_.open(fmt::format("{} for (int t_l = 0; t_l < {}; ++t_l)", word, count));
      e_.line(fmt::format("int {} = t_i + t_l;", along()));
      accumulate(phase, "[t_l]");
      for (const auto& [id, array] : kept) e_.line(fmt::format("{}[{}] = {};", array, along(), e_.member_value(*group().find(id))));
      e_.close();
    };
    e_.line("{");
    e_.line("int t_i = 0;");
    e_.open(fmt::format("for (; t_i + {} <= {}; t_i += {})", width, size, width));
    lanes(std::to_string(width), loop_word(width));
    e_.close();
    if (width > 1) lanes(fmt::format("{} - t_i", size), "VLOOP");
    e_.line("}");
    close_loops(around);
    for (const Reducer& r : phase) {
      for (int64_t half = width / 2; half > 0; half /= 2) {
        const std::string joined = r.join(r.own("[t_l]"), r.own(fmt::format("[t_l + {}]", half)));
        e_.line(fmt::format("VLOOP for (int t_l = 0; t_l < {}; ++t_l) {{ {} }}", half, joined));
      }
      e_.bind(r.node(), r.result("[0]"));
    }
    for (const auto& [id, array] : kept) e_.bind(id, fmt::format("{}[{}]", array, along()));
  }

  // Longest row whose dear values are kept: they stay in the second-level cache, and on the stack of a driver's thread.
  static constexpr int64_t max_kept = 16384;

  const LowerInput& in_;
  Emitter e_;
  RowPhases rows_of_;
  std::vector<Axis> outer_, inner_;
  int64_t rows_ = 1, length_ = 1;
  bool lanes_on_rows_ = false;
};

}  // namespace

LoweredKernel lower_reduce(const LowerInput& in) { return ReduceLowering(in).run(); }

}  // namespace heddle
