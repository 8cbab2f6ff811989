// Emitter: prints the computation of graph vertices as dialect statements.
//
// Purpose: a kernel skeleton (lower_*.cpp) opens loops over the group's domain and asks for values; the emitter walks
// down the graph from there, through movement ops and inlined vertices to memory, and prints one `t_v = ...;` per
// vertex and index. The same emitter serves elementwise and reduce groups and matmul epilogues. Its parts: lines and
// known variables (kernel_text.h), numbers of the launch (launch_constants.h), bindings (kernel_buffers.h), f16 and
// bf16 values (half_values.h), helper functions in the dialect (emit_text.h); pad, concat, take and random bits are in
// emit_irregular.cpp, sections in emit_section.cpp. Invariants: all names
// it makes start with `t_`. The text depends on structure and hardly on sizes: sizes, strides and offsets become launch
// constants (literals only when the 32 constants are used up). Where sizes vary it does not depend on them at all.
// Thread safety: one emitter is used by one thread.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/dialect/types.h"
#include "heddle/core/ir/lowered_kernel.h"
#include "heddle/core/ir/uses.h"
#include "heddle/core/lower/half_values.h"
#include "heddle/core/lower/kernel_buffers.h"
#include "heddle/core/lower/kernel_lines.h"
#include "heddle/core/lower/launch_constants.h"
#include "heddle/core/lower/section.h"

namespace heddle {

struct UserRow;

// A read of memory at an affine or opaque index.
struct LoadSite {
  Index index;  // in elements of the buffer
  SlotRef slot;
  DType dtype = DType::f32;
  bool moves = false;  // its offset may be another one at the next launch
  bool operator==(const LoadSite&) const = default;
};

class Emitter final : public IndexPrinter {
 public:
  // `reserved_constants`: constants the skeleton adds itself later. `joined`: for a launch over many joined rows; every
  // number that may differ between them becomes a local that is read from the joined row's row, and every buffer starts
  // at a base. `section`: what of the group is printed; null: all of it.
  Emitter(const ScheduledGraph& scheduled, const Group& group, size_t reserved_constants, bool joined = false,
          const Section* section = nullptr);
  bool joined() const { return joined_; }
  // Whether the text must not depend on sizes (core/ir/dynamic_sizes.h): each place has a number of its own, also where
  // it is 0 or 1.
  bool varying() const { return varying_; }
  // Whether a number became text because the constants were used up.
  bool overflowed() const { return constants_.overflowed(); }
  // The number of this work group (of its joined row), as an int expression.
  std::string group_index() const { return joined_ ? "t_group" : "CAST(int, GROUP_LINEAR)"; }

  // ---- text
  void line(const std::string& text) { text_.line(text); }
  void open(const std::string& head) {
    line(head + " {");
    push_scope();
  }
  void close() {
    pop_scope();
    line("}");
  }
  void push_scope() { text_.push_scope(); }
  void pop_scope() { text_.pop_scope(); }
  std::string take_text() { return text_.take(); }
  void start_over();  // forgets text, scopes, buffers and constants, keeps what was learnt about indices
  // Until start_over() a value that is read through two paths is computed for each: whichever comes first when the
  // kernel is written, its indices were seen.
  void learn_every_path() { every_path_ = true; }

  // ---- values
  // The variable (or literal) that holds vertex `id` at the end of `path`.
  std::string value(int id, const Path& path);
  // A member's value, computed from its inputs at the group's own index.
  std::string member_value(const Member& member);
  // Tells the emitter the variable of something the skeleton computes: a reduction's result, a matmul's accumulator.
  void bind(int id, const std::string& variable) { bound_[id] = as_stored(id, variable); }
  // The same of what value() gave before.
  void bind_known(int id, const std::string& variable) { bound_[id] = variable; }
  // Stores `variable`, vertex `id`'s value, at row-major index `index` of its own buffer.
  void store(int id, const std::string& variable, const std::string& index);
  // Row-major linear index over variables [first, first + shape.rank()), of an element, from the section's first on.
  std::string linear_index(const Shape& shape, int first);

  // ---- sections (core/lower/section.h)
  // The path at the section's own indices.
  Path in_section(Path path) const;
  // In a section: whether the member copies what a take or gather picks.
  bool copies_pick(const Member& member) const;
  // Elements between the first that is bound of the vertex's memory and the one that linear_index() calls 0.
  int64_t section_offset(int id) const;

