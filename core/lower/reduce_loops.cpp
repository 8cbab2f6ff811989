#include "heddle/core/lower/reduce_loops.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "heddle/core/base/integers.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/lower/finish.h"
#include "heddle/core/tiles/generated_tiles.h"

namespace heddle {
namespace {

// Lanes along the row: whole vectors, then what is left of the row.
class RowLoops {
 public:
  explicit RowLoops(ReduceRows& g) : g_(g), e_(g.e) { choose_row_loops(); }

  LoweredKernel run() {
    const int64_t units = ceil_div(g_.rows, block_);
    e_.line(fmt::format("int t_unit = {};", e_.group_index()));
    e_.open(fmt::format("if (t_unit < {})", e_.constant(units)));
    const std::string rows = e_.constant(g_.rows), step = e_.constant(block_);
    if (stream_) {
      int number = 0;
      for (const Member& member : g_.group().members) {
        if (streams(member))
          e_.line(fmt::format("ARRAY({}, t_line{}, {});", dialect_type(g_.graph().nodes[member.node].dtype), number++,
                              width_));
      }
    }
    e_.line(fmt::format("int t_end = min(t_unit * {} + {}, {});", step, step, rows));
    e_.open(fmt::format("for (int t_row = t_unit * {}; t_row < t_end; ++t_row)", step));
    split_index(e_, g_.outer, "t_row");
    const size_t phases = g_.phases().size();
    // The last pass before the one that stores has most to do and most of the row in the nearest cache.
    const size_t fetching = !prefetch_ ? phases + 1 : phases > 1 || !g_.stores_at(Level::full) ? phases - 1 : phases;
    for (size_t pass = 0; pass < phases; ++pass) {
      g_.settle_row(pass);
      inner_pass(pass, pass == fetching);
    }
    g_.settle_row(phases);
    g_.store_members(Level::row);
    if (g_.stores_at(Level::full)) store_pass(phases == fetching);
    e_.close();
    e_.close();
    return finish(e_, g_.in, {1, 1, 1}, units);
  }

 private:
  void choose_row_loops() {
    RowsProblem p{true, g_.picked_rows, g_.picked_length,
                  g_.whole_joined_row() ? INT32_MAX
                  : g_.length_varies    ? nominal_size
                                        : last()};
    for (const auto& phase : g_.phases()) {
      int64_t registers = 0;
      for (const Reducer& r : phase) registers += r.registers();
      p.registers = std::max(p.registers, registers);
    }
    for (const Member& member : g_.group().members) {
      if (streams(member) && !e_.varying())
        p.stored_bytes = std::max(
            p.stored_bytes, g_.rows * g_.length * static_cast<int64_t>(size_of(g_.graph().nodes[member.node].dtype)));
    }
    Bindings tunables = pick_rows(g_.in.caps, p);
    width_ = tunables["WIDTH"];
    block_ = std::clamp<int64_t>(e_.varying() ? rows_of_unit() : tunables["BLOCK"], 1, std::max<int64_t>(1, g_.rows));
    prefetch_ = tunables["PREFETCH"] != 0 && g_.inner.size() == 1 && !g_.outer.empty() && !e_.joined();
    // Lines begin where blocks of 64 elements do.
    stream_ = tunables["STREAM"] != 0 && width_ == 64 && g_.length % 64 == 0 && last() % 64 == 0 && !e_.joined();
  }

  // A number of the launch: that of the real sizes.
  int64_t rows_of_unit() const {
    return pick_rows(g_.in.caps, {.loop_lanes = true, .rows = g_.rows, .length = g_.length, .last = last()})["BLOCK"];
  }
  bool streams(const Member& member) const {
    return member.stored && member.level == Level::full && e_.can_stream(member.node);
  }
  int64_t last() const { return g_.inner.empty() ? 1 : g_.inner.back().size; }
  std::string along() const { return g_.inner.empty() ? "t_once" : e_.names[g_.inner.back().variable]; }
  // Do whole vectors leave something of the row over? A length in a table is not known.
  bool leaves_rest() const { return width_ > 1 && (g_.in.options.joined || g_.length_varies || last() % width_ != 0); }
  // The word before a loop over `count` lanes.
  static std::string lane_word(int64_t count) { return count >= 16 ? fmt::format("VLOOP_OF({})", count) : "UNROLL"; }

  // lanes(rest) in loops along the row: whole vectors, with before_block() ahead and after_block() behind each, then
  // what is left. `word` goes before the loop over vectors.
  void walk_row(const auto& before_block, const auto& lanes, const auto& after_block, const char* word = "") {
    const size_t around = g_.inner.empty() ? 0 : g_.inner.size() - 1;
    g_.open_inner_loops(around);
    const std::string size = g_.inner.empty() ? "1" : e_.constant(g_.inner.back().size);
    const auto loop = [&](const std::string& count, const std::string& lane, bool rest) {
      e_.open(fmt::format("{} for (int t_l = 0; t_l < {}; ++t_l)", lane, count));
      e_.line(fmt::format("int {} = t_i + t_l;", along()));
      if (!g_.inner.empty()) e_.split_lanes({g_.inner.back().variable, "t_i", "t_l"});
      lanes(rest);
      e_.split_lanes({});
      e_.close();
    };
    e_.line("{");
    e_.line("int t_i = 0;");
    e_.open(fmt::format("{}for (; t_i + {} <= {}; t_i += {})", word, width_, size, width_));
    before_block();
    loop(std::to_string(width_), lane_word(width_), false);
    after_block();
    e_.close();
    if (leaves_rest()) loop(fmt::format("{} - t_i", size), "VLOOP", true);
    e_.line("}");
    g_.close_loops(around);
  }

