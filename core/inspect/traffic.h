// What a kernel of a planned graph does: which ops it computes, how many bytes it must move, how many operations it
// takes.
//
// Purpose: profiles put these beside measured times. Counted from the graph, not from the text: bytes are what is read
// and written at least once (each distinct element that a kernel reads, once, and each element that it stores), so a
// kernel that reads an operand several times through a cache is charged once. Operations: 2 M N K of a product, the
// direct sum of a convolution, the two products of attention, one per element of a reduction, and for an elementwise
// row the cost that the op table gives it (1 an addition, 4 a division, 10 and more a transcendental). Thread safety:
// pure functions of their input.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/lower/lower.h"

namespace heddle {

struct KernelFacts {
  std::string name;     // of the kernel's source; "copy" for the device's copy command
  std::string ops;      // what its group computes, in order: "matmul add relu"; of n groups in one launch "n x (...)"
  uint64_t source = 0;  // hash of the source; 0: none
  double read_bytes = 0, written_bytes = 0;
  double flops = 0;
  std::vector<std::string> lines;  // the user's lines that it came from: "train.cpp:42"
  std::string launch;  // id of the launch (core/inspect/saved_launch.h); the first of several that do the same
  double bytes() const { return read_bytes + written_bytes; }
  // Do the same; which launch it is does not matter.
  bool same_as(const KernelFacts& o) const {
    return source == o.source && name == o.name && read_bytes == o.read_bytes && written_bytes == o.written_bytes &&
           flops == o.flops && ops == o.ops && lines == o.lines;
  }
};

// Of every kernel, in order.
std::vector<KernelFacts> kernel_facts(const ScheduledGraph& scheduled, std::span<const LoweredKernel> kernels);

}  // namespace heddle
