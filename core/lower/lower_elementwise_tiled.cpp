// Elementwise groups that read along one dimension and write along another (a transpose, NCHW <-> NHWC), tile by tile:
// the tile is read along the loads' dimension, turned in registers or in shared memory, and computed and written along
// the results'.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/lower/finish.h"
#include "heddle/core/lower/lower_elementwise.h"

namespace heddle {

std::optional<Turn> find_turn(const Emitter& e, const std::vector<Axis>& axes) {
  if (axes.size() < 2) return std::nullopt;
  const int inner = axes.back().variable;
  std::optional<Turn> best;
  for (size_t a = 0; a + 1 < axes.size(); ++a) {
    Turn turn{a, e.distinct_loads([&](const LoadSite& load) {
                const int64_t along = load.index.coefficient(inner);
                return load.index.affine() && load.index.coefficient(axes[a].variable) == 1 && along != 0 &&
                       along != 1 && load.dtype != DType::boolean;
              })};
    if (!turn.loads.empty() && (!best || turn.loads.size() > best->loads.size())) best = std::move(turn);
  }
  return best;
}

namespace {

// Rows that end before what a tile asks for four lines ahead would be of use.
constexpr int64_t longest_short = 128;

// The axes of a tiled kernel: results run along i, staged loads along q, units of work over the rest.
struct TileAxes {
  Axis i, q;
  std::vector<Axis> rest;
  std::string i_name, q_name;
};

TileAxes split_axes(const Emitter& e, const std::vector<Axis>& axes, const Turn& turn) {
  TileAxes t{axes.back(), axes[turn.across], {}, {}, {}};
  for (size_t a = 0; a + 1 < axes.size(); ++a) {
    if (a != turn.across) t.rest.push_back(axes[a]);
  }
  t.i_name = e.names[t.i.variable];
  t.q_name = e.names[t.q.variable];
  return t;
}

// `first_i`, "t_qb": the first element of this unit along i and q; and the indices of the rest.
void split_unit(Emitter& e, const TileAxes& t, std::string_view first_i, int64_t step_i, int64_t step_q) {
  const std::string blocks_i = e.constant(ceil_div(t.i.size, step_i)),
                    blocks_q = e.constant(ceil_div(t.q.size, step_q));
  e.line(fmt::format("int {} = t_unit % {} * {};", first_i, blocks_i, step_i));
  e.line(fmt::format("int t_above = t_unit / {};", blocks_i));
  e.line(fmt::format("int t_qb = t_above % {} * {};", blocks_q, e.constant(step_q)));
  if (!t.rest.empty()) {
    e.line(fmt::format("int t_row = t_above / {};", blocks_q));
    split_index(e, t.rest, "t_row");
  }
}

int64_t units_of(const TileAxes& t, int64_t step_i, int64_t step_q) {
  return ceil_div(t.i.size, step_i) * (ceil_div(t.q.size, step_q)) * extent(t.rest);
}

class LoopTiles {
 public:
  LoopTiles(Emitter& e, const LowerInput& in, const std::vector<Axis>& axes, const Turn& turn, Bindings& tunables)
      : e_(e),
        in_(in),
        turn_(turn),
        t_(split_axes(e, axes, turn)),
        width_(std::max<int64_t>(16, tunables["TILE_I"] / 16 * 16)),
        run_(std::max<int64_t>(16, tunables["TILE_Q"] / 16 * 16)),
        span_(std::max<int64_t>(width_, tunables["TILE_S"] / width_ * width_)) {
    // Whole lines of the narrowest type. Rows that do not begin with one are written shifted by up to a line, from
    // tiles that are a line wider.
    const int64_t line = std::max<int64_t>(16, 64 / narrowest());
    const bool whole = t_.i.size % 64 == 0;
    stream_ = tunables["STREAM"] != 0 && width_ % line == 0 && (whole || t_.i.size >= width_ + line);
    shift_ = stream_ && !whole ? line : 0;
    pitch_ = width_ + shift_;
  }

