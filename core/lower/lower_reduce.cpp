// Reduce groups: rows of `domain`, each reduced over `inner`, possibly several times (softmax: max, then sum), with
// elementwise work before, between and after. Reductions are done in phases: one pass over the row computes every
// reduction whose inputs are known.
//
// Four loop structures from two choices: along which axis lanes run (the row itself, or neighbouring rows), and what a
// lane is (a work item, or an iteration of a vectorised loop).
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "core/base/integers.h"
#include "core/ir/dynamic_sizes.h"
#include "core/lower/lower.h"
#include "core/lower/row_phases.h"
#include "core/op/primitives.h"
#include "core/tiles/generated_tiles.h"

namespace heddle {
namespace {

class ReduceLowering {
 public:
  explicit ReduceLowering(const LowerInput& in)
      : in_(in), e_(in.scheduled, in.group, 12, in.options.joined), rows_of_(in.scheduled, in.group) {
    e_.names.assign(static_cast<size_t>(2 * Shape::max_rank), "t_d");
    e_.learn_every_path();  // passes over the row do not share values, so each may read them through its own path
    learn_indices();
    outer_ = merge_axes(e_, in.group.domain, 0, "t_x");
    inner_ = merge_axes(e_, in.group.inner, in.group.domain.rank(), "t_r");
    rows_ = extent(outer_);
    length_ = in.group.inner.numel();
    length_varies_ = e_.varying() && some_length_varies();
    picked_rows_ = e_.varying() ? nominal_size : rows_;
    picked_length_ = length_varies_ ? nominal_size : length_;
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

  // Of the dimensions that any of the reductions reduces.
  bool some_length_varies() const {
    const auto varies = [&](const Reducer& r) {
      const IrNode &node = graph().nodes[r.node()], &x = graph().nodes[node.inputs[0]];
      return std::any_of(node.attrs.ints.begin(), node.attrs.ints.end(),
                         [&](int64_t axis) { return dimension_varies(x, static_cast<int>(axis)); });
    };
    return std::any_of(rows_of_.phases().begin(), rows_of_.phases().end(),
                       [&](const auto& phase) { return std::any_of(phase.begin(), phase.end(), varies); });
  }

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

  Shape full_shape() const {
    Shape shape = group().domain;
    for (int64_t d : group().inner) shape.push_back(d);
    return shape;
  }

  void store_members(Level level) {
    const Shape shape = level == Level::full ? full_shape() : group().domain;
    for (const Member& member : group().members) {
      if (!member.stored || member.level != level) continue;
      const std::string v = e_.member_value(member);
      e_.store(member.node, v, e_.linear_index(shape, 0));
    }
  }

  bool stores_at(Level level) const {
    return std::any_of(group().members.begin(), group().members.end(),
                       [&](const Member& m) { return m.stored && m.level == level; });
  }

  bool choose_lanes_on_rows() const {
    // Lanes along the row are joined in shared memory, whose arrays are 32 bits wide.
    if (!in_.options.loop_lanes && rows_of_.any([](const Reducer& r) { return !r.tree(); })) return true;
    if (outer_.empty()) return false;
    const int along = inner_.empty() ? 0 : e_.unit_stride_loads(inner_.back().variable);
    // Only loads that change along the row count: what is read once a row decides nothing.
    const int across = e_.unit_stride_loads(outer_.back().variable, in_.group.domain.rank());
    if (across > along) return picked_rows_ >= 8;
    return picked_rows_ >= 64 && picked_length_ < 16;
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
      if (member.level == Level::row && !reduction && rows_of_.depth(member.node) <= static_cast<int>(pass))
        e_.member_value(member);
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
    LoweredKernel kernel = finish(e_, in_, {lanes, 1, 1}, ceil_div(rows_, lanes));
    kernel.loop_iterations = passes() * length_;
    return kernel;
  }

  // A joined row that is one row: its lanes do not depend on its length, so that all such joined rows have one text.
  bool whole_joined_row() const { return in_.options.joined && outer_.empty(); }

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
    Bindings tunables = pick_rows(in_.caps, {.rows = picked_rows_, .length = picked_length_});
    exchange_ = tunables["SUBGROUPS"] != 0;
    uint32_t lanes = 1;
    const uint32_t most =
        std::min<uint32_t>(static_cast<uint32_t>(std::max<int64_t>(1, tunables["LANES"])), in_.caps.max_group_lanes);
    while (2 * lanes <= most && (lanes < picked_length_ || whole_joined_row())) lanes *= 2;
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
      for (const Reducer& r : phase) join_lanes(r, lanes, shared);
    }
    settle_row(rows_of_.phases().size());
    e_.open("if (t_lane == 0)");
    store_members(Level::row);
    e_.close();
    if (stores_at(Level::full)) strided_loop([&] { store_members(Level::full); });
    e_.close();
    LoweredKernel kernel = finish(e_, in_, {lanes, 1, 1}, rows_);
    kernel.source.shared = shared;
    kernel.loop_iterations = passes() * (ceil_div(length_, lanes) + 16);  // 16: the tree
    return kernel;
  }

