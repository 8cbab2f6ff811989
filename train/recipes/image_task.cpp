#include "heddle/train/recipes/image_task.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/train/recipes/batches.h"

namespace heddle::train {
ImageData hold_out(const data::DatasetPtr& all, const std::string& name, const Config& c) {
  ImageData images;
  data::DatasetPtr rest = all;
  if (c.data.validation > 0) {
    const std::vector<data::DatasetPtr> parts =
        data::random_split(all, {1 - c.data.validation, c.data.validation}, static_cast<uint64_t>(c.run.seed));
    rest = parts[0];
    images.validation = parts[1];
    if (rest->size() == 0 || images.validation->size() == 0) {
      throw ValueError(
          fmt::format("[{}] --validation {} holds out {} of the {} training images of {}; with 0 the evaluations look "
                      "at the test images",
                      c.run.recipe, c.data.validation, images.validation->size(), all->size(), name));
    }
  }
  images.training = {.name = name, .dataset = data::first(rest, c.data.limit_train)};
  return images;
}

ImageTask::ImageTask(ImageData data, DeviceContext& device) : data_(std::move(data)), device_(device) {
  std::vector<data::Transform>& all = data_.training.transforms;
  const auto append = [&all](const std::vector<data::Transform>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  if (!data_.cuts) append(data_.preprocessing.make_geometry());
  all.push_back(data::to_float());
  append(data_.colours);
  append(data_.preprocessing.make_normalisation());
}

Evaluation ImageTask::evaluate(int64_t limit) {
  return data_.validation ? measure_split("validation", data_.validation, limit)
                          : measure_split("test", data_.test, limit);
}

Evaluation ImageTask::test(int64_t limit) {
  return data_.validation && data_.test ? measure_split("test", data_.test, limit) : Evaluation{};
}

Evaluation ImageTask::measure_split(const char* split, const data::DatasetPtr& images, int64_t limit) {
  Evaluation e = measure(data::first(images, limit));
  e.split = split;
  return e;
}

void ImageTask::for_each_batch(const data::DatasetPtr& images,
                               const std::function<void(const std::vector<Tensor>&)>& see) {
  const std::vector<data::Transform> transforms = data_.preprocessing.make_transforms();
  train::for_each_batch(images, evaluation_batch(*images, transforms), transforms, device_, see);
}

}  // namespace heddle::train