  LoweredKernel run() {
    const int64_t units = units_of(t_, span_, run_);
    e_.line("int t_unit = CAST(int, GROUP_LINEAR);");
    e_.open(fmt::format("if (t_unit < {})", e_.constant(units)));
    split_unit(e_, t_, "t_i0", span_, run_);
    e_.line(fmt::format("int t_ie = min(t_i0 + {}, {});", span_, e_.constant(t_.i.size)));
    e_.line(fmt::format("int t_qe = min(t_qb + {}, {});", e_.constant(run_), e_.constant(t_.q.size)));
    if (stream_) declare_streamed(e_, width_);
    for (size_t s = 0; s < turn_.loads.size(); ++s)
      e_.line(fmt::format("ARRAY({}, t_s{}, {});", e_.type_of(turn_.loads[s].dtype), s, 16 * pitch_));
    e_.open("for (int t_q0 = t_qb; t_q0 < t_qe; t_q0 += 16)");
    e_.line("int t_nq = min(t_qe - t_q0, 16);");
    e_.open(fmt::format("for (int t_ib = t_i0; t_ib < t_ie; t_ib += {})", width_));
    e_.line(fmt::format("int t_ni = min({} - t_ib, {});", e_.constant(t_.i.size), pitch_));
    for (size_t s = 0; s < turn_.loads.size(); ++s) fill(s);
    for (size_t s = 0; s < turn_.loads.size(); ++s)
      e_.stage(turn_.loads[s], fmt::format("t_s{}[t_tq * {} + t_ti]", s, pitch_));
    if (shift_ > 0) {
      shifted_rows();
    } else {
      e_.open(fmt::format("if (t_nq == 16 && t_ni == {})", width_));
      rows(true);
      e_.close();
      e_.open("else");
      rows(false);
      e_.close();
    }
    e_.close();
    e_.close();
    e_.close();
    LoweredKernel kernel = finish(e_, in_, {1, 1, 1}, units);
    kernel.parallel = false;  // joined with others it would lose its tiles
    return kernel;
  }

 private:
  int64_t narrowest() const {
    int64_t bytes = 8;
    for (const Member& member : in_.group.members) {
      if (member.stored)
        bytes = std::min(bytes, static_cast<int64_t>(size_of(in_.scheduled.graph.nodes[member.node].dtype)));
    }
    return bytes;
  }

  // t_s[q * pitch + i] = the load at (t_ib + i, t_q0 + q).
  void fill(size_t s) {
    const LoadSite& load = turn_.loads[s];
    const std::string buffer = e_.buffer_name(load), stride = e_.constant(load.index.coefficient(t_.i.variable));
    e_.open("");
    e_.line(fmt::format("int {} = t_ib;", t_.i_name));
    e_.line(fmt::format("int {} = t_q0;", t_.q_name));
    e_.line(fmt::format("int t_base = {};", e_.print(load.index)));
    e_.open("for (int t_b = 0; t_b < t_ni; t_b += 16)");
    e_.line(fmt::format(
        "if (t_nq == 16 && t_b + 16 <= t_ni) {{ TILE_LOAD({}, t_base + t_b * {}, {}, t_s{}, t_b, {}, {}); }}", buffer,
        stride, stride, s, pitch_, ahead(load)));
    e_.open("else");
    e_.line("int t_end = min(t_b + 16, t_ni);");
    e_.line(
        fmt::format("for (int t_r = t_b; t_r < t_end; ++t_r) {{ for (int t_c = 0; t_c < t_nq; ++t_c) {{ t_s{}[t_c * {} "
                    "+ t_r] = LOAD({}, t_base + t_r * {} + t_c); }} }}",
                    s, pitch_, buffer, stride));
    e_.close();
    e_.close();
    e_.close();
  }

  // How many elements further the lines lie that a tile asks for: four lines along long rows, which are read again for
  // each 16 of their elements; of short ones those that the next tile along the results begins with.
  std::string ahead(const LoadSite& load) {
    if (span_ > width_ && t_.q.size <= longest_short)
      return fmt::format("{} * {}", width_, e_.constant(load.index.coefficient(t_.i.variable)));
    return std::to_string(256 / size_of(load.dtype));
  }

  // The tile's rows, along i; `full`: all of them, with bounds that the compiler knows.
  void rows(bool full) {
    const std::string count_q = full ? "16" : "t_nq", count_i = full ? std::to_string(width_) : "t_ni";
    const bool stream = full && stream_;
    e_.open(fmt::format("for (int t_tq = 0; t_tq < {}; ++t_tq)", count_q));
    e_.line(fmt::format("int {} = t_q0 + t_tq;", t_.q_name));
    if (stream) e_.stream_to("t_ti");
    e_.open(fmt::format("{} for (int t_ti = 0; t_ti < {}; ++t_ti)", full ? "VLOOP_LONG" : "VLOOP", count_i));
    e_.line(fmt::format("int {} = t_ib + t_ti;", t_.i_name));
    emit_elementwise(e_);
    e_.close();
    if (stream) {
      e_.stream_to("");
      e_.line(fmt::format("int {} = t_ib;", t_.i_name));
      write_streamed(e_, width_);
    }
    e_.close();
  }

