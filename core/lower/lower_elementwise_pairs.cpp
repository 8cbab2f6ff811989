// Elementwise groups that read or write two neighbours of a row for each lane (windows of two, their gradients, every
// second element) over rows that are short: a compiler vectorises the row, which is shorter than its vectors, and
// computes most of it element by element. Here lanes run on over several rows. What they read is copied into private
// arrays first, a row's even elements apart from its odd ones, in vector registers; results are put together the same
// way. So each row is read and written once, as vectors of neighbours.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "heddle/core/base/integers.h"
#include "heddle/core/lower/finish.h"
#include "heddle/core/lower/lower_elementwise.h"

namespace heddle {
namespace {

constexpr int64_t widest = 16;             // floats of a vector
constexpr int64_t block_lanes = 256;       // about as many lanes at a time: a dozen arrays of them fit the first cache
constexpr int64_t most_lanes = 512;        // of a block
constexpr int64_t longest_row = 256;       // lanes; longer rows are vectors but for their ends
constexpr size_t most_arrays = 24;         // of 2 KiB each
constexpr const char* nowhere = "t_lost";  // names an index that a lane of several rows does not have

bool floats(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

// What lanes read of a buffer, row by row: `step` 0, one number for a row; 1, its elements; 2, pairs of them.
struct RowLoad {
  LoadSite first;
  std::optional<LoadSite> second;  // the neighbour of `first`
  int64_t step = 0;
};

class Pairs {
 public:
  Pairs(const LowerInput& in, const std::vector<StepDim>& dims)
      : e_(in.scheduled, in.group, 12), in_(in), dims_(dims), domain_(in.group.domain) {}

  std::optional<LoweredKernel> as_loop(int64_t chunk) {
    if (!has_pairs_of_results() || !learn() || !sort_loads()) return std::nullopt;
    const int64_t rows = extent(outer_), n = lanes_of_row(), together = rows_of_block();
    const int64_t wanted = std::max<int64_t>(block_lanes, chunk / elements()) / n;
    const int64_t unit = std::max<int64_t>(1, wanted / together) * together;
    e_.line(fmt::format("int t_unit = {};", e_.group_index()));
    e_.open(fmt::format("if (t_unit < {})", e_.constant(ceil_div(rows, unit))));
    e_.line(fmt::format("int t_last = min((t_unit + 1) * {}, {});", e_.constant(unit), e_.constant(rows)));
    declare_arrays();
    e_.open(fmt::format("for (int t_first = t_unit * {}; t_first < t_last; t_first += {})", e_.constant(unit),
                        e_.constant(together)));
    e_.line(fmt::format("int t_end = min(t_first + {}, t_last);", e_.constant(together)));
    read_rows();
    compute();
    if (!dims_.empty()) write_rows();
    e_.close();
    e_.close();
    LoweredKernel kernel = finish(e_, in_, {1, 1, 1}, ceil_div(rows, unit));
    if (kernel.source.body.find(nowhere) != std::string::npos) return std::nullopt;
    kernel.source.defines.emplace_back("VW", std::to_string(width_));
    kernel.parallel = false;  // joined with others it would lose its pairs
    return kernel;
  }

 private:
  // Either results lie as the lanes do, or each lane has two neighbours along the innermost dimension, and perhaps
  // several rows along the one before: then the results of a block of rows are one stretch of memory.
  bool has_pairs_of_results() const {
    for (const Member& member : in_.group.members) {
      if (!member.stored) continue;
      if (in_.scheduled.placed.contains(member.node)) return false;
      if (!dims_.empty() && !floats(dtype_of(member.node))) return false;
    }
    if (dims_.empty()) return true;
    const int last = domain_.rank() - 1;
    if (dims_.size() > 2 || dims_.back().variable != last || dims_.back().step != 2) return false;
    if (dims_.size() == 2 && dims_.front().variable != last - 1) return false;
    return std::all_of(dims_.begin(), dims_.end(), [](const StepDim& dim) { return dim.size % dim.step == 0; });
  }

  DType dtype_of(int id) const { return in_.scheduled.graph.nodes[static_cast<size_t>(id)].dtype; }
  int64_t elements() const {
    return std::accumulate(dims_.begin(), dims_.end(), int64_t{1},
                           [](int64_t n, const StepDim& d) { return n * d.step; });
  }
  // Rows of results that a row of lanes makes.
  int64_t result_rows() const { return dims_.size() == 2 ? dims_.front().step : 1; }
  int64_t lanes_of_row() const { return inner_.size; }

  // As many rows as are about block_lanes, and whole vectors of lanes where that takes few.
  int64_t rows_of_block() const {
    const int64_t n = lanes_of_row(), whole = widest / std::gcd(widest, n), fit = std::max<int64_t>(1, block_lanes / n);
    if (whole * n > most_lanes) return fit;
    return std::max(whole, fit / whole * whole);
  }

  // Calls f(number) for each element of a lane, with the emitter's dimensions at that element.
  template <class F>
  void each_element(const F& f) {
    for (int64_t k = 0; k < elements(); ++k) {
      int64_t rest = k;
      for (size_t d = dims_.size(); d-- > 0;) {
        e_.run_in_steps(dims_[d].variable, {dims_[d].step, rest % dims_[d].step, dims_[d].size / dims_[d].step});
        rest /= dims_[d].step;
      }
      f(k);
    }
  }

  // The loops over lanes: `inner_` along a row, `outer_` over rows.
  bool learn() {
    e_.names.assign(static_cast<size_t>(Shape::max_rank), "t_d");
    for (const StepDim& dim : dims_) lanes_[dim.variable] = dim.size / dim.step;
    Shape domain;
    for (int d = 0; d < domain_.rank(); ++d) {
      lanes_.try_emplace(d, domain_[d]);
      domain.push_back(lanes_[d]);
    }
    e_.open("");
    each_element([&](int64_t) { emit_elementwise(e_); });
    e_.close();
    outer_ = merge_axes(e_, domain, 0, "t_x");
    e_.start_over();
    if (outer_.size() < 2 || outer_.back().variable != domain_.rank() - 1) return false;
    inner_ = outer_.back();
    outer_.pop_back();
    width_ = inner_.size <= widest / 2 ? widest / 2 : widest;
    return inner_.size >= 2 && inner_.size <= longest_row && !e_.moves_bits();
  }

  // Whether lanes that follow each other, over rows too, read neighbours.
  bool runs_on(const Index& index) const {
    int64_t distance = inner_.size;
    for (size_t a = outer_.size(); a-- > 0; distance *= outer_[a].size) {
      if (index.coefficient(outer_[a].variable) != distance) return false;
    }
    return index.coefficient(inner_.variable) == 1;
  }

  // What each load needs, in row_loads_ and direct_; false: some load is none of these.
  bool sort_loads() {
    const std::vector<LoadSite> loads = e_.distinct_loads([](const LoadSite&) { return true; });
    bool pairs = !dims_.empty();
    for (const LoadSite& load : loads) {
      if (!load.index.affine() || load.moves) return false;
      for (const auto& [variable, coefficient] : load.index.terms) {
        if (coefficient < 0 || !lanes_.contains(variable)) return false;
      }
      if (load.index.terms.empty()) continue;
      const int64_t step = load.index.coefficient(inner_.variable);
      if (runs_on(load.index)) {
        direct_.push_back(load);
        continue;
      }
      if (step > 2 || (step > 0 && !floats(load.dtype))) return false;
      pairs = pairs || step == 2;
      if (!joins_a_pair(load)) row_loads_.push_back({load, std::nullopt, step});
    }
    return pairs && arrays() <= most_arrays;
  }

  bool joins_a_pair(const LoadSite& load) {
    for (RowLoad& other : row_loads_) {
      if (other.step != 2 || other.second) continue;
      LoadSite first = other.first;
      first.index.constant += 1;
      if (first == load) {
        other.second = load;
        return true;
      }
      first.index.constant -= 2;
      if (first == load) {
        other.second = std::exchange(other.first, load);
        return true;
      }
    }
    return false;
  }

  size_t arrays() const {
    size_t count = dims_.empty() ? 0 : results() * static_cast<size_t>(elements());
    for (const RowLoad& load : row_loads_) count += load.second ? 2 : 1;
    return count;
  }
  size_t results() const {
    return static_cast<size_t>(std::count_if(in_.group.members.begin(), in_.group.members.end(),
                                             [](const Member& member) { return member.stored; }));
  }

  // ---- arrays: t_r0a and t_r0b of what is read, t_w0_0 of what is written; a vector longer than a block's lanes

  static std::string read_array(size_t number, bool second) {
    return fmt::format("t_r{}{}", number, second ? "b" : "a");
  }
  static std::string written_array(size_t number, int64_t element) { return fmt::format("t_w{}_{}", number, element); }

  void declare_arrays() {
    const int64_t count = std::max(most_lanes, round_up(rows_of_block() * lanes_of_row(), widest)) + widest;
    const auto array = [&](DType dtype, const std::string& name) {
      e_.line(fmt::format("ARRAY({}, {}, {});", e_.type_of(dtype), name, count));
    };
    for (size_t i = 0; i < row_loads_.size(); ++i) {
      array(row_loads_[i].first.dtype, read_array(i, false));
      if (row_loads_[i].second) array(row_loads_[i].second->dtype, read_array(i, true));
    }
    for (size_t i = 0; !dims_.empty() && i < results(); ++i) {
      for (int64_t k = 0; k < elements(); ++k) array(DType::f32, written_array(i, k));
    }
  }

  void read_rows() {
    if (row_loads_.empty()) return;
    split_index(e_, outer_, "t_first");
    e_.names[static_cast<size_t>(inner_.variable)].clear();
    e_.open("for (int t_row = t_first; t_row < t_end; ++t_row)");
    e_.line(fmt::format("int t_at = (t_row - t_first) * {};", e_.constant(lanes_of_row())));
    for (size_t i = 0; i < row_loads_.size(); ++i) read_row(row_loads_[i], i);
    next_row(outer_.size() - 1);
    e_.close();
  }

  // The indices of the next row: a division for each would take as long as the row.
  void next_row(size_t axis) {
    const std::string& name = e_.names[static_cast<size_t>(outer_[axis].variable)];
    e_.line(fmt::format("{} += 1;", name));
    if (axis == 0) return;
    e_.open(fmt::format("if ({} == {})", name, e_.constant(outer_[axis].size)));
    e_.line(fmt::format("{} = 0;", name));
    next_row(axis - 1);
    e_.close();
  }

  // The vectors write up to 15 elements too many, which the next row writes again, and read only what some lane reads
  // or lies before it.
  void read_row(const RowLoad& load, size_t number) {
    const std::string n = e_.constant(lanes_of_row()), a = read_array(number, false), b = read_array(number, true);
    e_.open("");
    if (load.step == 0) {
      const bool vectors = floats(load.first.dtype);
      e_.line(fmt::format("{} t_number = {};", e_.type_of(load.first.dtype), e_.load_expression(load.first)));
      e_.line(fmt::format("for (int t_j = 0; t_j < {}; t_j += {}) {{ {} }}", n, vectors ? width_ : 1,
                          vectors ? fmt::format("VTO({}, t_at + t_j, VSPLAT(t_number));", a)
                                  : fmt::format("{}[t_at + t_j] = t_number;", a)));
      return e_.close();
    }
    const std::string buffer = e_.buffer_name(load.first);
    e_.line(fmt::format("int t_from = {};", e_.print(load.first.index)));
    e_.line("int t_j = 0;");
    e_.open(fmt::format("for (; t_j < {} && t_from + {} * t_j + {} <= {}; t_j += {})", n, load.step, load.step * width_,
                        e_.constant(end_of(load)), width_));
    e_.line(fmt::format("VEC t_low = VLOAD2({}, t_from, {} * t_j);", buffer, load.step));
    if (load.step == 2) e_.line(fmt::format("VEC t_high = VLOAD2({}, t_from, 2 * t_j + {});", buffer, width_));
    e_.line(fmt::format("VTO({}, t_at + t_j, {});", a, load.step == 2 ? "VEVEN(t_low, t_high)" : "t_low"));
    if (load.second) e_.line(fmt::format("VTO({}, t_at + t_j, VODD(t_low, t_high));", b));
    e_.close();
    e_.open(fmt::format("for (; t_j < {}; ++t_j)", n));
    e_.line(fmt::format("{}[t_at + t_j] = LOAD({}, t_from + {} * t_j);", a, buffer, load.step));
    if (load.second) e_.line(fmt::format("{}[t_at + t_j] = LOAD({}, t_from + 2 * t_j + 1);", b, buffer));
    e_.close();
    e_.close();
  }

  // One behind the last element that any lane reads.
  int64_t end_of(const RowLoad& load) const {
    const Index& index = load.second ? load.second->index : load.first.index;
    int64_t end = index.constant + 1;
    for (const auto& [variable, coefficient] : index.terms) end += coefficient * (lanes_.at(variable) - 1);
    return end;
  }

  void compute() {
    e_.line(fmt::format("int t_lane = t_first * {};", e_.constant(lanes_of_row())));
    e_.line(fmt::format("int t_n = t_end * {} - t_lane;", e_.constant(lanes_of_row())));
    for (const LoadSite& load : direct_) {
      const std::string first = load.index.constant == 0 ? "t_lane" : "t_lane + " + e_.constant(load.index.constant);
      e_.stage(load, fmt::format("LOAD({}, CAST(INDEX, {}) + CAST(INDEX, t_l))", e_.buffer_name(load), first));
    }
    for (size_t i = 0; i < row_loads_.size(); ++i) {
      e_.stage(row_loads_[i].first, read_array(i, false) + "[t_l]");
      if (row_loads_[i].second) e_.stage(*row_loads_[i].second, read_array(i, true) + "[t_l]");
    }
    for (const auto& [variable, lanes] : lanes_) e_.names[static_cast<size_t>(variable)] = nowhere;
    e_.open("VLOOP_LONG for (int t_l = 0; t_l < t_n; ++t_l)");
    each_element([&](int64_t k) { compute_element(k); });
    e_.close();
  }

  void compute_element(int64_t k) {
    size_t number = 0;
    for (const Member& member : in_.group.members) {
      if (!member.stored) continue;
      const std::string value = e_.member_value(member);
      if (dims_.empty())
        e_.store(member.node, value, "CAST(INDEX, t_lane) + CAST(INDEX, t_l)");
      else
        e_.line(fmt::format("{}[t_l] = {};", written_array(number++, k), value));
    }
  }

  // Rows in the order in which they lie: what a vector writes behind a row, the next row writes again, and behind the
  // block nothing is written.
  void write_rows() {
    const std::string n = e_.constant(lanes_of_row()), row = e_.constant(2 * lanes_of_row());
    e_.line(fmt::format("int t_stop = t_end * {};", e_.constant(elements() * lanes_of_row())));
    e_.open("for (int t_row = t_first; t_row < t_end; ++t_row)");
    e_.line(fmt::format("int t_at = (t_row - t_first) * {};", n));
    for (int64_t r = 0; r < result_rows(); ++r) {
      e_.open("");
      e_.line(fmt::format("int t_to = (t_row * {} + {}) * {};", result_rows(), r, row));
      size_t number = 0;
      for (const Member& member : in_.group.members) {
        if (member.stored) write_row(e_.stored_name(member.node), number++, 2 * r);
      }
      e_.close();
    }
    e_.close();
  }

  void write_row(const std::string& buffer, size_t number, int64_t element) {
    const std::string n = e_.constant(lanes_of_row()), a = written_array(number, element),
                      b = written_array(number, element + 1);
    e_.open("");
    e_.line("int t_j = 0;");
    e_.open(fmt::format("for (; t_j < {} && t_to + 2 * t_j + {} <= t_stop; t_j += {})", n, 2 * width_, width_));
    e_.line(fmt::format("VEC t_even = VFROM({}, t_at + t_j);", a));
    e_.line(fmt::format("VEC t_odd = VFROM({}, t_at + t_j);", b));
    e_.line(fmt::format("VSTORE({}, t_to + 2 * t_j, VZIP_LOW(t_even, t_odd));", buffer));
    e_.line(fmt::format("VSTORE({}, t_to + 2 * t_j + {}, VZIP_HIGH(t_even, t_odd));", buffer, width_));
    e_.close();
    e_.open(fmt::format("for (; t_j < {}; ++t_j)", n));
    e_.line(fmt::format("STORE({}, t_to + 2 * t_j, {}[t_at + t_j]);", buffer, a));
    e_.line(fmt::format("STORE({}, t_to + 2 * t_j + 1, {}[t_at + t_j]);", buffer, b));
    e_.close();
    e_.close();
  }

  Emitter e_;
  const LowerInput& in_;
  const std::vector<StepDim>& dims_;
  const Shape& domain_;
  std::map<int, int64_t> lanes_;  // along each dimension
  std::vector<Axis> outer_;
  Axis inner_;
  int64_t width_ = widest;
  std::vector<RowLoad> row_loads_;
  std::vector<LoadSite> direct_;
};

}  // namespace

std::optional<LoweredKernel> pairs_as_loop(const LowerInput& in, const std::vector<StepDim>& dims, int64_t chunk) {
  return Pairs(in, dims).as_loop(chunk);
}

}  // namespace heddle
