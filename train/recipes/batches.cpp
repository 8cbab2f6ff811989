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

}  // namespace heddle::train
