#include "heddle/distributed/forecast/mesh_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"

namespace heddle::distributed {
namespace {

constexpr std::array known_axes = {"dp", "tp", "pp", "cp"};
constexpr int64_t most_simulated = 1 << 22;  // blocks or microbatches, times places of a pipeline

// The product of the sizes, of a text of the form that Mesh::parse() reads; 1 where it is of another, which says so.
int64_t ranks_of(const std::string& text) {
  int64_t ranks = 1;
  for (size_t at = text.find('='); at != std::string::npos; at = text.find('=', at + 1)) {
    const size_t end = std::min(text.find(',', at), text.size());
    const auto size = parse_number<int64_t>(std::string_view(text).substr(at + 1, end - at - 1));
    if (!size || *size < 1) return 1;
    if (*size > most_ranks || (ranks *= *size) > most_ranks)
      throw ValueError(fmt::format("[mesh] {} has more than {} ranks", text, most_ranks));
  }
  return ranks;
}

int64_t size_or_one(const Mesh& mesh, const char* name) {
  for (const MeshAxis& axis : mesh.axes())
    if (axis.name == name) return axis.size;
  return 1;
}

void check_axes(const Mesh& mesh) {
  for (const MeshAxis& axis : mesh.axes()) {
    if (std::find(known_axes.begin(), known_axes.end(), axis.name) == known_axes.end())
      throw ValueError(fmt::format("[mesh] {}: a step is shared over dp, tp, pp and cp; there is no axis {}",
                                   mesh.str(), axis.name));
  }
}

void check_model(const StepLayers& step, const MeshShare& s, int64_t chunks) {
  const std::string mesh = s.mesh.str();
  if (s.tp > 1 && step.heads == 0)
    throw ValueError(fmt::format("[plan] {}: tp splits transformers; {} is none", mesh, step.name));
  if (s.tp > 1 && (step.heads % s.tp != 0 || step.key_heads % s.tp != 0))
    throw ValueError(fmt::format("[plan] {}: tp={} does not divide the {} heads ({} of keys) of {}", mesh, s.tp,
                                 step.heads, step.key_heads, step.name));
  if (s.cp > 1 && step.sequence == 0)
    throw ValueError(fmt::format("[plan] {}: cp splits transformers; {} is none", mesh, step.name));
  if (s.cp > 1 && step.sequence % s.cp != 0)
    throw ValueError(
        fmt::format("[plan] {}: cp={} does not divide the {} positions of {}", mesh, s.cp, step.sequence, step.name));
  if (step.splits_rows_between && s.tp > 1 && step.sequence % (s.tp * s.cp) != 0)
    throw ValueError(fmt::format("[plan] {}: sequence parallelism: {} ranks do not divide the {} positions of {}", mesh,
                                 s.tp * s.cp, step.sequence, step.name));
  const auto blocks = static_cast<int64_t>(step.blocks.size());
  if (chunks < 1) throw ValueError(fmt::format("[plan] --chunks is {}; it must be at least 1", chunks));
  if (s.pp > blocks || chunks > blocks / s.pp)
    throw ValueError(fmt::format("[plan] {}: pp={} of {} chunk{} needs {} blocks of layers; {} has {}", mesh, s.pp,
                                 chunks, chunks == 1 ? "" : "s", s.pp * chunks, step.name, blocks));
  if (s.pp * chunks > most_simulated / blocks)
    throw ValueError(fmt::format("[plan] {}: {} blocks of layers on {} places are too many to simulate", mesh, blocks,
                                 s.pp * chunks));
}

void divide_batch(MeshShare& s, const ForecastOptions& o) {
  if (o.batch < 1) throw ValueError(fmt::format("[plan] --batch is {}; it must be at least 1", o.batch));
  if (o.batch % s.dp != 0)
    throw ValueError(fmt::format("[plan] {}: a batch of {} is no multiple of dp={}", s.mesh.str(), o.batch, s.dp));
  const int64_t own = o.batch / s.dp;
  if (o.microbatches < 0)
    throw ValueError(fmt::format("[plan] --microbatches is {}; it must be at least 1", o.microbatches));
  s.microbatches = o.microbatches > 0 ? o.microbatches : s.pp > 1 ? own : 1;
  if (own % s.microbatches != 0)
    throw ValueError(
        fmt::format("[plan] {} microbatches do not divide the {} examples of a rank (a batch of {} over "
                    "dp={})",
                    s.microbatches, own, o.batch, s.dp));
  if (s.microbatches > most_simulated / (s.pp * o.chunks))
    throw ValueError(fmt::format("[plan] {}: {} microbatches are too many to simulate; --microbatches says fewer",
                                 s.mesh.str(), s.microbatches));
  s.rank.examples = own / s.microbatches;
}

}  // namespace

Mesh parse_mesh(const std::string& text) {
  Mesh mesh = Mesh::parse(text, static_cast<int>(ranks_of(text)));
  check_axes(mesh);
  return mesh;
}

MeshShare share_of(const StepLayers& step, const Links& links, const ForecastOptions& options) {
  MeshShare s{.mesh = parse_mesh(options.mesh)};
  s.dp = size_or_one(s.mesh, "dp");
  s.tp = s.rank.tp = size_or_one(s.mesh, "tp");
  s.pp = size_or_one(s.mesh, "pp");
  s.cp = s.rank.cp = size_or_one(s.mesh, "cp");
  check_model(step, s, options.chunks);
  divide_batch(s, options);
  const auto level = [&](const std::vector<std::string>& names) { return links.level_of(s.mesh, names); };
  s.rank.tp_level = level({"tp"});
  s.rank.cp_level = level({"cp"});
  s.pp_level = level({"pp"});
  s.sharers = {.ranks = s.dp * s.cp, .level = level({"dp", "cp"})};
  return s;
}

}  // namespace heddle::distributed