  void strided_loop(const auto& body) {
    e_.open(fmt::format("for (int t_at = t_lane; t_at < {}; t_at += CAST(int, GROUP_SIZE(0)))", e_.constant(length_)));
    split_index(e_, inner_, "t_at");
    body();
    e_.close();
  }

  // Inside subgroups by exchanging values where lanes can (the prelude knows), then in shared memory.
  void join_lanes(const Reducer& r, uint32_t lanes, std::vector<SharedParam>& shared) {
    if (!exchange_ || r.group_word().empty()) return join_in_shared(r, lanes, shared);
    const std::string array = fmt::format("t_scratch_{}", r.type());
    if (std::none_of(shared.begin(), shared.end(), [&](const SharedParam& s) { return s.name == array; }))
      shared.push_back({array, std::string(r.type()), lanes});
    e_.line(fmt::format("{}({}, {})", r.group_word(), r.own("").value, array));
    e_.bind(r.node(), r.result(""));
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
    const int64_t others = e_.varying() ? 1 : rows_ / across.size, size = e_.varying() ? nominal_size : across.size;
    int64_t width = 32;
    while (width < 1024 && width < size && others * size >= 8 * width * in_.caps.compute_units) width *= 2;
    std::vector<Axis> rest(outer_.begin(), outer_.end() - 1);
    const int64_t blocks = ceil_div(across.size, width);
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
        for (const std::string& text : r.declare_array(width, "VLOOP")) e_.line(text);
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
    choose_row_loops();
    const int64_t units = ceil_div(rows_, block_);
    e_.line(fmt::format("int t_unit = {};", e_.group_index()));
    e_.open(fmt::format("if (t_unit < {})", e_.constant(units)));
    const std::string rows = e_.constant(rows_), step = e_.constant(block_);
    if (stream_) {
      int number = 0;
      for (const Member& member : group().members) {
        if (streams(member))
          e_.line(fmt::format("ARRAY({}, t_line{}, {});", dialect_type(graph().nodes[member.node].dtype), number++,
                              width_));
      }
    }
    e_.line(fmt::format("int t_end = min(t_unit * {} + {}, {});", step, step, rows));
    e_.open(fmt::format("for (int t_row = t_unit * {}; t_row < t_end; ++t_row)", step));
    split_index(e_, outer_, "t_row");
    const size_t phases = rows_of_.phases().size();
    // The last pass before the one that stores has most to do and most of the row in the nearest cache.
    const size_t fetching = !prefetch_ ? phases + 1 : phases > 1 || !stores_at(Level::full) ? phases - 1 : phases;
    for (size_t pass = 0; pass < phases; ++pass) {
      settle_row(pass);
      inner_pass(pass, pass == fetching);
    }
    settle_row(phases);
    store_members(Level::row);
    if (stores_at(Level::full)) store_pass(phases == fetching);
    e_.close();
    e_.close();
    return finish(e_, in_, {1, 1, 1}, units);
  }

