// The images of the MNIST recipes: MNIST's four files, a file of records of such, or the embedded set of drawn digits.
#pragma once

#include "heddle/nn/models/known.h"
#include "heddle/train/config.h"
#include "heddle/train/recipes/image_task.h"

namespace heddle::train {

inline constexpr int64_t digit_side = 28;

// config.data.path, or the embedded set where it is empty; with config.data.augment shifted by up to two pixels.
// IoError for images of another size. Records have no test images: what is held out is all that evaluations see.
ImageData read_digits(const Config& config);
// LeNet's options in [model], and the network that they name.
std::vector<ModelOption> lenet_model();
std::shared_ptr<nn::Module> make_lenet(const Config& config, const nn::ImageForm& form, DeviceContext& device);
// Options that suit it.
void lenet_defaults(Config& config);

}  // namespace heddle::train
