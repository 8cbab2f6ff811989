#include "heddle/distributed/forecast/transformer.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"

namespace heddle::distributed {
namespace {

constexpr int64_t largest_size = 10'000'000, most_layers = 4096;

void check_size(const TransformerConfig& c, const char* key, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw ValueError(fmt::format("[plan] {}: {} is {}; it must be from {} to {}", c.name, key, value, least, most));
}

void check(const TransformerConfig& c) {
  check_size(c, "layers", c.layers, 1, most_layers);
  check_size(c, "width", c.width, 1, largest_size);
  check_size(c, "heads", c.heads, 1, largest_size);
  check_size(c, "vocabulary", c.vocabulary, 1, largest_size);
  check_size(c, "sequence", c.sequence, 1, largest_size);
  check_size(c, "key_heads", c.key_heads, 0, largest_size);
  check_size(c, "feed_forward", c.feed_forward, 0, largest_size);
  if (c.width % c.heads != 0)
    throw ValueError(fmt::format("[plan] {}: {} heads do not divide the width {}", c.name, c.heads, c.width));
  if (c.key_heads > 0 && c.heads % c.key_heads != 0)
    throw ValueError(fmt::format("[plan] {}: key_heads {} do not divide heads {}", c.name, c.key_heads, c.heads));
}

class Builder {
 public:
  explicit Builder(const TransformerConfig& config)
      : c_(config),
        size_(static_cast<double>(size_of(config.dtype))),
        s_(static_cast<double>(config.sequence)),
        h_(static_cast<double>(config.width)),
        key_width_(config.width / config.heads * (config.key_heads > 0 ? config.key_heads : config.heads)),
        hidden_(config.feed_forward > 0 ? config.feed_forward : 4 * config.width) {}

  Block embedding() const {
    const int64_t rows = c_.vocabulary + (c_.positions ? c_.sequence : 0);
    Layer layer{.path = "embedding", .split = Split::vocabulary, .parameters = rows * c_.width};
    layer.whole_parameters = (rows - c_.vocabulary) * c_.width;
    layer.kept = c_.dropout ? s_ * h_ : 0;
    layer.traffic = 2 * row_bytes();
    layer.reduced = row_bytes();
    return {.name = "embedding", .layers = {layer}, .input = 0, .output = row_bytes()};
  }

  Block block(int64_t number) const {
    const std::string name = fmt::format("layers.{}", number);
    Block made{.name = name, .input = row_bytes(), .output = row_bytes(), .recomputes = c_.recomputes};
    made.layers = {norm(name + ".norm1"),
                   projection(name + ".qkv", c_.width, c_.width + 2 * key_width_, Split::columns),
                   attention(name + ".attention"), projection(name + ".out", c_.width, c_.width, Split::rows),
                   norm(name + ".norm2")};
    made.layers.push_back(projection(name + ".up", c_.width, hidden_ * (c_.gated ? 2 : 1), Split::columns));
    made.layers.push_back(projection(name + ".down", hidden_, c_.width, Split::rows));
    return made;
  }

  Block head() const {
    Block made{.name = "head", .input = row_bytes(), .output = 0};
    Layer last = projection("head", c_.width, c_.vocabulary, Split::vocabulary);
    last.parameters = c_.tied ? 0 : c_.width * c_.vocabulary;
    last.tied_parameters = c_.tied ? c_.width * c_.vocabulary : 0;
    last.kept = (size_ + 4) * s_ * static_cast<double>(c_.vocabulary);  // logits, and their softmax in f32
    last.traffic = 2 * last.kept;
    last.reduced = 0;
    made.layers = {norm("norm"), last};
    return made;
  }

 private:
  double row_bytes() const { return size_ * s_ * h_; }

  // Its input is kept, and that of the product behind it; the mask of a dropout in front.
  Layer norm(const std::string& path) const {
    Layer layer{.path = path, .parameters = c_.width * (c_.biases ? 2 : 1)};
    layer.kept = 2 * row_bytes() + (c_.dropout ? s_ * h_ : 0);
    layer.traffic = 2 * layer.kept;
    return layer;
  }

  // The result of columns, and what stands behind it in the feed-forward part, is what rows read.
  Layer projection(const std::string& path, int64_t in, int64_t out, Split split) const {
    const auto inner = static_cast<double>(in), columns = static_cast<double>(out);
    Layer layer{.path = path, .split = split, .parameters = in * out + (c_.biases ? out : 0)};
    layer.whole_parameters = split == Split::rows && c_.biases ? out : 0;
    layer.flops = 2 * s_ * inner * columns;
    layer.backward_flops = 2 * layer.flops;
    layer.weight_flops = layer.flops;
    layer.product = {.rows = s_, .inner = inner, .columns = columns};
    layer.kept = size_ * s_ * (split == Split::rows ? inner : columns);
    // What stands between two products reads the one's columns and writes the other's rows.
    layer.traffic = split == Split::rows ? 0 : 2 * layer.kept;
    if (split == Split::rows) layer.reduced = row_bytes();
    if (split != Split::rows) layer.backward_reduced = row_bytes();
    return layer;
  }

  Layer attention(const std::string& path) const {
    Layer layer{.path = path, .split = Split::heads};
    const double counted = c_.keeps_scores ? 1 : 0.5;
    layer.flops = counted * 4 * s_ * s_ * h_;
    layer.backward_flops = 2 * layer.flops;
    layer.product = {.rows = s_, .inner = h_ / static_cast<double>(c_.heads), .columns = s_};
    const double scores = static_cast<double>(c_.heads) * s_ * s_;
    layer.kept =
        c_.keeps_scores ? (c_.dropout ? 2 * size_ + 1 : size_) * scores : 4 * static_cast<double>(c_.heads) * s_;
    layer.traffic = 2 * layer.kept;
    layer.exchanged = 2 * size_ * s_ * static_cast<double>(key_width_);
    return layer;
  }

  const TransformerConfig& c_;
  double size_, s_, h_;
  int64_t key_width_, hidden_;
};

}  // namespace

StepLayers transformer_layers(const TransformerConfig& config) {
  check(config);
  const Builder builder(config);
  StepLayers step{.name = config.name, .dtype = config.dtype};
  step.heads = config.heads;
  step.key_heads = config.key_heads > 0 ? config.key_heads : config.heads;
  step.vocabulary = config.vocabulary;
  step.sequence = config.sequence;
  step.splits_rows_between = config.sequence_parallel;
  step.blocks.push_back(builder.embedding());
  for (int64_t i = 0; i < config.layers; ++i) step.blocks.push_back(builder.block(i));
  step.blocks.push_back(builder.head());
  if (config.dtype != DType::f32) {
    step.parameter_bytes = 2;
    step.gradient_bytes = 4;
    step.state_bytes = 12;
  }
  step.shared_values = 1;
  return step;
}

}  // namespace heddle::distributed
