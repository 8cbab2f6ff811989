#include "heddle/train/batch_parts.h"

#include <fmt/format.h>

#include <bit>
#include <optional>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/functions/random/generator_scope.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {
namespace {

void check_parts(const Config& c, int64_t ranks) {
  const int64_t parts = c.training.parts;
  if (!std::has_single_bit(static_cast<uint64_t>(parts)))
    throw ValueError(fmt::format("[train] --parts {}: gradients are added in pairs: 1, 2, 4, 8 ... parts", parts));
  if (parts % ranks != 0)
    throw ValueError(
        fmt::format("[train] --parts {} on {} ranks: each takes as many parts as the others", parts, ranks));
  if (c.training.batch % parts != 0)
    throw ValueError(
        fmt::format("[train] --parts {} of a batch of {}: parts are of one size", parts, c.training.batch));
  if (c.training.accumulate > 1)
    throw ValueError(fmt::format("[train] --parts {} with --accumulate {}: a batch of {} in parts is the same update",
                                 parts, c.training.accumulate, c.training.batch * c.training.accumulate));
  if (c.data.mixup > 0)
    throw ValueError(fmt::format("[train] --parts {} with --mixup: a rank mixes the examples that it has", parts));
}

data::Array rows_of(const data::Array& array, size_t part, size_t parts) {
  const size_t bytes = array.bytes.size() / parts;
  const auto begin = array.bytes.begin() + static_cast<std::ptrdiff_t>(part * bytes);
  return {array.dtype, array.shape.with(0, array.shape[0] / static_cast<int64_t>(parts)),
          std::vector(begin, begin + static_cast<std::ptrdiff_t>(bytes))};
}

}  // namespace

size_t parts_of_rank(const Config& config, const Replicas* replicas) {
  if (config.training.parts == 0) return 1;
  const int64_t ranks = replicas != nullptr ? replicas->size() : 1;
  check_parts(config, ranks);
  return static_cast<size_t>(config.training.parts / ranks);
}

data::Sample in_parts(const data::Sample& batch, size_t parts) {
  data::Sample all;
  for (const data::Array& array : batch) {
    if (array.shape.rank() == 0 || array.shape[0] % static_cast<int64_t>(parts) != 0)
      throw ValueError(
          fmt::format("[train] {} parts of an array of {}: its rows do not divide", parts, array.shape.str()));
  }
  for (size_t part = 0; part < parts; ++part) {
    for (const data::Array& array : batch) all.push_back(rows_of(array, part, parts));
  }
  return all;
}

BatchParts::BatchParts(const nn::Module& model, const Config& config, const Replicas& replicas)
    : model_(model),
      wanted_(config.training.parts > 0),
      keeps_buffers_(wanted_ || replicas.world().survives()),
      count_(parts_of_rank(config, &replicas)),
      first_(replicas.along_batch().place * static_cast<int64_t>(count_)),
      weight_(wanted_ ? 1.0 / static_cast<double>(config.training.parts) : replicas.share_of(config.training.batch)),
      clip_value_(config.training.clip_value),
      takes_norm_(config.training.clip_norm > 0 || config.training.precision == "f16"),
      seed_(static_cast<uint64_t>(config.run.seed)) {}

std::vector<std::vector<Tensor>> BatchParts::split(const std::vector<Tensor>& batch) const {
  const auto tensors = static_cast<std::ptrdiff_t>(batch.size() / count_);
  std::vector<std::vector<Tensor>> parts;
  for (auto begin = batch.begin(); parts.size() < count_; begin += tensors) parts.emplace_back(begin, begin + tensors);
  return parts;
}

// The generator is not assigned, which would make compiled functions look again.
void BatchParts::each(const std::vector<Tensor>& batch,
                      const Callable<void(const std::vector<Tensor>& part, bool last)>& run) {
  const std::vector<std::vector<Tensor>> parts = split(batch);
  std::optional<GeneratorScope> scope;
  if (wanted_) scope.emplace(chance_);
  for (size_t p = 0; p < parts.size(); ++p) {
    const uint64_t place = static_cast<uint64_t>(first_) + p;
    chance_.seed = hash_combine(hash_combine(seed_, static_cast<uint64_t>(step_)), place);
    chance_.offset = 0;
    run(parts[p], p + 1 == parts.size());
  }
}

std::vector<Tensor> BatchParts::buffers() const {
  if (!keeps_buffers_) return {};
  std::vector<Tensor> values;
  for (const Tensor& buffer : floating_buffers(model_)) values.push_back(buffer.detach());
  return values;
}

void BatchParts::restore(const std::vector<Tensor>& buffers) const {
  const NoGradScope no_grad;
  std::vector<Tensor> now = buffers.empty() ? std::vector<Tensor>() : floating_buffers(model_);
  for (size_t i = 0; i < now.size(); ++i) now[i].assign(buffers[i]);
}

}  // namespace heddle::train
