// What evaluations of recipes share. Thread safety: none.
#pragma once

#include <functional>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/data/loader.h"

namespace heddle::train {

// Calls see(batch) for all examples of a dataset in order, at most `size` in a batch, and hands what it recorded to the
// device.
void for_each_batch(const data::DatasetPtr& dataset, int64_t size, std::vector<data::Transform> transforms,
                    DeviceContext& device, const std::function<void(const std::vector<Tensor>& batch)>& see);

// As many examples as an evaluation takes at once: at most 500, fewer of large ones, by the first one of the dataset.
int64_t evaluation_batch(const data::Dataset& dataset, const std::vector<data::Transform>& transforms);

}  // namespace heddle::train
