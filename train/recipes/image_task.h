// ImageTask: what the tasks on images of one size share: which images are for training, for validation and for the
// test.
//
// Purpose: the base of ImageClassifier (train/recipes/image_classifier.h), the mail sorter and the autoencoder of
// digits. The evaluations of a run look at images that are held out of the training set by config.data.validation and
// the run's seed; the test images are for the last figure alone. Invariants: examples are (pixels u8, label i32), and
// (f32, label) behind the preprocessing. Errors: ValueError where a part would be empty. Thread safety: none.
#pragma once

#include <functional>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/data/preprocess.h"
#include "heddle/train/config.h"
#include "heddle/train/task.h"

namespace heddle::train {

struct ImageData {
  TrainingData training;                  // its transforms are the augmentation, on pixels u8
  data::DatasetPtr test = nullptr;        // null: there is none, and a part is held out
  data::DatasetPtr validation = nullptr;  // null: evaluations look at the test images
  int64_t classes = 10;
  data::Preprocessing preprocessing = {};  // of all images; stored with the model
  bool cuts = false;                       // the augmentation gives images the size that the preprocessing gives others
  std::vector<data::Transform> colours = {};  // augmentation of images in [0, 1]
  std::vector<std::string> remarks = {};      // of Task::remarks()
};

// Of `all` training images the part that config.data.validation holds out, and of the rest as many as
// config.data.limit_train says.
ImageData hold_out(const data::DatasetPtr& all, const std::string& name, const Config& config);

class ImageTask : public Task {
 public:
  const TrainingData& training() const override { return data_.training; }
  Evaluation evaluate(int64_t limit) final;
  Evaluation test(int64_t limit) final;
  Metadata metadata() const override { return {{"preprocessing", data_.preprocessing.str()}}; }
  std::vector<std::string> remarks() const override { return data_.remarks; }

 protected:
  ImageTask(ImageData data, DeviceContext& device);
  // Over all of some images; `split` is filled in by the caller.
  virtual Evaluation measure(const data::DatasetPtr& images) = 0;
  // Calls see(batch) for all of them, in order.
  void for_each_batch(const data::DatasetPtr& images, const std::function<void(const std::vector<Tensor>& batch)>& see);
  ImageData& data() { return data_; }
  // What the last figure of a run is of.
  const data::DatasetPtr& tested() const { return data_.test ? data_.test : data_.validation; }
  DeviceContext& device() { return device_; }

 private:
  Evaluation measure_split(const char* split, const data::DatasetPtr& images, int64_t limit);

  ImageData data_;
  DeviceContext& device_;
};

}  // namespace heddle::train