  // ---- indices
  std::string print(const Index& index) override;
  std::string constant(int64_t value) override { return constants_.integer(value); }
  std::string local(const std::string& expression) override;
  // Of an elementwise group's own dimensions, where the text may depend on sizes.
  bool knows_extents() const;
  int64_t extent(int variable) const override;
  void wants_steps(int variable, int64_t step) override { wanted_steps_.try_emplace(variable, step); }
  // Whether a border of a pad was met that takes a comparison: what it guards has no index that divides.
  bool met_border() const { return met_border_; }
  // The steps in which variables should run (core/lower/lower_elementwise_steps.cpp); the first wish for each counts.
  const std::map<int, int64_t>& wanted_steps() const { return wanted_steps_; }
  // From now on dimension `variable` of the group is at step * variable + start, and the variable takes `extent`
  // values; with a step of 0: none, the dimension is at `start`.
  struct Steps {
    int64_t step = 1, start = 0, extent = 1;
  };
  void run_in_steps(int variable, Steps steps) { steps_[variable] = steps; }
  // Whether the index is that of a dimension of `size` which runs stretch by stretch, over all of it: then all
  // stretches together read what one loop does, by which kernels were put in order.
  bool runs_over(const Index& index, int64_t size) const;
  // Small factors of that variable, and small distances from one address to another, are text: a compiler that
  // vectorises must know them.
  void tell_factors(int variable) { told_ = variable; }
  // Names of the domain's variables; an empty name means the variable was merged into the one after it.
  std::vector<std::string> names;
  // Affine parts of all indices printed so far: which neighbouring variables may be merged follows from them.
  const std::vector<Index>& printed() const { return printed_; }
  // While set, `variable` is the sum of two ints: what a loop over lanes starts from, and the lane. Elements are then
  // indexed by a sum of two unsigned numbers, one of which does not change with the lane: loops vectorise without
  // asking whether the sum of ints overflows.
  struct LaneSplit {
    int variable = -1;
    std::string base, lane;
  };
  void split_lanes(LaneSplit split) { split_ = std::move(split); }
  // The index of an element of a buffer: print(), or the form above.
  std::string print_element(const Index& index);
  // Element loads with unit stride in a variable, and with some stride in a variable from `inner` on if that is given:
  // how many.
  int unit_stride_loads(int variable, int inner = -1) const;
  // All loads printed so far.
  const std::vector<LoadSite>& loads() const { return loads_; }
  // Of those, from number `first` on, the ones that `holds` is true of, each once.
  template <class Holds>
  std::vector<LoadSite> distinct_loads(const Holds& holds, size_t first = 0) const {
    std::vector<LoadSite> found;
    for (size_t i = first; i < loads_.size(); ++i) {
      if (holds(loads_[i]) && std::find(found.begin(), found.end(), loads_[i]) == found.end())
        found.push_back(loads_[i]);
    }
    return found;
  }

  // ---- loads and stores through arrays of the skeleton's
  // From now on that load reads `text` (an element of an array that the skeleton fills).
  void stage(const LoadSite& load, const std::string& text);
  // The expression that reads memory there, with the names that the indices have now.
  std::string load_expression(const LoadSite& load);
  // Arrays of `count`, "t_q" and a number from `number` on, for the loads, which read their element `at` from now on;
  // they are filled by each(fill), which calls fill() where the indices of that element are known.
  template <class Each>
  void hold(const std::vector<LoadSite>& loads, size_t number, int64_t count, std::string_view at, const Each& each) {
    if (loads.empty()) return;
    std::vector<std::string> elements;
    for (const LoadSite& load : loads) {
      const std::string array = "t_q" + std::to_string(number + elements.size());
      line(std::string(type_of(load.dtype)) + " " + array + "[" + std::to_string(count) + "];");
      elements.push_back(array + "[" + std::string(at) + "]");
    }
    each([&] {
      for (size_t i = 0; i < loads.size(); ++i) line(elements[i] + " = " + load_expression(loads[i]) + ";");
    });
    for (size_t i = 0; i < loads.size(); ++i) stage(loads[i], elements[i]);
  }
  // The buffer that a load reads.
  std::string buffer_name(const LoadSite& load) {
    return buffers_.name(buffers_.bind(load.slot, load.dtype, Access::read));
  }
  // From now on stores into buffers that the kernel does not read go to element `index` of an array each; "" ends that.
  struct Streamed {
    std::string buffer, array, type;
    size_t bytes = 4;  // of a stored element
  };
  void stream_to(const std::string& index) { stream_index_ = index; }
  // The arrays used since start_over(), and whether a vertex's store would use one.
  const std::vector<Streamed>& streamed() const { return streamed_; }
  bool can_stream(int id) const;
  // The buffer that a vertex's store writes.
  std::string stored_name(int id) {
    return buffers_.name(buffers_.bind(buffers_.location(id), graph().nodes[id].dtype, Access::write));
  }
  // From now on nothing is stored, and of loads at picked places, along `variable` from where it is, `count` elements
  // are asked for instead (WILL_READ); a `variable` of -1 ends that.
  void ask_for_picked(int variable, const std::string& count) {
    asked_variable_ = variable;
    asked_count_ = count;
  }
  // Whether no buffer of the slot was written before start_over().
  bool only_read(SlotRef slot) const { return buffers_.was_only_read(slot); }

