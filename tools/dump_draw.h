// A planned step as a drawing: Graphviz's dot, and one HTML file.
//
// Purpose: `heddle dump --format dot|html`. The HTML needs no network: schedule with the source of each kernel, the
// arena as a picture (time against address; each rectangle says what it is when the pointer rests on it), the graph
// before and after the passes. Thread safety: pure.
#pragma once

#include <string>

#include "heddle/core/run/full_plan.h"

namespace heddle::tools {

// Kernels as boxes, the values between them as arrows with their bytes.
std::string kernels_dot(const FullPlan& full, const std::string& title);
// Vertices as boxes.
std::string graph_dot(const Graph& graph, const std::string& title);
std::string step_html(const FullPlan& full, const std::string& title);

// "%12 = matmul (32, 128) f32".
std::string vertex_text(const Graph& graph, int id);
// "1.31 MB", "512 B".
std::string bytes_text(double bytes);

}  // namespace heddle::tools
