// Elementwise groups that find an element's place by divisions of its index (gradients of pools, repeats, pixel
// shuffles): along such a dimension a lane takes as many neighbours as the divisor says, so that all indices are sums.
// What several of them read is read once, and what lies outside a window is known when the text is written.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "heddle/core/base/integers.h"
#include "heddle/core/lower/finish.h"
#include "heddle/core/lower/lower_elementwise.h"

namespace heddle {

namespace {

constexpr int64_t longest_step = 8, most_elements = 16;  // of a lane, that its values stay in registers
// Of all forms of a lane's work. Gradients of ordinary pools have 90; that of a maximum over 2 x 2 x 2 places of a
// small tensor, in steps of its rows' 7 and of 2, had 2,600, which PoCL compiled for a minute.
constexpr int64_t most_lines = 400;

// The wishes of what lies inside borders, too: with steps its indices are sums.
std::map<int, int64_t> wanted_steps(const Emitter& e, const LowerInput& in) {
  if (!e.met_border()) return e.wanted_steps();
  Emitter inside(in.scheduled, in.group, 12);
  inside.names.assign(static_cast<size_t>(Shape::max_rank), "t_d");
  for (int d = 0; d < in.group.domain.rank(); ++d) inside.run_in_steps(d, {1, 0, in.group.domain[d]});
  emit_elementwise(inside);
  return inside.wanted_steps();
}

}  // namespace

std::vector<StepDim> find_steps(const Emitter& e, const LowerInput& in) {
  const Shape& domain = in.group.domain;
  const std::map<int, int64_t> wishes = wanted_steps(e, in);
  std::vector<StepDim> found;
  int64_t elements = 1;
  for (auto wish = wishes.rbegin(); wish != wishes.rend(); ++wish) {
    const auto [variable, step] = *wish;
    if (step > longest_step || step > domain[variable] || elements * step > most_elements) continue;
    elements *= step;
    found.insert(found.begin(), {variable, step, domain[variable]});
  }
  return found;
}

namespace {

class Steps {
 public:
  Steps(Emitter& e, const LowerInput& in, const std::vector<StepDim>& dims) : e_(e), in_(in), dims_(dims) {}

  // Every form of a lane's work, printed once: the axes of the loops over lanes follow from it.
  struct Learnt {
    std::vector<Axis> axes;
    int64_t lines = 0;
  };
  Learnt learn() {
    e_.names.assign(static_cast<size_t>(Shape::max_rank), "t_d");
    Shape domain;
    for (int d = 0; d < in_.group.domain.rank(); ++d) {
      const auto found =
          std::find_if(dims_.begin(), dims_.end(), [&](const StepDim& dim) { return dim.variable == d; });
      domain.push_back(found == dims_.end() ? in_.group.domain[d] : ceil_div(found->size, found->step));
    }
    std::vector<bool> edge(dims_.size(), false);
    for (bool more = true; more;) {
      e_.open("");
      elements(edge);
      e_.close();
      more = false;
      for (size_t d = 0; d < dims_.size() && !more; ++d) {
        if (dims_[d].size % dims_[d].step == 0) continue;
        more = !edge[d];
        edge[d] = more;
      }
    }
    Learnt learnt{merge_axes(e_, domain, 0, "t_x"), 0};
    const std::string text = e_.take_text();
    learnt.lines = std::count(text.begin(), text.end(), '\n');
    e_.start_over();
    return learnt;
  }

  int64_t elements_of_lane() const {
    int64_t n = 1;
    for (const StepDim& dim : dims_) n *= dim.step;
    return n;
  }

  LoweredKernel as_loop(std::vector<Axis> axes, int64_t chunk) {
    const Axis inner = axes.empty() ? Axis{0, 1} : axes.back();
    if (!axes.empty()) axes.pop_back();
    inner_ = inner.size > 1 ? inner.variable : -1;
    name_ = inner_ < 0 ? "t_once" : e_.names[inner.variable];
    const RowUnits units = row_units(extent(axes), inner.size, std::max<int64_t>(256, chunk / elements_of_lane()));
    e_.tell_factors(inner_);
    open_units(e_, units);
    e_.open("for (int t_row = t_first; t_row < t_last; ++t_row)");
    split_index(e_, axes, "t_row");
    rows(std::vector<bool>(dims_.size(), false), 0, inner.size >= 128);
    e_.close();
    e_.close();
    LoweredKernel kernel = finish(e_, in_, {1, 1, 1}, units.units);
    kernel.parallel = false;  // joined with others it would lose its steps
    return kernel;
  }

 private:
  bool has_edge(const StepDim& dim) const { return dim.size % dim.step != 0; }

  // All elements of a lane; `edge`: along which dimensions it is the last one, with fewer of them.
  void elements(const std::vector<bool>& edge, size_t d = 0) {
    if (d == dims_.size()) return emit_elementwise(e_);
    const StepDim& dim = dims_[d];
    const int64_t whole = dim.size / dim.step;
    for (int64_t i = 0; i < (edge[d] ? dim.size % dim.step : dim.step); ++i) {
      if (edge[d])
        e_.run_in_steps(dim.variable, {0, whole * dim.step + i, 1});
      else
        e_.run_in_steps(dim.variable, {dim.step, i, whole});
      elements(edge, d + 1);
    }
  }

  // Lanes [t_low, t_high) of a row, which lies at the edge of some dimensions or does not.
  void rows(std::vector<bool> edge, size_t d, bool is_long) {
    while (d < dims_.size() && (!has_edge(dims_[d]) || dims_[d].variable == inner_)) ++d;
    if (d == dims_.size()) return lanes(edge, is_long);
    e_.open(fmt::format("if ({} < {})", e_.names[dims_[d].variable], e_.constant(dims_[d].size / dims_[d].step)));
    rows(edge, d + 1, is_long);
    e_.close();
    edge[d] = true;
    e_.open("else");
    rows(edge, d + 1, is_long);
    e_.close();
  }

  void lanes(std::vector<bool> edge, bool is_long) {
    const auto along = std::find_if(dims_.begin(), dims_.end(),
                                    [&](const StepDim& dim) { return dim.variable == inner_ && has_edge(dim); });
    std::string end = "t_high";
    if (along != dims_.end()) end = e_.local(fmt::format("min(t_high, {})", e_.constant(along->size / along->step)));
    e_.open(fmt::format("{} for (int {} = t_low; {} < {}; ++{})", is_long ? "VLOOP_LONG" : "VLOOP", name_, name_, end,
                        name_));
    elements(edge);
    e_.close();
    if (along == dims_.end()) return;
    edge[static_cast<size_t>(along - dims_.begin())] = true;
    e_.open(fmt::format("if ({} < t_high)", end));
    elements(edge);
    e_.close();
  }

  Emitter& e_;
  const LowerInput& in_;
  const std::vector<StepDim>& dims_;
  int inner_ = -1;
  std::string name_;
};

}  // namespace

LoweredKernel steps_as_loop(const LowerInput& in, const std::vector<StepDim>& dims, int64_t chunk) {
  // Without steps along an outer dimension its indices are the same for all lanes of a row.
  for (std::vector<StepDim> kept = dims;; kept.erase(kept.begin())) {
    Emitter e(in.scheduled, in.group, 12);
    Steps steps(e, in, kept);
    const Steps::Learnt learnt = steps.learn();
    if (kept.size() == 1 || learnt.lines <= most_lines) return steps.as_loop(learnt.axes, chunk);
  }
}

}  // namespace heddle
