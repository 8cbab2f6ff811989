// The roofline as a picture: every measured kernel under the roofs that were measured with it.
//
// Purpose: `heddle bench --plot FILE.svg`. Horizontal: operations per byte of least traffic; vertical: operations per
// second; both logarithmic. Rows without operations are left out. Invariants: the SVG needs nothing else: no fonts,
// scripts or images from outside. Thread safety: pure function.
#pragma once

#include <string>
#include <vector>

#include "bench/run.h"

namespace heddle::bench {

// Roofs of one device, in operations and bytes per second; 0: not measured.
struct Roofs {
  std::string device;  // "opencl:0 (name)"
  double flops = 0, copy = 0, read = 0;
};

std::string roofline_svg(const std::vector<Row>& rows, const std::vector<Roofs>& roofs, const std::string& title);

}  // namespace heddle::bench
