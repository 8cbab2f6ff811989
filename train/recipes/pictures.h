// Pictures: images of the user's own (data/labelled_images.h) as the data of a recipe, and as what a model is asked
// about.
//
// Purpose: image-classifier and cifar-resnet. Every image is read once before the run begins; their size, normalisation
// and classes are stored with the model. Without a folder or file for validation, a part of each class is held out.
// Thread safety: none.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "heddle/nn/models/known.h"
#include "heddle/train/recipe.h"
#include "heddle/train/recipes/image_task.h"

namespace heddle::train {

// Of config.data.path, as squares of `side`: in evaluations the one in the middle of each image, whose side is `share`
// of the image's shorter one. Where weights of another model are given (config.run.init_from), the images are
// normalised as those were that it was trained on.
ImageData read_pictures(const TaskRequest& request, int64_t side, double share);
// Of a dataset's pixels.
nn::ImageForm form_of(const ImageData& images, int64_t side);

// The network of a recipe for images of a form.
using ImageNetwork = std::shared_ptr<nn::Module> (*)(const Config& config, const nn::ImageForm& form,
                                                     DeviceContext& device);
// What is stored with a model; IoError where that is not there.
nn::ImageForm stored_form(const TaskRequest& request, int64_t side);
Network image_network(const TaskRequest& request, ImageNetwork network, const nn::ImageForm& form);
// A classifier that was trained on images of this form.
std::unique_ptr<Predictor> image_predictor(const TaskRequest& request, ImageNetwork network, const nn::ImageForm& form);
// The same of stored_form().
std::unique_ptr<Predictor> picture_predictor(const TaskRequest& request, ImageNetwork network, int64_t side);

}  // namespace heddle::train
