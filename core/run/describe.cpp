#include "heddle/core/run/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "heddle/core/run/planner.h"

namespace heddle {
namespace {

// A vertex without numbers of vertices: "%7 = add (2, 3) f32 <- matmul, expand".
std::string lines_of(const Graph& graph) {
  std::string text;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const IrNode& node = graph.nodes[i];
    text += fmt::format("%{} = {} {} {}", i, node.op->name, node.shape.str(), name_of(node.dtype));
    if (!node.attrs.ints.empty()) text += fmt::format(" [{}]", fmt::join(node.attrs.ints, ", "));
    if (node.op->kind == OpKind::constant) text += fmt::format(" {}", node.attrs.real);
    for (size_t n = 0; n < node.inputs.size(); ++n)
      text += fmt::format("{}{}", n == 0 ? " <- " : ", ", graph.nodes[static_cast<size_t>(node.inputs[n])].op->name);
    text += '\n';
  }
  return text;
}

std::string lines_of(const std::vector<LoweredKernel>& kernels) {
  std::string text;
  for (const LoweredKernel& kernel : kernels) {
    const std::string sizes = kernel.joined.empty() ? fmt::format("{} groups", kernel.groups[0] * kernel.groups[1])
                                                    : fmt::format("{} joined rows", kernel.joined.size());
    text += fmt::format("kernel = {}, {}\n", kernel.source.name, sizes);
  }
  return text;
}

struct Line {
  std::string_view whole, compared;
};

std::vector<Line> split(const std::string& text) {
  std::vector<Line> lines;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view whole = std::string_view(text).substr(start, end - start);
    const size_t mark = whole.find(" = ");
    lines.push_back({whole, mark == std::string_view::npos ? whole : whole.substr(mark + 3)});
    start = end + 1;
  }
  return lines;
}

// Longest common subsequence of what is left between equal heads and tails; very long middles are compared as sets.
std::string diff(std::span<const Line> a, std::span<const Line> b) {
  std::string text;
  constexpr size_t most = 4'000'000;
  if (a.size() * b.size() > most) {
    std::map<std::string_view, int> count;
    for (const Line& line : b) ++count[line.compared];
    for (const Line& line : a) {
      if (--count[line.compared] < 0) text += fmt::format("    - {}\n", line.whole);
    }
    for (const Line& line : b) {
      if (--count[line.compared] >= 0) text += fmt::format("    + {}\n", line.whole);
    }
    return text;
  }
  const size_t width = b.size() + 1;
  std::vector<int> common((a.size() + 1) * width, 0);  // of the rests from (i, j) on
  for (size_t i = a.size(); i-- > 0;) {
    for (size_t j = b.size(); j-- > 0;) {
      common[i * width + j] = a[i].compared == b[j].compared
                                  ? common[(i + 1) * width + j + 1] + 1
                                  : std::max(common[(i + 1) * width + j], common[i * width + j + 1]);
    }
  }
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    if (i < a.size() && j < b.size() && a[i].compared == b[j].compared) {
      ++i, ++j;
    } else if (j == b.size() || (i < a.size() && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      text += fmt::format("    - {}\n", a[i++].whole);
    } else {
      text += fmt::format("    + {}\n", b[j++].whole);
    }
  }
  return text;
}

}  // namespace

std::string diff_lines(const std::string& before, const std::string& after) {
  const std::vector<Line> a = split(before), b = split(after);
  size_t head = 0, tail = 0;
  while (head < a.size() && head < b.size() && a[head].compared == b[head].compared) ++head;
  while (tail < a.size() - head && tail < b.size() - head &&
         a[a.size() - 1 - tail].compared == b[b.size() - 1 - tail].compared)
    ++tail;
  return diff(std::span(a).subspan(head, a.size() - head - tail), std::span(b).subspan(head, b.size() - head - tail));
}

std::string describe_passes(const Graph& imported, const Caps& caps, PassSet passes) {
  std::string text = fmt::format("as recorded: {} vertices\n", imported.nodes.size());
  PassSet on = PassSet::required();
  Graph graph = prepare(imported, caps, true, on);
  std::string before = lines_of(graph);
  size_t count = graph.nodes.size();
  const auto show = [&](const PassInfo& info, size_t now, const char* what, const std::string& after) {
    if (after == before) return;
    text += fmt::format("{}: {} -> {} {} ({})\n{}", info.name, count, now, what, info.doc, diff_lines(before, after));
    before = after;
    count = now;
  };
  for (const PassInfo& info : all_passes()) {
    if (info.stage == PassStage::kernels || info.required || !passes.has(info.pass)) continue;
    on = on.with(info.pass);
    graph = prepare(imported, caps, true, on);
    show(info, graph.nodes.size(), "vertices", lines_of(graph));
  }
  if (caps.target == Target::none) return text;
  std::vector<LoweredKernel> kernels = make_plan(graph, caps, true, on).kernels;
  before = lines_of(kernels);
  count = kernels.size();
  text += fmt::format("one vertex a kernel: {} kernels\n", count);
  for (const PassInfo& info : all_passes()) {
    if (info.stage != PassStage::kernels || !passes.has(info.pass)) continue;
    on = on.with(info.pass);
    kernels = make_plan(graph, caps, true, on).kernels;
    show(info, kernels.size(), "kernels", lines_of(kernels));
  }
  return text + fmt::format("in all: {} vertices, {} kernels\n", graph.nodes.size(), kernels.size());
}

}  // namespace heddle