  void choose_row_loops() {
    RowsProblem p{true, picked_rows_, picked_length_,
                  whole_joined_row() ? INT32_MAX
                  : length_varies_   ? nominal_size
                                     : last()};
    for (const auto& phase : rows_of_.phases()) {
      int64_t registers = 0;
      for (const Reducer& r : phase) registers += r.registers();
      p.registers = std::max(p.registers, registers);
    }
    for (const Member& member : group().members) {
      if (streams(member) && !e_.varying())
        p.stored_bytes =
            std::max(p.stored_bytes, rows_ * length_ * static_cast<int64_t>(size_of(graph().nodes[member.node].dtype)));
    }
    Bindings tunables = pick_rows(in_.caps, p);
    width_ = tunables["WIDTH"];
    block_ = std::clamp<int64_t>(e_.varying() ? rows_of_unit() : tunables["BLOCK"], 1, std::max<int64_t>(1, rows_));
    prefetch_ = tunables["PREFETCH"] != 0 && inner_.size() == 1 && !outer_.empty() && !e_.joined();
    // Lines begin where blocks of 64 elements do.
    stream_ = tunables["STREAM"] != 0 && width_ == 64 && length_ % 64 == 0 && last() % 64 == 0 && !e_.joined();
  }

  // A number of the launch: that of the real sizes.
  int64_t rows_of_unit() const {
    return pick_rows(in_.caps, {.loop_lanes = true, .rows = rows_, .length = length_, .last = last()})["BLOCK"];
  }
  bool streams(const Member& member) const {
    return member.stored && member.level == Level::full && e_.can_stream(member.node);
  }
  int64_t last() const { return inner_.empty() ? 1 : inner_.back().size; }
  std::string along() const { return inner_.empty() ? "t_once" : e_.names[inner_.back().variable]; }
  // Do whole vectors leave something of the row over? A length in a table is not known.
  bool leaves_rest() const { return width_ > 1 && (in_.options.joined || length_varies_ || last() % width_ != 0); }
  // The word before a loop over `count` lanes.
  static std::string lane_word(int64_t count) { return count >= 16 ? fmt::format("VLOOP_OF({})", count) : "UNROLL"; }

  // lanes(rest) in loops along the row: whole vectors, with before_block() ahead and after_block() behind each, then
  // what is left.
  void walk_row(const auto& before_block, const auto& lanes, const auto& after_block) {
    const size_t around = inner_.empty() ? 0 : inner_.size() - 1;
    open_inner_loops(around);
    const std::string size = inner_.empty() ? "1" : e_.constant(inner_.back().size);
    const auto loop = [&](const std::string& count, const std::string& word, bool rest) {
      e_.open(fmt::format("{} for (int t_l = 0; t_l < {}; ++t_l)", word, count));
      e_.line(fmt::format("int {} = t_i + t_l;", along()));
      if (!inner_.empty()) e_.split_lanes({inner_.back().variable, "t_i", "t_l"});
      lanes(rest);
      e_.split_lanes({});
      e_.close();
    };
    e_.line("{");
    e_.line("int t_i = 0;");
    e_.open(fmt::format("for (; t_i + {} <= {}; t_i += {})", width_, size, width_));
    before_block();
    loop(std::to_string(width_), lane_word(width_), false);
    after_block();
    e_.close();
    if (leaves_rest()) loop(fmt::format("{} - t_i", size), "VLOOP", true);
    e_.line("}");
    close_loops(around);
  }

  // The same stretch of the next row, of each operand that has one.
  void prefetch_next_row() {
    const int along_row = inner_.back().variable, row = outer_.back().variable;
    std::vector<LoadSite> sites;
    for (const LoadSite& load : e_.loads()) {
      const bool streamed =
          load.index.affine() && load.index.coefficient(along_row) == 1 && load.index.coefficient(row) != 0;
      if (streamed && std::find(sites.begin(), sites.end(), load) == sites.end()) sites.push_back(load);
    }
    const std::string whole = std::exchange(e_.names[along_row], "t_i");
    for (const LoadSite& load : sites) {
      const std::string at = e_.print(load.index.plus(load.index.coefficient(row)));
      const int64_t line = 64 / static_cast<int64_t>(size_of(load.dtype));
      for (int64_t k = 0; k < width_; k += line)
        e_.line(fmt::format("WILL_READ({}, CAST(INDEX, {}) + {}u);", e_.buffer_name(load), at, k));
    }
    e_.names[along_row] = whole;
  }

