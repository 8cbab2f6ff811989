#include "tools/recorded_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "bench/training_step.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/init.h"
#include "heddle/nn/summary.h"
#include "heddle/train/wishes.h"

namespace heddle::tools {
namespace {

using distributed::Block;
using distributed::Layer;
using distributed::Split;

// The wishes that travel behind the gradients, and the loss.
constexpr int64_t values_besides = train::Wishes::count + 1;
constexpr double moments = 2;  // of Adam and AdamW, which the training steps have

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// "h.3" of "h.3.attn.c_attn", "0" of "0", "layer1.0" of "layer1.0.conv1", "wte".
std::string block_of(const std::string& path) {
  const size_t first = path.find('.');
  if (first == std::string::npos) return path;
  const size_t second = std::min(path.find('.', first + 1), path.size());
  return is_number(path.substr(first + 1, second - first - 1)) ? path.substr(0, second) : path.substr(0, first);
}

// What tensor parallelism does to the modules of nn/models/gpt.h.
Split split_of(const std::string& path, const std::string& kind) {
  if (path.ends_with(".c_attn") || path.ends_with(".c_fc")) return Split::columns;
  if (path.ends_with(".c_proj")) return Split::rows;
  if (path == "wte" || path.empty()) return Split::vocabulary;
  return kind == "GptBlock" ? Split::heads : Split::none;
}

class Recorder {
 public:
  Recorder(const nn::Summary& summary, int64_t batch, bool splits) : batch_(static_cast<double>(batch)) {
    for (const nn::SummaryRow& row : summary.rows)
      if (!row.path.empty()) add(row, splits);
    if (blocks_.empty()) blocks_.push_back({.name = "model"});
    if (!summary.rows.empty() && summary.rows.front().path.empty()) {
      blocks_.back().layers.push_back(layer_of(summary.rows.front(), splits));
      blocks_.back().output = 0;
    }
    for (size_t i = 1; i < blocks_.size(); ++i) blocks_[i].input = blocks_[i - 1].output;
  }
  std::vector<Block> take() { return std::move(blocks_); }

 private:
  void add(const nn::SummaryRow& row, bool splits) {
    const std::string name = block_of(row.path);
    const bool is_empty = row.calls == 0 && row.parameters == 0;
    if (is_empty) return;  // only names its parts
    if (blocks_.empty() || blocks_.back().name != name) blocks_.push_back({.name = name});
    Block& block = blocks_.back();
    block.layers.push_back(layer_of(row, splits));
    // The block's own result, or that of its last part.
    if (row.calls > 0 && (row.path == name || block.layers.front().path != name)) block.output = bytes_of(row);
  }

  double bytes_of(const nn::SummaryRow& row) const { return 4.0 * static_cast<double>(row.output.numel()) / batch_; }

  Layer layer_of(const nn::SummaryRow& row, bool splits) const {
    Layer layer{.path = row.path, .split = splits ? split_of(row.path, row.kind) : Split::none};
    layer.parameters = row.parameters;
    layer.flops = row.flops / batch_;
    layer.backward_flops = row.backward_flops / batch_;
    layer.weight_flops = row.kind == "GptBlock" ? 0 : std::min(layer.flops, layer.backward_flops);
    layer.kept = static_cast<double>(row.kept_bytes) / batch_;
    layer.traffic = 2 * static_cast<double>(row.output_bytes) / batch_;
    if (row.calls > 0 && row.output.rank() > 1) add_product(row, layer);
    if (layer.split == Split::rows || row.path == "wte") layer.reduced = bytes_of(row);
    if (layer.split == Split::rows) layer.whole_parameters = row.output.dim(-1);  // the bias
    if (layer.split == Split::columns) layer.backward_reduced = 4 * layer.product.rows * layer.product.inner;
    return layer;
  }

  void add_product(const nn::SummaryRow& row, Layer& layer) const {
    const auto columns = static_cast<double>(row.output.dim(-1)), all = static_cast<double>(row.output.numel());
    if (row.flops <= 0 || all <= 0) return;
    layer.product = {.rows = all / columns / batch_, .inner = row.flops / (2 * all), .columns = columns};
  }

  double batch_;
  std::vector<Block> blocks_;
};

int64_t floating_elements(const nn::NamedTensors& tensors) {
  int64_t count = 0;
  for (const auto& [name, tensor] : tensors)
    if (is_float(tensor.dtype())) count += tensor.numel();
  return count;
}

}  // namespace

RecordedLayers record_layers(const std::string& text) {
  const std::unique_ptr<DeviceContext> device = nn::blank_device();
  const nn::init::SkipScope skip;
  const bench::TrainingStep step = bench::make_training_step(text, *device);
  const nn::Summary summary = nn::summarize(*step.model, [&] { return step.loss(step.x, step.y); });
  RecordedLayers made{.layers = {.name = text}, .batch = step.x.dim(0), .parts = step.parts};
  const auto* gpt = dynamic_cast<const nn::Gpt*>(step.model.get());
  if (gpt != nullptr) {
    made.layers.heads = made.layers.key_heads = gpt->options().heads;
    made.layers.vocabulary = gpt->options().vocabulary;
    made.in_parts = !gpt->options().checkpoint && !gpt->options().offload;
  }
  made.layers.blocks = Recorder(summary, made.batch, gpt != nullptr).take();
  made.layers.state_bytes = moments * 4;
  made.layers.as_trained = true;
  made.layers.shared_values = floating_elements(step.model->named_buffers()) + values_besides;
  return made;
}

}  // namespace heddle::tools