  // The same stretch of the next row, of each operand that has one.
  void prefetch_next_row() {
    const int along_row = g_.inner.back().variable, row = g_.outer.back().variable;
    const std::vector<LoadSite> sites = e_.distinct_loads([&](const LoadSite& load) {
      return load.index.affine() && load.index.coefficient(along_row) == 1 && load.index.coefficient(row) != 0;
    });
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
    const std::vector<Reducer>& phase = g_.phases()[pass];
    std::vector<std::pair<int, std::string>> kept;  // vertex, array
    for (const KeptValue& value : g_.phases_of.kept()) {
      if (value.first != pass || g_.inner.size() != 1 || g_.length > max_kept || g_.length_varies ||
          g_.in.options.joined)
        continue;
      kept.push_back({value.node, fmt::format("t_k{}_{}", pass, kept.size())});
      const uint64_t room = std::max<uint64_t>(64, std::bit_ceil(static_cast<uint64_t>(g_.length)));
      e_.line(fmt::format("ARRAY({}, {}, {});", dialect_type(g_.graph().nodes[value.node].dtype), kept.back().second,
                          room));
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
          g_.accumulate(phase, rest ? "_rest[t_l]" : "[t_l]");
          for (const auto& [id, array] : kept)
            e_.line(fmt::format("{} = {};", element(array), e_.member_value(*g_.group().find(id))));
        },
        [] {}, width_ == 1 ? "IN_ORDER " : "");
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
        [&](bool) { g_.store_members(Level::full); },
        [&] {
          if (!stream_) return;
          e_.stream_to("");
          e_.line(fmt::format("int {} = t_i;", along()));
          const std::string at = e_.linear_index(g_.domain_of(Level::full), 0);
          for (const Emitter::Streamed& s : e_.streamed())
            e_.line(fmt::format("STREAM({}, {}, {}, {});", s.buffer, at, s.array, width_));
        });
  }

  // Longest row whose dear values are kept: they stay in the second-level cache, and on the stack of a driver's thread.
  static constexpr int64_t max_kept = 16384;

  ReduceRows& g_;
  Emitter& e_;
  int64_t width_ = 1, block_ = 1;
  bool prefetch_ = false, stream_ = false;
};

}  // namespace

LoweredKernel rows_in_loops(ReduceRows& g) {
  Emitter& e = g.e;
  const Axis across = g.outer.back();
  // Wide enough that memory is read in long stretches, narrow enough that every core has work.
  const int64_t others = e.varying() ? 1 : g.rows / across.size, size = e.varying() ? nominal_size : across.size;
  int64_t width = 32;
  while (width < 1024 && width < size && others * size >= 8 * width * g.in.caps.compute_units) width *= 2;
  std::vector<Axis> rest(g.outer.begin(), g.outer.end() - 1);
  const int64_t blocks = ceil_div(across.size, width);
  const int64_t units = extent(rest) * blocks;
  const std::string& x = e.names[across.variable];
  e.line(fmt::format("int t_unit = {};", e.group_index()));
  e.open(fmt::format("if (t_unit < {})", e.constant(units)));
  e.line(fmt::format("int t_base = t_unit % {} * {};", e.constant(blocks), width));
  e.line(fmt::format("int t_count = min({} - t_base, {});", e.constant(across.size), width));
  e.line(fmt::format("int t_row = t_unit / {};", e.constant(blocks)));
  split_index(e, rest, "t_row");
  const auto lanes = [&](const auto& body) {
    e.open(fmt::format("{} for (int t_l = 0; t_l < t_count; ++t_l)", width >= 128 ? "VLOOP_LONG" : "VLOOP"));
    e.line(fmt::format("int {} = t_base + t_l;", x));
    body();
    e.close();
  };
  for (const auto& phase : g.phases()) {
    for (const Reducer& r : phase) {
      for (const std::string& text : r.declare_array(width, "VLOOP")) e.line(text);
    }
    g.open_inner_loops(g.inner.size());
    lanes([&] { g.accumulate(phase, "[t_l]"); });
    g.close_loops(g.inner.size());
    for (const Reducer& r : phase) e.bind(r.node(), r.result("[t_l]"));
  }
  if (g.stores_at(Level::row)) lanes([&] { g.store_members(Level::row); });
  if (g.stores_at(Level::full)) {
    g.open_inner_loops(g.inner.size());
    lanes([&] { g.store_members(Level::full); });
    g.close_loops(g.inner.size());
  }
  e.close();
  return finish(e, g.in, {1, 1, 1}, units);
}

LoweredKernel row_in_loops(ReduceRows& g) { return RowLoops(g).run(); }

}  // namespace heddle
