// Lowering of elementwise work: groups of it, and the epilogues of hand-written bodies; and what its files share.
//
// Invariants: an emitter here has learnt its indices, and its axes are merged. Thread safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heddle/core/lower/axes.h"
#include "heddle/core/lower/lower_input.h"
#include "heddle/core/tiles/generated_tiles.h"

namespace heddle {

LoweredKernel lower_elementwise(const LowerInput& in);

// The text of a hand-written body's EPILOGUE hook: the group's elementwise members computed from the anchor's value,
// and stored. The hook's parameters name the value (`value`) and, for each entry of `blocks`, the row-major index over
// that many dimensions of the anchor's shape, in order. Leaves the emitter with the buffers and constants that the text
// needs.
struct EpilogueBlock {
  int dimensions = 1;
  std::string index;
};
std::string print_epilogue(Emitter& emitter, const LowerInput& in, const std::string& value,
                           const std::vector<EpilogueBlock>& blocks);

// Computes and stores everything at the index that the emitter's variables name.
void emit_elementwise(Emitter& e);
// The arrays that Emitter::stream_to() names, of `count` elements each.
void declare_streamed(Emitter& e, int64_t count);
// Writes them as whole lines, from the index that the variables name on.
void write_streamed(Emitter& e, int64_t count);
// Elements of a cache line of the narrowest type.
constexpr int64_t streamed_line = 64;

// Stretches of the innermost dimension that lie in one part of a concatenation each: where they begin, and the end. A
// loop over one of them reads that part alone, at indices that are sums. Empty: nothing is joined along it, or in so
// many or so short parts that one loop over all is better.
std::vector<int64_t> find_parts(const LowerInput& in);
// From where to where along the innermost dimension a row is computed: names in the text.
struct Stretch {
  std::string low = "t_low", high = "t_high";
};
// Whether what a row reads lies the other way about (a flip). Its results are then written from the last to the first:
// prefetchers of processors follow a stream of reads upwards further than downwards (a flip of 64 MB on an EPYC, one
// thread, in C: 5.0 ms downwards, 3.3 upwards, a copy 3.2), and stores wait for nothing.
bool reads_backwards(const Emitter& e, int variable);
// A stretch of the innermost dimension in blocks that are computed into arrays and written as whole lines; what
// is left over at either end, so that the blocks begin with a line, is stored as usual. `backwards`: the last block
// first, and of a block the last element.
void stream_row(Emitter& e, const std::string& i, const Stretch& part, int64_t block, bool aligned_rows,
                bool backwards);

// How a loop over rows of `inner` elements is cut into units of work: blocks of rows, or stretches of one.
struct RowUnits {
  int64_t rows = 1, inner = 1, stretch = 1, stretches = 1, block = 1, units = 1;
};
// Units of about `wanted` elements.
RowUnits row_units(int64_t rows, int64_t inner, int64_t wanted);
// Opens the block of a group's unit: rows [t_first, t_last), of each the elements [t_low, t_high).
void open_units(Emitter& e, const RowUnits& units);

// Loads that are contiguous along axes[across] and strided along the last axis.
struct Turn {
  size_t across = 0;
  std::vector<LoadSite> loads;
};
// Nothing when every load is contiguous, constant or strided along the last axis whatever the others do.
std::optional<Turn> find_turn(const Emitter& e, const std::vector<Axis>& axes);

// A dimension of the domain along which a lane takes `step` neighbours.
struct StepDim {
  int variable = 0;
  int64_t step = 1, size = 1;
};
// The dimensions whose indices are taken apart, as an emitter has learnt it; as many as a lane has registers for.
std::vector<StepDim> find_steps(const Emitter& e, const LowerInput& in);
// `chunk`: elements of a unit of work.
LoweredKernel steps_as_loop(const LowerInput& in, const std::vector<StepDim>& dims, int64_t chunk);
// The same where lanes read or write two neighbours of short rows, which are taken apart in vector registers; `dims`
// may be empty. Nothing where the group's indices are others.
std::optional<LoweredKernel> pairs_as_loop(const LowerInput& in, const std::vector<StepDim>& dims, int64_t chunk);

LoweredKernel tiled_as_loop(Emitter& e, const LowerInput& in, const std::vector<Axis>& axes, const Turn& turn,
                            Bindings& tunables);
LoweredKernel tiled_as_items(Emitter& e, const LowerInput& in, const std::vector<Axis>& axes, const Turn& turn,
                             Bindings& tunables);

}  // namespace heddle