  // One pass over the row: whole vectors, then what is left, then the lanes are joined pairwise. Lanes that only some
  // vectors have are of their own, so that every index of the others' arrays is known and they become registers.
  void inner_pass(size_t pass, bool prefetch) {
    const std::vector<Reducer>& phase = rows_of_.phases()[pass];
    std::vector<std::pair<int, std::string>> kept;  // vertex, array
    for (const KeptValue& value : rows_of_.kept()) {
      if (value.first != pass || inner_.size() != 1 || length_ > max_kept || length_varies_ || in_.options.joined)
        continue;
      kept.push_back({value.node, fmt::format("t_k{}_{}", pass, kept.size())});
      const uint64_t room = std::max<uint64_t>(64, std::bit_ceil(static_cast<uint64_t>(length_)));
      e_.line(
          fmt::format("ARRAY({}, {}, {});", dialect_type(graph().nodes[value.node].dtype), kept.back().second, room));
    }
    const auto element = [](const std::string& array) {
      return fmt::format("{}[CAST(INDEX, t_i) + CAST(INDEX, t_l)]", array);
    };
    const std::string word = lane_word(width_),
                      each = fmt::format("{} for (int t_l = 0; t_l < {}; ++t_l)", word, width_);
    for (const Reducer& r : phase) {
      for (const std::string& text : r.declare_array(width_, word)) e_.line(text);
      if (!leaves_rest()) continue;
      for (const std::string& text : r.declare_array(width_, word, "_rest")) e_.line(text);
    }
    walk_row(
        [&] {
          if (prefetch) prefetch_next_row();
        },
        [&](bool rest) {
          accumulate(phase, rest ? "_rest[t_l]" : "[t_l]");
          for (const auto& [id, array] : kept)
            e_.line(fmt::format("{} = {};", element(array), e_.member_value(*group().find(id))));
        },
        [] {});
    for (const Reducer& r : phase) {
      if (leaves_rest()) e_.line(fmt::format("{} {{ {} }}", each, r.join(r.own("[t_l]"), r.own("_rest[t_l]"))));
      for (int64_t half = width_ / 2; half > 0; half /= 2) {
        const std::string joined = r.join(r.own("[t_l]"), r.own(fmt::format("[t_l + {}]", half)));
        e_.line(fmt::format("{} for (int t_l = 0; t_l < {}; ++t_l) {{ {} }}", lane_word(half), half, joined));
      }
      e_.bind(r.node(), r.result("[0]"));
    }
    for (const auto& [id, array] : kept) e_.bind_known(id, element(array));
  }

  void store_pass(bool prefetch) {
    walk_row(
        [&] {
          if (prefetch) prefetch_next_row();
          if (stream_) e_.stream_to("t_l");
        },
        [&](bool) { store_members(Level::full); },
        [&] {
          if (!stream_) return;
          e_.stream_to("");
          e_.line(fmt::format("int {} = t_i;", along()));
          const std::string at = e_.linear_index(full_shape(), 0);
          for (const Emitter::Streamed& s : e_.streamed())
            e_.line(fmt::format("STREAM({}, {}, {}, {});", s.buffer, at, s.array, width_));
        });
  }

  // Longest row whose dear values are kept: they stay in the second-level cache, and on the stack of a driver's thread.
  static constexpr int64_t max_kept = 16384;

  const LowerInput& in_;
  Emitter e_;
  RowPhases rows_of_;
  std::vector<Axis> outer_, inner_;
  int64_t rows_ = 1, length_ = 1;
  bool length_varies_ = false;
  int64_t picked_rows_ = 1, picked_length_ = 1;  // nominal where they vary
  bool lanes_on_rows_ = false;
  bool exchange_ = true;  // do lanes that are work items exchange values?
  // Of loops along the rows.
  int64_t width_ = 1, block_ = 1;
  bool prefetch_ = false, stream_ = false;
};

}  // namespace

LoweredKernel lower_reduce(const LowerInput& in) { return ReduceLowering(in).run(); }

}  // namespace heddle
