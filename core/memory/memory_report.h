// The memory report of a graph: who needs how many bytes, before anything runs.
//
// Purpose: `heddle plan`, plan_pending() (core/compile/dump.h: before anything runs) and Compiled::memory(). What is
// held before the graph is told apart by what the graph does with it; temporaries by where they came from, at the
// moment when most of them are alive. Invariants: arena >= lower_bound; activations + gradients + workspace =
// lower_bound. Thread safety: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace heddle {

struct Capture;
struct Plan;

struct MemoryReport {
  // Held before the graph, in bytes.
  uint64_t parameters = 0;       // leaves that gradients flow into
  uint64_t optimizer_state = 0;  // other leaves that the graph updates
  uint64_t inputs = 0;           // the rest: batches, constants
  // Temporaries at the fullest moment.
  uint64_t activations = 0;  // values that gradients flow through
  uint64_t gradients = 0;    // other recorded values
  uint64_t workspace = 0;    // made by the planner: partial sums, copies
  uint64_t lower_bound = 0;  // all of them
  uint64_t arena = 0;        // what is allocated for temporaries
  uint64_t all_values = 0;   // what storing every value of the graph would take
  uint64_t offloaded = 0;    // page-locked host memory for values that wait there
  uint64_t outputs = 0;      // values that outlive the graph
  uint64_t measured =
      0;  // most that the device held in all, other tensors included, when this graph was submitted; 0: not yet
  size_t kernels = 0;  // launches, before those that share a text are spread over blocks of memory
  // Held before, outputs and arena together.
  uint64_t peak() const { return parameters + optimizer_state + inputs + outputs + arena; }
  std::string str() const;
};

MemoryReport make_memory_report(const Capture& captured, const Plan& planned);

}  // namespace heddle
