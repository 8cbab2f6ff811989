// KernelFacts: what a kernel of a graph does, beside its measured time: which ops it computes, how many bytes it must
// move, how many operations it takes. core/inspect/traffic.h counts them. Thread safety: plain value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
  bool same_as(const KernelFacts& other) const;
};

}  // namespace heddle
