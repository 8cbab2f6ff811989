#include "heddle/train/compression/compression.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"

namespace heddle::train {

bool compresses(const Config& config, int ranks) {
  const std::string& kind = config.training.compress;
  if (kind == "none") return false;
  if (ranks == 1) throw ValueError(fmt::format("[train] --compress {}: one rank sends no gradients", kind));
  if (config.training.sharding != "none")
    throw ValueError(
        fmt::format("[train] --compress {} with --sharding {}: gradients that go to their owners are not "
                    "compressed; leave one of them out",
                    kind, config.training.sharding));
  if (config.training.parts > 0)
    throw ValueError(fmt::format("[train] --compress {} with --parts {}: what ranks leave out depends on their number",
                                 kind, config.training.parts));
  if (kind != "bf16" && config.training.precision == "f16")
    throw ValueError(
        fmt::format("[train] --compress {} with --precision f16: an overflow of the scaled loss would stay "
                    "among the kept errors; --precision bf16 scales none",
                    kind));
  return true;
}

std::unique_ptr<Compression> make_compression(const Config& config, int ranks, DeviceContext& device) {
  const std::string& kind = config.training.compress;
  if (kind == "bf16") return make_rounded();
  if (kind == "powersgd")
    return make_low_rank({.rank = config.training.compress_rank,
                          .seed = static_cast<uint64_t>(config.run.seed),
                          .in_bytes = config.training.compress_factors == "int8"},
                         device);
  if (kind == "topk") return make_largest(config.training.compress_share, device);
  if (kind == "int8") return make_bytes(ranks, device);
  throw ValueError(fmt::format("[train] --compress {} is not known", kind));
}

}  // namespace heddle::train
