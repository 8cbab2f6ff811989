#include "heddle/nn/decoder.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/device/context.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

int64_t checked_batch(const Module& model, int64_t batch) {
  if (model.training())
    throw ValueError(
        fmt::format("[decoder] {} is in training mode, in which dropout is random; call eval()", model.kind()));
  return checked_size("decoder", "the batch", batch, most_rows);
}

void check_tokens(const Tensor& tokens, int64_t batch, int64_t context) {
  if (tokens.rank() != 2 || tokens.dim(0) != batch || tokens.dim(1) < 1 || (context > 0 && tokens.dim(1) > context)) {
    throw ShapeError(
        fmt::format("[decoder] tokens are {}; expected ({}, length){}", tokens.shape().str(), batch,
                    context > 0 ? fmt::format(" with a length of 1 to {}", context) : " with a length of at least 1"));
  }
}

Tensor at_last(const Tensor& x) {
  return squeeze(slice(x, 1, {.start = x.dim(1) - 1, .stop = x.dim(1)}), 1);
}  // (B, T, V) -> (B, V)

// A transformer with a cache of keys and values: Gpt, Llama.
template <class Model>
class CachedDecoder final : public Decoder {
 public:
  CachedDecoder(const Model& model, KvCache cache) : model_(model), cache_(std::move(cache)) {}
  int64_t vocabulary() const override { return model_.options().vocabulary; }
  int64_t context() const override { return cache_.layers[0].dim(3); }
  DeviceContext& device() const override { return cache_.length.device(); }
  Tensor read(const Tensor& tokens) override {
    check_tokens(tokens, cache_.layers[0].dim(0), context());
    return model_.read(tokens, cache_);
  }
  Tensor step(const Tensor& tokens) override { return model_.step(tokens, cache_); }
  void reorder(const Tensor& order) override {
    for (Tensor& layer : cache_.layers) layer.assign(take(layer, order, 0));
  }

 private:
  Model model_;
  KvCache cache_;
};

class RecurrentDecoder final : public Decoder {
 public:
  RecurrentDecoder(const RecurrentLm& model, int64_t batch) : model_(model) {
    const RecurrentLmOptions& o = model_.options();
    const Shape shape{o.layers, checked_batch(model, batch), o.hidden};
    const size_t states = o.cell == RecurrentCellKind::lstm ? 2 : 1;
    for (size_t i = 0; i < states; ++i)
      state_.push_back(zeros(shape, DType::f32, &model_.parameters().front().device()));
  }
  int64_t vocabulary() const override { return model_.options().vocabulary; }
  int64_t context() const override { return 0; }
  DeviceContext& device() const override { return state_[0].device(); }
  Tensor read(const Tensor& tokens) override {
    check_tokens(tokens, state_[0].dim(1), 0);
    return run(tokens, {});
  }
  Tensor step(const Tensor& tokens) override { return run(unsqueeze(tokens, 1), state_); }
  void reorder(const Tensor& order) override {
    for (Tensor& s : state_) s.assign(take(s, order, 1));
  }

 private:
  Tensor run(const Tensor& tokens, std::vector<Tensor> before) {
    const NoGradScope no_grad;
    const RecurrentLm::Result result = model_.run(tokens, std::move(before));
    for (size_t i = 0; i < state_.size(); ++i) state_[i].assign(result.state[i]);
    return at_last(result.logits);
  }

  RecurrentLm model_;
  std::vector<Tensor> state_;  // (layers, B, hidden)
};

template <class Model>
class UncachedDecoder final : public Decoder {
 public:
  UncachedDecoder(const Model& model, int64_t batch)
      : model_(model), rows_(static_cast<size_t>(checked_batch(model, batch))) {}
  int64_t vocabulary() const override { return model_.options().vocabulary; }
  int64_t context() const override { return model_.options().context; }
  DeviceContext& device() const override { return model_.parameters().front().device(); }
  Tensor read(const Tensor& tokens) override {
    check_tokens(tokens, static_cast<int64_t>(rows_.size()), context());
    const std::vector<double> all = tokens.to_doubles();
    const size_t length = all.size() / rows_.size();
    for (size_t b = 0; b < rows_.size(); ++b)
      rows_[b].assign(all.begin() + static_cast<std::ptrdiff_t>(b * length),
                      all.begin() + static_cast<std::ptrdiff_t>((b + 1) * length));
    return logits();
  }
  Tensor step(const Tensor& tokens) override {
    const std::vector<double> next = tokens.to_doubles();
    for (size_t b = 0; b < rows_.size(); ++b) rows_[b].push_back(static_cast<int32_t>(next[b]));
    return logits();
  }
  void reorder(const Tensor& order) override {
    const auto before = rows_;
    const std::vector<double> from = order.to_doubles();
    for (size_t b = 0; b < rows_.size(); ++b) rows_[b] = before[static_cast<size_t>(from[b])];
  }

 private:
  // What stands behind a token does not change its logits.
  Tensor logits() {
    const NoGradScope no_grad;
    constexpr int64_t multiple = 64;
    const auto batch = static_cast<int64_t>(rows_.size()), length = static_cast<int64_t>(rows_[0].size());
    const int64_t padded = std::min(round_up(length, multiple), context());
    std::vector<int32_t> all;
    for (const auto& row : rows_) {
      all.insert(all.end(), row.begin(), row.end());
      all.resize(all.size() + static_cast<size_t>(padded - length));
    }
    const Tensor tokens = Tensor::from_vector(all, {batch, padded}, &device());
    const Tensor last = Tensor::from_vector<int32_t>({static_cast<int32_t>(length - 1)}, {1}, &device());
    return squeeze(take(model_(tokens), last, 1), 1);
  }

  mutable Model model_;
  std::vector<std::vector<int32_t>> rows_;
};

}  // namespace

DecoderPtr cached_decoder(const Gpt& model, int64_t batch) {
  return std::make_unique<CachedDecoder<Gpt>>(model, model.make_cache(checked_batch(model, batch)));
}
DecoderPtr cached_decoder(const Llama& model, int64_t batch, int64_t context) {
  return std::make_unique<CachedDecoder<Llama>>(model, model.make_cache(checked_batch(model, batch), context));
}
DecoderPtr cached_decoder(const RecurrentLm& model, int64_t batch) {
  return std::make_unique<RecurrentDecoder>(model, batch);
}
DecoderPtr uncached_decoder(const Gpt& model, int64_t batch) {
  return std::make_unique<UncachedDecoder<Gpt>>(model, batch);
}
DecoderPtr uncached_decoder(const Llama& model, int64_t batch) {
  return std::make_unique<UncachedDecoder<Llama>>(model, batch);
}

}  // namespace heddle::nn
