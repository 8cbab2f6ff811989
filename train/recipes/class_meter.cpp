#include "heddle/train/recipes/class_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/number_guard.h"
#include "heddle/train/recipes/batches.h"

namespace heddle::train {
namespace {

Prediction ranked(const float* probabilities, const std::vector<std::string>& classes) {
  std::vector<size_t> order(classes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return probabilities[a] > probabilities[b]; });
  Prediction prediction;
  for (const size_t i : order) prediction.top.emplace_back(classes[i], static_cast<double>(probabilities[i]));
  return prediction;
}

}  // namespace

ClassMeter::ClassMeter(int64_t classes, DeviceContext& device)
    : loss_(device), confusion_(classes, device), top5_(std::min<int64_t>(5, classes), device) {}

void ClassMeter::add(const Tensor& logits, const Tensor& labels) {
  loss_.add(cross_entropy(logits, labels), static_cast<double>(labels.dim(0)));
  confusion_.add(argmax(logits, 1), labels);
  top5_.add(logits, labels);
}

Evaluation ClassMeter::result(int64_t examples) const {
  return {.loss = loss_.value(),
          .examples = examples,
          .metrics = {{"accuracy", confusion_.accuracy()}, {"f1", confusion_.macro_f1()}, {"top5", top5_.value()}},
          .confusion = confusion_.counts()};
}

void predict_classes(nn::Module& model, const data::DatasetPtr& examples,
                     const std::vector<data::Transform>& transforms, const std::vector<std::string>& classes,
                     DeviceContext& device,
                     const Callable<void(int64_t index, int32_t label, Prediction prediction)>& see) {
  const NoGradScope no_grad;
  int64_t index = 0;
  for_each_batch(
      examples, evaluation_batch(*examples, transforms), transforms, device, [&](const std::vector<Tensor>& batch) {
        const Tensor probabilities = softmax(model(batch.at(0)), 1);
        if (probabilities.dim(1) != static_cast<int64_t>(classes.size()))
          throw IoError(fmt::format("[predict] the model tells {} classes apart, but {} names are stored with it",
                                    probabilities.dim(1), classes.size()));
        const std::vector<float> values = probabilities.to_vector<float>();
        const std::vector<int32_t> labels = batch.at(1).to_vector<int32_t>();
        for (size_t i = 0; i < labels.size(); ++i)
          see(index++, labels[i], ranked(values.data() + i * classes.size(), classes));
      });
}

std::vector<std::string> class_names(const std::vector<std::string>& names, int64_t classes) {
  if (!names.empty()) return names;
  std::vector<std::string> numbers;
  for (int64_t i = 0; i < classes; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

}  // namespace heddle::train