  // ---- 16-bit values that are only moved
  // Whether f16 and bf16 values are the whole numbers that their bits are: this kernel moves them and computes nothing
  // with them.
  bool moves_bits() const { return halves_.only_moved(); }
  // The dialect's type of a variable that holds a value of that dtype in this kernel, and a literal of it.
  std::string_view type_of(DType dtype) const;
  std::string literal(double value, DType dtype) const;

  // ---- result
  const std::vector<BufferParam>& buffers() const { return buffers_.buffers(); }
  const std::vector<SlotRef>& slots() const { return buffers_.slots(); }
  const std::vector<ConstParam>& constant_params() const { return constants_.params(); }
  const std::vector<uint32_t>& constant_values() const { return constants_.values(); }
  std::string helpers() const;
  std::string kernel_name() const;

  const Graph& graph() const { return scheduled_.graph; }
  const Group& group() const { return group_; }

 private:
  std::string compute(int id, const Path& path);
  std::string compute_elementwise(int id, const Path& path);
  std::string compute_user(int id, const UserRow& user, const std::vector<std::string>& x);
  std::string compute_pad(int id, const std::vector<Index>& index);
  std::string compute_concat(int id, const std::vector<Index>& index);
  std::string compute_take(int id, const std::vector<Index>& index);
  std::string compute_random(int id, const std::vector<Index>& index);
  std::string compute_full(const IrNode& node);
  std::string compute_iota(int id, const Path& path);
  std::string load(int id, const Path& path);
  Index address(const std::vector<Index>& index, const View& view);
  Index stored_at(int id) const;
  Index from_binding(Index at, SlotRef slot, DType dtype);
  Index picked_row(int id, const std::string& row, int64_t rows);
  std::string if_picked(const std::string& statement) const;
  std::optional<std::pair<int64_t, int64_t>> values_of(const Index& index) const;
  Index in_steps(const Index& index) const;
  std::string factor(int variable, int64_t coefficient);
  std::string distance(int64_t constant);
  bool has_whole_rows() const;
  std::string based(size_t buffer, const std::string& index) const;
  void ask_for(const LoadSite& load);
  std::string declare(DType dtype, const std::string& expression);
  std::string declare_precise(DType dtype, const std::string& expression);
  std::string key(int id, const Path& path);
  // ---- conversions (emit_convert.cpp)
  std::string compute_cast(int id, DType from, const std::string& x);
  // `text`, a value of the vertex before it is stored, as f16 or bf16 hold it where this kernel goes on with it
  // (core/graph/excess_precision.h).
  std::string as_stored(int id, const std::string& text);
  std::string round_to(DType dtype, const std::string& text);

  const ScheduledGraph& scheduled_;
  const Group& group_;
  const Section* section_;
  std::map<int, std::string> picked_;  // by take, whether the row that it reads is bound
  bool joined_, varying_, every_path_ = false;
  KernelLines text_;
  LaunchConstants constants_;
  KernelBuffers buffers_;
  HalfValues halves_;
  std::map<int, std::string> bound_;
  std::vector<Index> printed_;
  std::vector<LoadSite> loads_;
  std::vector<std::pair<LoadSite, std::string>> staged_;
  std::vector<Streamed> streamed_;
  std::string stream_index_;
  LaneSplit split_;
  std::map<int, int64_t> wanted_steps_;
  std::map<int, Steps> steps_;
  int told_ = -1, asked_variable_ = -1;
  std::string asked_count_;
  bool met_border_ = false;
  std::vector<int64_t> anchors_{0};  // constants that others are told the distance from
  // What the text needs besides: casts from floats to integers, by arithmetic type and dtype, and helper functions.
  std::set<std::pair<DType, DType>> saturating_;
  bool uses_philox_ = false, uses_round_ = false;
};

}  // namespace heddle
