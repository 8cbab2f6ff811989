#include "heddle/train/recipes/table_net.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/models/parts.h"

namespace heddle::train {
namespace {

int64_t width_of(int64_t categories) { return std::min<int64_t>(32, (categories + 1) / 2); }

nn::Mlp make_mlp(const TableNetOptions& o, const nn::ParameterOptions& p) {
  int64_t in = o.numbers;
  for (const int64_t count : o.categories) in += width_of(count);
  if (in < 1) throw ValueError("[TableNet] there are neither numbers nor categories");
  return nn::Mlp({.in = in, .hidden = o.hidden, .out = o.out, .dropout = o.dropout}, p);
}

}  // namespace

TableNet::TableNet(const TableNetOptions& o, const nn::ParameterOptions& p)
    : Module("TableNet"), numbers_(o.numbers), mlp_(make_mlp(o, p)) {
  nn::Parts embeddings("Embeddings");
  for (const int64_t count : o.categories)
    embeddings_.push_back(
        embeddings.add(fmt::format("{}", embeddings_.size()),
                       nn::Embedding(count, width_of(count), {.device = p.device, .generator = p.generator})));
  if (!embeddings_.empty()) add("embedding", embeddings);
  add("mlp", mlp_);
}

Tensor TableNet::forward(const Tensor& x) {
  const auto wanted = numbers_ + static_cast<int64_t>(embeddings_.size());
  if (x.rank() != 2 || x.dim(1) != wanted)
    throw ShapeError(fmt::format("[TableNet] features are {}; expected (N, {})", x.shape().str(), wanted));
  std::vector<Tensor> parts;
  if (numbers_ > 0) parts.push_back(slice(x, 1, {.start = 0, .stop = numbers_}));
  for (size_t i = 0; i < embeddings_.size(); ++i) {
    const int64_t at = numbers_ + static_cast<int64_t>(i);
    parts.push_back(embeddings_[i](cast(squeeze(slice(x, 1, {.start = at, .stop = at + 1}), 1), DType::i32)));
  }
  return mlp_(parts.size() == 1 ? parts.front() : concat(parts, 1));
}

}  // namespace heddle::train
