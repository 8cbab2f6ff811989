#include "heddle/train/recipes/language.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <tuple>

#include "heddle/core/base/error.h"
#include "heddle/core/dialect/builtin_files.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/data/preprocess.h"
#include "heddle/data/records.h"
#include "heddle/data/tokenizer_file.h"
#include "heddle/nn/generate.h"
#include "heddle/nn/metrics.h"
#include "heddle/nn/routing.h"
#include "heddle/train/feed.h"
#include "heddle/train/recipes/batches.h"

namespace heddle::train {
namespace {

constexpr int64_t validated_tokens = 4096;  // of a batch
constexpr int64_t drawn_tokens = 200;
constexpr double sample_temperature = 0.8;

std::string own_source() {
  std::string text;
  for (const BuiltinFile& file : builtin_files()) text += file.text;
  return text;
}

// The tokens of windows that lie side by side, as `heddle pack` makes them of a text.
std::vector<int32_t> tokens_of(const data::RecordFile& records, const std::string& path) {
  std::vector<int32_t> tokens;
  data::Random random(0, 0, 0);
  for (int64_t i = 0; i < records.size(); ++i) {
    const data::Sample sample = records.get(i, random);
    const bool fits = sample.size() == 2 && sample[0].dtype == DType::i32 && sample[0].shape.rank() == 1 &&
                      sample[1].dtype == DType::i32 && sample[1].shape == sample[0].shape && sample[0].shape[0] > 0;
    if (!fits)
      throw IoError(
          fmt::format("[text] {}: record {} is no block of a text; `heddle pack` makes such of a .txt file", path, i));
    const std::span<const int32_t> block = sample[0].as<int32_t>();
    tokens.insert(tokens.end(), block.begin(), block.end());
    if (i + 1 == records.size()) tokens.push_back(sample[1].as<int32_t>().back());
  }
  return tokens;
}

Corpus read_records(const Config& c, const data::TokenizerPtr& stored) {
  const std::string& path = c.data.path;
  const data::RecordFile records(path);
  if (!c.data.tokenizer.empty())
    throw ValueError(fmt::format("[{}] --tokenizer {} has no meaning for {}, which is tokens already", c.run.recipe,
                                 c.data.tokenizer, path));
  data::Preprocessing packed;
  if (!records.metadata().empty()) packed = data::Preprocessing::parse(records.metadata(), path);
  if (!packed.tokenizer) throw IoError(fmt::format("[text] {}: no tokenizer in it; it is no packed text", path));
  if (stored && stored->str() != packed.tokenizer->str())
    throw ValueError(fmt::format("[text] {}: its tokens are not those of the model's tokenizer", path));
  Corpus corpus{.name = path, .tokenizer = packed.tokenizer};
  const std::vector<int32_t> tokens = tokens_of(records, path);
  for (const int32_t token : tokens) {
    if (token < 0 || token >= corpus.tokenizer->size())
      throw IoError(
          fmt::format("[text] {}: token {} is none of the {} of its tokenizer", path, token, corpus.tokenizer->size()));
  }
  std::tie(corpus.training, corpus.validation) = data::split_stream(data::token_stream(tokens), 1 - c.data.validation);
  return corpus;
}

}  // namespace

Corpus read_corpus(const Config& c, data::TokenizerPtr stored,
                   data::TokenizerPtr (*otherwise)(const std::string&, const Config&)) {
  if (c.data.validation == 0)
    throw ValueError(fmt::format(
        "[{}] --validation is 0, but a text has no test data: its last part has to be held out", c.run.recipe));
  if (c.data.path.ends_with(".rec")) return read_records(c, stored);
  const std::string text = c.data.path.empty() ? own_source() : data::read_text(c.data.path);
  Corpus corpus;
  corpus.name = c.data.path.empty() ? "the project's own kernels" : c.data.path;
  if (stored)
    corpus.tokenizer = std::move(stored);
  else
    corpus.tokenizer = c.data.tokenizer.empty() ? otherwise(text, c) : data::load_tokenizer(c.data.tokenizer);
  std::tie(corpus.training, corpus.validation) =
      data::split_stream(data::token_stream(corpus.tokenizer->encode(text)), 1 - c.data.validation);
  return corpus;
}

LanguageModel::LanguageModel(nn::LanguageModel model, Corpus corpus, int64_t block, const Config& c,
                             DeviceContext& device)
    : model_(std::move(model)),
      description_(model_->description()),
      corpus_(std::move(corpus)),
      block_(block),
      label_smoothing_(c.training.label_smoothing),
      routes_(c.model.contains("experts") && c.model_value<Integer>("experts") > 0),
      router_(router_weights(c)),
      device_(device) {
  if (block < 1)
    throw ValueError(fmt::format("[{}] a block of {} tokens cannot be meant; model.context must be at least 1",
                                 c.run.recipe, block));
  if (std::min(corpus_.training.size(), corpus_.validation.size()) <= block) {
    throw ValueError(
        fmt::format("[{}] {} has {} tokens for training and {} for validation; both take more than a block of {}",
                    c.run.recipe, corpus_.name, corpus_.training.size(), corpus_.validation.size(), block));
  }
  if (c.data.limit_train > 0)
    corpus_.training.end =
        corpus_.training.begin +
        static_cast<size_t>(std::min((corpus_.training.size() - 1) / block, c.data.limit_train) * block + 1);
  const int64_t blocks = std::max(corpus_.training.size() / block, checked_examples_per_update(c));
  data_.name = corpus_.name;
  data_.dataset = data::random_windows(corpus_.training, block, blocks);
  data_.sampler = data::sequential(blocks);
  data_.tokens = block;
}

Tensor LanguageModel::loss_of(const std::vector<Tensor>& batch, double smoothing) {
  const Tensor logits = model_->module()(batch.at(0));  // (B, T, vocabulary)
  const Tensor rows = reshape(logits, {-1, logits.dim(2)}), targets = flatten(batch.at(1));
  if (smoothing == 0) return cross_entropy(rows, targets);
  CrossEntropyOptions options;
  options.label_smoothing = smoothing;
  return cross_entropy(rows, targets, options);
}

Tensor LanguageModel::loss(const std::vector<Tensor>& batch) {
  return with_routers([&] { return loss_of(batch, label_smoothing_); });
}

Tensor LanguageModel::with_routers(const Callable<Tensor()>& own) {
  if (!routes_) return own();
  const nn::RoutingScope routing;
  const Tensor loss = own();
  figures_of_step_ = {routing.balance().detach() / static_cast<double>(routing.count()), routing.dropped().detach()};
  return loss + routing.balance() * router_.balance + routing.z() * router_.z;
}

std::vector<std::string> LanguageModel::names_of_step() const {
  if (!routes_) return {};
  return {"expert_balance", "dropped_tokens"};
}

int64_t LanguageModel::each_validation_batch(int64_t limit,
                                             const Callable<void(const std::vector<Tensor>& batch)>& see) {
  const data::DatasetPtr blocks = data::first(data::windows(corpus_.validation, block_), limit);
  for_each_batch(blocks, std::max<int64_t>(1, validated_tokens / block_), {}, device_, see);
  return blocks->size();
}

Evaluation LanguageModel::evaluation_of(double loss, int64_t examples) {
  return {.split = "validation", .loss = loss, .examples = examples, .metrics = {{"perplexity", std::exp(loss)}}};
}

Evaluation LanguageModel::evaluate(int64_t limit) {
  nn::Mean mean(device_);
  const int64_t blocks = each_validation_batch(limit, [&](const std::vector<Tensor>& batch) {
    mean.add(loss_of(batch, 0), static_cast<double>(batch.at(1).numel()));
  });
  return evaluation_of(mean.value(), blocks);
}

Evaluation LanguageModel::evaluate_by(int64_t limit, const Callable<double(const std::vector<Tensor>& batch)>& loss) {
  double total = 0, tokens = 0;
  const int64_t blocks = each_validation_batch(limit, [&](const std::vector<Tensor>& batch) {
    const auto count = static_cast<double>(batch.at(1).numel());
    total += loss(batch) * count;
    tokens += count;
  });
  return evaluation_of(total / tokens, blocks);
}

Generated LanguageModel::generate() { return generate_by(*model_); }

Generated LanguageModel::generate_by(const nn::LanguageModel& model) {
  const std::span<const int32_t> prompt = corpus_.validation.tokens().first(1);
  const std::vector<int32_t> made =
      nn::generate(*model.decoder(), prompt, {.tokens = drawn_tokens, .temperature = sample_temperature, .seed = 1});
  return {.text = corpus_.tokenizer->decode(prompt) + corpus_.tokenizer->decode(made)};
}

nn::LanguageModel LanguageModel::take_model() {
  nn::LanguageModel model = std::move(model_.value());
  model_.reset();
  return model;
}

Metadata LanguageModel::metadata() const {
  data::Preprocessing preprocessing;
  preprocessing.tokenizer = corpus_.tokenizer;
  return {{"preprocessing", preprocessing.str()}, {"model", description_}};
}

}  // namespace heddle::train
