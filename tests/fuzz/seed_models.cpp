// Models as others make them.
#include <string>
#include <vector>

#include "heddle/io/write_model_parts.h"
#include "tests/fuzz/seed_files.h"

namespace heddle::fuzz {

Seeds model_parts_seeds() {
  const std::vector<uint8_t> weights(70, 3);
  const std::vector<ModelPart> several = {
      {.name = "graph", .kind = PartKind::graph, .bytes = bytes_of("{}")},
      {.name = "w", .kind = PartKind::weights, .bytes = weights, .attributes = {{"dtype", "f32"}}},
      {.name = "i", .kind = PartKind::image, .bytes = bytes_of("code"), .target = "cuda:sm_80", .bucket = "N=8"}};
  Seeds seeds;
  for (const std::vector<uint8_t>& file : {model_parts_bytes(several, {{"model", "net"}}), model_parts_bytes({})})
    seeds.emplace_back(file.begin(), file.end());
  return seeds;
}

}  // namespace heddle::fuzz
