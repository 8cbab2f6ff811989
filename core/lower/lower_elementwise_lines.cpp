// Rows of elementwise groups as whole lines past the caches: in blocks that are computed into arrays, upwards or
// downwards, and each part of a joined row by itself.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/lower/lower_elementwise.h"
#include "heddle/core/op/attrs.h"

namespace heddle {

void declare_streamed(Emitter& e, int64_t count) {
  int number = 0;
  for (const Member& member : e.group().members) {
    if (!member.stored || !e.can_stream(member.node)) continue;
    e.line(fmt::format("ARRAY({}, t_line{}, {});", e.type_of(e.graph().nodes[member.node].dtype), number++, count));
  }
}

void write_streamed(Emitter& e, int64_t count) {
  const std::string at = e.linear_index(e.group().domain, 0);
  for (const Emitter::Streamed& s : e.streamed())
    e.line(fmt::format("STREAM({}, {}, {}, {});", s.buffer, at, s.array, count));
}

bool reads_backwards(const Emitter& e, int variable) {
  const auto runs = [&](int64_t step) {
    return std::any_of(e.loads().begin(), e.loads().end(), [&](const LoadSite& load) {
      return load.index.affine() && load.index.coefficient(variable) == step;
    });
  };
  return runs(-1) && !runs(1);
}

void stream_row(Emitter& e, const std::string& i, const Stretch& part, int64_t block, bool aligned_rows,
                bool backwards) {
  const std::string edge = backwards ? "t_end" : "t_at";
  e.line(backwards ? fmt::format("int t_end = {};", part.high) : fmt::format("int t_at = {};", part.low));
  e.open(backwards ? fmt::format("while (t_end > {})", part.low) : fmt::format("while (t_at < {})", part.high));
  if (!aligned_rows) {
    e.line("int t_skew;");
    e.open("");
    e.line(fmt::format("int {} = {};", i, edge));
    e.line(fmt::format("t_skew = ({}) & {};", e.linear_index(e.group().domain, 0), streamed_line - 1));
    e.close();
  }
  const std::string shorter = backwards ? "t_skew" : fmt::format("{} - t_skew", streamed_line);
  e.line(fmt::format("int t_n = min({}, {});", backwards ? "t_end - " + part.low : part.high + " - t_at",
                     aligned_rows ? std::to_string(block) : fmt::format("t_skew == 0 ? {} : {}", block, shorter)));
  if (backwards) e.line("int t_at = t_end - t_n;");
  e.open(fmt::format("if (t_n == {})", block));
  const std::string place = backwards ? fmt::format("{} - t_l", block - 1) : "t_l";
  e.stream_to(place);
  e.open(fmt::format("VLOOP_LONG for (int t_l = 0; t_l < {}; ++t_l)", block));
  e.line(fmt::format("int {} = t_at + {};", i, place));
  emit_elementwise(e);
  e.close();
  e.stream_to("");
  e.line(fmt::format("int {} = t_at;", i));
  write_streamed(e, block);
  e.close();
  e.open("else");
  e.open(fmt::format("VLOOP for (int t_l = 0; t_l < t_n; ++t_l)"));
  e.line(fmt::format("int {} = t_at + t_l;", i));
  emit_elementwise(e);
  e.close();
  e.close();
  e.line(backwards ? "t_end -= t_n;" : "t_at += t_n;");
  e.close();
}

namespace {

// Of a concatenation along its last dimension, of `size`, that a vertex is or reads through movement alone: where its
// parts begin, and the end. Whether that dimension is also the kernel's innermost one shows when indices are printed.
std::vector<int64_t> parts_below(const Graph& graph, int id, int64_t size) {
  constexpr size_t most_parts = 4;
  constexpr int64_t least_part = 2 * streamed_line;
  const IrNode& node = graph.nodes[static_cast<size_t>(id)];
  const int last = node.shape.rank() - 1;
  if (node.op == &ops::concat_op && axis_of(node.attrs) == last && node.shape[last] == size &&
      node.inputs.size() <= most_parts) {
    std::vector<int64_t> edges{0};
    for (const int input : node.inputs) {
      const int64_t part = graph.nodes[static_cast<size_t>(input)].shape[last];
      if (part < least_part) return {};
      edges.push_back(edges.back() + part);
    }
    return edges;
  }
  for (const int input : node.inputs) {
    if (graph.nodes[static_cast<size_t>(input)].op->kind != OpKind::movement) continue;
    if (std::vector<int64_t> edges = parts_below(graph, input, size); !edges.empty()) return edges;
  }
  return {};
}

}  // namespace

std::vector<int64_t> find_parts(const LowerInput& in) {
  std::vector<int64_t> edges;
  const Shape& domain = in.group.domain;
  if (domain.rank() == 0) return edges;
  const auto look = [&](int id) {
    if (edges.empty()) edges = parts_below(in.scheduled.graph, id, domain[domain.rank() - 1]);
  };
  for (const Member& member : in.group.members) look(member.node);
  for (const int id : in.group.inlined) look(id);
  return edges;
}

}  // namespace heddle
