#include "heddle/nn/models/lenet.h"

#include <fmt/format.h>

#include "heddle/nn/models/conv_norm.h"
#include "heddle/nn/pool.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

Sequential make_features(const LeNetOptions& o, const ParameterOptions& p) {
  Sequential features;
  int64_t in = o.channels;
  for (const int64_t out : o.stages) {
    features.append(conv_norm({.in = in, .out = out}, p, ReLU(), MaxPool2d({2})));
    in = out;
  }
  return features;
}

Sequential make_classifier(const LeNetOptions& o, const ParameterOptions& p) {
  if (o.stages.empty()) throw ValueError("[LeNet] no stages");
  check_sizes("LeNet", {{"height", o.height}, {"width", o.width}});
  const size_t halved = std::min<size_t>(o.stages.size(), 62);
  const int64_t height = o.height >> halved, width = o.width >> halved;
  if (height < 1 || width < 1)
    throw ValueError(fmt::format("[LeNet] nothing is left of a {}x{} image after {} stages that halve it", o.height,
                                 o.width, o.stages.size()));
  const int64_t in = parameter_shape("LeNet", {o.stages.back(), height, width}).numel();
  return Sequential{Flatten(), Linear(in, o.hidden, {.device = p.device, .generator = p.generator}), ReLU(),
                    Dropout(o.dropout, {.generator = p.generator}),
                    Linear(o.hidden, o.classes, {.device = p.device, .generator = p.generator})};
}

}  // namespace

LeNet::LeNet(const LeNetOptions& o, const ParameterOptions& p)
    : Module("LeNet"),
      features_(add("features", make_features(o, p))),
      classifier_(add("classifier", make_classifier(o, p))) {}

Tensor LeNet::forward(const Tensor& images) { return classifier_(features_(images)); }

}  // namespace heddle::nn
