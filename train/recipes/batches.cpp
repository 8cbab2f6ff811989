#include "heddle/train/recipes/batches.h"

#include <algorithm>
#include <utility>

#include "heddle/core/functions/functions.h"

namespace heddle::train {

void for_each_batch(const data::DatasetPtr& dataset, int64_t size, std::vector<data::Transform> transforms,
                    DeviceContext& device, const std::function<void(const std::vector<Tensor>& batch)>& see) {
  const int64_t examples = dataset->size();
  data::Loader loader(
      dataset, data::sequential(examples),
      {.batch = std::clamp<int64_t>(examples, 1, size), .drop_last = false, .transforms = std::move(transforms)});
  data::Sample host;
  while (loader.next(host)) {
    see(data::to_tensors(host, device));
    eval_pending();
  }
}

int64_t evaluation_batch(const data::Dataset& dataset, const std::vector<data::Transform>& transforms) {
  constexpr int64_t most = 500, elements = int64_t{32} * 3 * 224 * 224;
  if (dataset.size() == 0) return 1;
  data::Random random(0, 0, 0);
  data::Sample first = dataset.get(0, random);
  for (const data::Transform& transform : transforms) first = transform(std::move(first), random);
  return std::clamp<int64_t>(elements / std::max<int64_t>(1, first.at(0).shape.numel()), 1, most);
}

}  // namespace heddle::train