  // Rows that begin anywhere in a line: a unit writes the `width` elements from its first whole line on, which the next
  // unit leaves out. The first unit also writes what comes before that line, the last one what remains.
  void shifted_rows() {
    e_.open("for (int t_tq = 0; t_tq < t_nq; ++t_tq)");
    e_.line(fmt::format("int {} = t_q0 + t_tq;", t_.q_name));
    e_.line("int t_skew;");
    e_.open("");
    e_.line(fmt::format("int {} = t_ib;", t_.i_name));
    e_.line(fmt::format("t_skew = (0 - ({})) & {};", e_.linear_index(e_.group().domain, 0), shift_ - 1));
    e_.close();
    e_.open(fmt::format("if (t_skew + {} <= t_ni)", width_));
    e_.line(fmt::format("int {} = t_ib + t_skew;", t_.i_name));
    e_.stream_to("t_l");
    e_.open(fmt::format("VLOOP_LONG for (int t_l = 0; t_l < {}; ++t_l)", width_));
    e_.line("int t_ti = t_skew + t_l;");
    e_.line(fmt::format("int {} = t_ib + t_ti;", t_.i_name));
    emit_elementwise(e_);
    e_.close();
    e_.stream_to("");
    write_streamed(e_, width_);
    e_.close();
    e_.open(fmt::format("if (t_ib == 0 || t_skew + {} > t_ni)", width_));
    // Both at once where a row is one unit.
    e_.line("int t_from = t_ib == 0 ? 0 : t_skew;");
    e_.line(fmt::format("int t_to = t_skew + {} > t_ni ? t_ni : t_skew;", width_));
    e_.open("VLOOP for (int t_ti = t_from; t_ti < t_to; ++t_ti)");
    e_.line(fmt::format("int {} = t_ib + t_ti;", t_.i_name));
    emit_elementwise(e_);
    e_.close();
    e_.close();
    e_.close();
  }

  Emitter& e_;
  const LowerInput& in_;
  const Turn& turn_;
  TileAxes t_;
  int64_t width_, run_, span_, shift_ = 0, pitch_ = 0;
  bool stream_ = false;
};

// A shared array holds what its type's registers hold; wider types are read directly.
bool shareable(DType dtype) { return arith(dtype) == DType::f32 || arith(dtype) == DType::i32; }

}  // namespace

LoweredKernel tiled_as_loop(Emitter& e, const LowerInput& in, const std::vector<Axis>& axes, const Turn& turn,
                            Bindings& tunables) {
  return LoopTiles(e, in, axes, turn, tunables).run();
}

LoweredKernel tiled_as_items(Emitter& e, const LowerInput& in, const std::vector<Axis>& axes, const Turn& turn,
                             Bindings& tunables) {
  const TileAxes t = split_axes(e, axes, turn);
  const int64_t side = tunables["TILE_I"], lanes = std::min<int64_t>(in.caps.max_group_lanes, side * side / 4),
                step = lanes / side;
  const int64_t units = units_of(t, side, side);
  std::vector<SharedParam> shared;
  e.line("int t_unit = CAST(int, GROUP_LINEAR);");
  e.line(fmt::format("int t_fast = CAST(int, LOCAL_ID(0)) % {};", side));
  e.line(fmt::format("int t_slow = CAST(int, LOCAL_ID(0)) / {};", side));
  // A folded grid may have more groups than units: those repeat the last one's loads up to the barrier and store
  // nothing.
  e.line(fmt::format("bool t_live = t_unit < {};", e.constant(units)));
  split_unit(e, t, "t_ib", side, side);
  const std::string i_size = e.constant(t.i.size), q_size = e.constant(t.q.size);
  uint32_t bytes = 0;
  for (const LoadSite& load : turn.loads) {
    const auto count = static_cast<uint32_t>(side * (side + 1));
    if (!shareable(load.dtype) || bytes + 4 * count > in.caps.shared_bytes) continue;
    bytes += 4 * count;
    const std::string array = fmt::format("t_s{}", shared.size());
    shared.push_back({array, std::string(e.type_of(load.dtype)), count});
    e.open(fmt::format("UNROLL for (int t_k = 0; t_k < {}; t_k += {})", side, step));
    e.line(fmt::format("int {} = t_ib + t_slow + t_k;", t.i_name));
    e.line(fmt::format("int {} = t_qb + t_fast;", t.q_name));
    e.line(fmt::format("if (t_live && {} < {} && {} < {}) {{ {}[(t_slow + t_k) * {} + t_fast] = LOAD({}, {}); }}",
                       t.i_name, i_size, t.q_name, q_size, array, side + 1, e.buffer_name(load), e.print(load.index)));
    e.close();
    e.stage(load, fmt::format("{}[t_fast * {} + t_slow + t_k]", array, side + 1));
  }
  e.line("BARRIER();");
  e.open(fmt::format("UNROLL for (int t_k = 0; t_k < {}; t_k += {})", side, step));
  e.line(fmt::format("int {} = t_ib + t_fast;", t.i_name));
  e.line(fmt::format("int {} = t_qb + t_slow + t_k;", t.q_name));
  e.open(fmt::format("if (t_live && {} < {} && {} < {})", t.i_name, i_size, t.q_name, q_size));
  emit_elementwise(e);
  e.close();
  e.close();
  LoweredKernel kernel = finish(e, in, {static_cast<uint32_t>(lanes), 1, 1}, units);
  kernel.source.shared = shared;
  kernel.parallel = false;
  kernel.loop_iterations = 2 * (side / step);
  return kernel;
}

}  // namespace heddle
