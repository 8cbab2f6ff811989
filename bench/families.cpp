// The table of families: a new one is a declaration and a row.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/bench.h"
#include "heddle/core/base/error.h"

namespace heddle::bench {

Family matmul_family();
Family attention_family();
Family conv_family();
Family softmax_family();
Family layernorm_family();
Family reduce_family();
Family sort_family();
Family scan_family();
Family embedding_family();
Family linalg_family();
Family fft_family();
Family elementwise_family();
Family chain_family();
Family transpose_family();
Family gather_family();
Family movement_family();
Family optimizer_family();
Family dispatch_family();
Family copy_family();
Family step_family();
Family infer_family();
Family generate_family();
Family kernel_family();

namespace {

// "unfused" is Heddle's own composition of a fused function, for families that offer it.
const std::vector<std::string>& peer_names() {
  static const std::vector<std::string> names = {
      "unfused",  // Heddle itself, without the fused op that the case is about
#ifdef HEDDLE_PEER_ONEDNN
      "onednn",
#endif
#ifdef HEDDLE_PEER_OPENBLAS
      "openblas",
#endif
#ifdef HEDDLE_PEER_CLBLAST
      "clblast",
#endif
      "cublas",  // opened at run time; takes part on cuda devices that have it
      "unfused",
  };
  return names;
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> table = {
      matmul_family(),   conv_family(),        attention_family(), softmax_family(),   layernorm_family(),
      reduce_family(),   sort_family(),        scan_family(),      embedding_family(), linalg_family(),
      fft_family(),      elementwise_family(), chain_family(),     transpose_family(), gather_family(),
      movement_family(), optimizer_family(),   dispatch_family(),  copy_family(),      step_family(),
      infer_family(),    generate_family(),    kernel_family()};
  return table;
}

const Family& find_family(std::string_view name) {
  std::vector<std::string> known;
  for (const Family& family : families()) {
    if (family.name == name) return family;
    known.push_back(family.name);
  }
  throw ValueError(fmt::format("[bench] unknown benchmark '{}'; known: {}", name, fmt::join(known, ", ")));
}

Case make_case(const Family& family, const std::string& name, DType dtype) {
  if (std::find(family.dtypes.begin(), family.dtypes.end(), dtype) == family.dtypes.end()) {
    std::vector<std::string_view> known;
    for (const DType t : family.dtypes) known.push_back(heddle::name_of(t));
    throw ValueError(fmt::format("[bench] {} has no dtype {}; it has: {}", family.name, heddle::name_of(dtype),
                                 fmt::join(known, ", ")));
  }
  Case c = family.parse(name, dtype);
  c.family = family.name;
  c.name = name;
  c.dtype = dtype;
  // Indices are 32-bit in kernels (docs/design.md).
  if (c.largest_bytes / static_cast<double>(size_of(dtype)) > 2147483647.0) {
    throw ValueError(fmt::format("[bench] {} {}: a tensor of {:.3g} elements; at most 2^31 - 1", family.name, name,
                                 c.largest_bytes / static_cast<double>(size_of(dtype))));
  }
  return c;
}

std::vector<std::string> known_peers() { return peer_names(); }

void check_peers(std::span<const std::string> names) {
  const std::vector<std::string>& known = peer_names();
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw ValueError(fmt::format("[bench] unknown peer '{}'; this build has: {}", name,
                                 known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  }
}

}  // namespace heddle::bench
