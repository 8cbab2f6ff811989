#include "heddle/train/recipes/finetune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/data/chat_rows.h"
#include "heddle/data/preference_rows.h"
#include "heddle/nn/generate.h"
#include "heddle/nn/language_model.h"
#include "heddle/nn/lora_files.h"
#include "heddle/nn/models/llama_digest.h"
#include "heddle/nn/models/llama_folder.h"
#include "heddle/train/feed.h"
#include "heddle/train/recipes/batches.h"
#include "heddle/train/recipes/finetune_base.h"
#include "heddle/train/recipes/finetune_memory.h"
#include "heddle/train/recipes/finetune_teacher.h"
#include "heddle/train/recipes/length_buckets.h"
#include "heddle/train/recipes/recipes.h"
#include "heddle/train/recipes/without_adapters.h"

namespace heddle::train {
namespace {

constexpr int64_t sample_tokens = 96, planned_tokens = 3;  // the third is as all later ones

nn::LoraOptions lora_options(const Config& c) {
  nn::LoraOptions o;
  o.rank = c.model_value<Integer>("rank");
  o.alpha = c.model_value<Number>("alpha");
  o.dropout = c.model_value<Number>("dropout");
  o.rank_stabilised = c.model_value<Flag>("rank_stabilised");
  o.dora = finetune_method(c) == "dora";
  o.targets = c.model_value<Texts>("targets");
  return o;
}

int64_t length_of(const Config& c, const BaseModel& base) {
  const int64_t length = c.model_value<Integer>("length"), most = base.network->options().context;
  if (length < 2 || length > most)
    throw ValueError(fmt::format("[finetune] --length {}; the model reads 2 to {} tokens", length, most));
  return length;
}

// Rows of one example or pair each, in batches of few lengths; `rows` of them are in an example.
void use_buckets(TrainingData& data, const Config& c, int64_t rows) {
  const LengthBuckets buckets = length_buckets(data.dataset, {.count = c.model_value<Integer>("buckets"),
                                                              .batch = checked_examples_per_update(c),
                                                              .seed = static_cast<uint64_t>(c.run.seed)});
  data.sampler = buckets.sampler;
  data.collate = buckets.collate;
  data.tokens = rows * std::lround(buckets.mean_length);
}

}  // namespace

Finetune::Finetune(BaseModel base, ChatData data, const Config& c, DeviceContext& device)
    : base_(std::move(base)),
      objective_(FinetuneObjective::of(c)),
      packs_(c.model_value<Flag>("pack")),
      label_smoothing_(c.training.label_smoothing),
      base_path_(c.model_value<Text>("base")),
      prompt_(std::move(data.prompt)),
      remarks_(std::move(data.remarks)),
      device_(device) {
  objective_.is_of_pairs() ? make_pairs(data, c) : make_rows(data, c);
  if (finetune_method(c) != "full") {
    adapters_.emplace(*base_.network, lora_options(c));
    const std::vector<std::string> paths = adapters_->paths();
    own_head_ = std::ranges::find(paths, "lm_head") != paths.end();
    if (const std::string why = nn::lacks_gguf(*adapters_, base_.architecture); !why.empty())
      remarks_.push_back(fmt::format("[finetune] there will be no adapter.gguf: {}", why));
  }
  if (!adapters_ && objective_.kind == FinetuneObjective::Kind::dpo)
    reference_ = load_base_network(base_path_, nn::GgufWeights::unpacked, device);
  if (objective_.kind == FinetuneObjective::Kind::distil) {
    Teacher teacher = load_teacher(c.model_value<Text>("teacher"), base_, data, length_of(c, base_), device);
    teacher_ = std::move(teacher.network);
    objective_.distillation.classes = teacher.classes;
    remarks_.insert(remarks_.end(), teacher.remarks.begin(), teacher.remarks.end());
  }
  for (const auto& network : {base_.network, teacher_})
    own_head_ = own_head_ || (network && network->options().logit_cap > 0);
  const NoGradScope no_grad;
  loss_before_ = evaluate(c.data.limit_test).loss;
}

void Finetune::make_rows(const ChatData& data, const Config& c) {
  data::ChatRowsOptions options{
      .length = length_of(c, base_), .pack = packs_, .drop_long = c.model_value<Flag>("drop_long")};
  const data::ChatRows rows = data::chat_rows(data.training, options), held = data::chat_rows(data.validation, options);
  for (const auto& [what, of] : {std::pair{"training", rows}, std::pair{"validation", held}}) {
    if (of.rows == 0 || of.trained == 0)
      throw ValueError(fmt::format("[finetune] {}: no token of the {} examples for {} gives a loss within --length {}",
                                   c.data.path, of.examples, what, options.length));
    if (of.cut + of.dropped > 0)
      remarks_.push_back(fmt::format("[finetune] {} examples for {} are longer than {} tokens: {} cut, {} dropped",
                                     of.cut + of.dropped, what, options.length, of.cut, of.dropped));
  }
  remarks_.push_back(fmt::format("[finetune] {} examples in {} rows of {} tokens, {} of {} tokens give a loss",
                                 rows.examples, rows.rows, options.length, rows.trained, rows.tokens));
  data_ = {.name = c.data.path, .dataset = data::first(rows.dataset, c.data.limit_train), .tokens = options.length};
  validation_ = held.dataset;
  validation_tokens_ = options.length;
  if (!packs_) use_buckets(data_, c, 1);
}

void Finetune::make_pairs(const ChatData& data, const Config& c) {
  const data::PreferenceRowsOptions options{.length = length_of(c, base_),
                                            .drop_long = c.model_value<Flag>("drop_long")};
  const data::PreferenceRows pairs = data::preference_rows(data.training, data.rejected_training, options),
                             held = data::preference_rows(data.validation, data.rejected_validation, options);
  if (const int64_t cut = pairs.cut + held.cut, dropped = pairs.dropped + held.dropped; cut + dropped > 0)
    remarks_.push_back(fmt::format("[finetune] {} pairs are longer than {} tokens or say nothing: {} cut, {} dropped",
                                   cut + dropped, options.length, cut, dropped));
  remarks_.push_back(fmt::format("[finetune] {} pairs of rows of {} tokens, {} tokens give a loss", pairs.pairs,
                                 options.length, pairs.trained));
  data_ = {
      .name = c.data.path, .dataset = data::first(pairs.dataset, c.data.limit_train), .tokens = 2 * options.length};
  validation_ = held.dataset;
  validation_tokens_ = 2 * options.length;
  use_buckets(data_, c, 2);
}

// The batch's tokens and targets are (B, 2, T).
PreferenceLoss Finetune::pair_loss(const std::vector<Tensor>& batch, double smoothing) {
  const int64_t pairs = batch.at(0).dim(0), length = batch[0].dim(2);
  const std::vector<Tensor> rows{reshape(batch[0], {-1, length}), reshape(batch.at(1), {-1, length})};
  const auto answers_of = [&](nn::Llama& network) {
    const Tensor losses = token_losses(network, rows, own_head_, 0, Reduction::none);
    return reshape(-sum(losses, {1}), {pairs, 2});
  };
  const Tensor answers = answers_of(*base_.network);
  if (objective_.kind == FinetuneObjective::Kind::orpo) {
    return preference_loss(objective_, answers / sum(counted_targets(batch[1]), {2}), {}, smoothing);
  }
  const auto reference_of = [&] {
    const NoGradScope no_grad;
    const WithoutAdapters scope(adapters_);
    return answers_of(reference_ ? *reference_ : *base_.network);
  };
  const Tensor reference = reference_of();
  return preference_loss(objective_, answers, reference, smoothing);
}

DistilledLoss Finetune::distil_loss(const std::vector<Tensor>& rows, double smoothing) {
  const auto taught = [&] {
    const NoGradScope no_grad;
    return NextTokens(*teacher_, rows, own_head_);
  };
  return distilled_loss(objective_, NextTokens(*base_.network, rows, own_head_), taught(), smoothing);
}

std::vector<Tensor> Finetune::rows_of(const std::vector<Tensor>& batch) const {
  return {batch.begin(), batch.begin() + (packs_ ? 3 : 2)};
}

Tensor Finetune::loss_of(const std::vector<Tensor>& batch, double smoothing) {
  if (objective_.is_of_pairs()) {
    const PreferenceLoss lost = pair_loss(batch, smoothing);
    figures_of_step_ = {lost.margin, lost.accuracy};
    return lost.loss;
  }
  if (teacher_) {
    const DistilledLoss lost = distil_loss(rows_of(batch), smoothing);
    figures_of_step_ = {lost.divergence.detach()};
    if (objective_.beta < 1) figures_of_step_.push_back(lost.cross_entropy.detach());
    return lost.loss;
  }
  return token_losses(*base_.network, rows_of(batch), own_head_, smoothing, Reduction::mean);
}

std::vector<double> Finetune::measured(const std::vector<Tensor>& batch) {
  if (objective_.is_of_pairs()) {
    const PreferenceLoss lost = pair_loss(batch, 0);
    return {static_cast<double>(batch.at(0).dim(0)), lost.loss.item(), lost.margin.item(), lost.accuracy.item()};
  }
  const double trained = heddle::sum(counted_targets(batch.at(1))).item();
  if (!teacher_) return {trained, loss_of(batch, 0).item()};
  const DistilledLoss lost = distil_loss(rows_of(batch), 0);
  return {trained, lost.loss.item(), lost.cross_entropy.item(), lost.divergence.item()};
}

std::vector<std::string> Finetune::names_of_step() const {
  if (objective_.is_of_pairs()) return {"reward_margin", "reward_accuracy"};
  if (!teacher_) return {};
  if (objective_.beta == 1) return {"divergence"};  // the cross entropy would cost another product with the head
  return {"divergence", "cross_entropy"};
}

Tensor Finetune::loss(const std::vector<Tensor>& batch) {
  // Dropout of adapters asks the module that they stand beside.
  if (base_.network->training() != model().training()) base_.network->train(model().training());
  return loss_of(batch, label_smoothing_);
}

Evaluation Finetune::evaluate(int64_t limit) {
  base_.network->eval();
  const data::DatasetPtr rows = data::first(validation_, limit);
  std::vector<double> means;
  double count = 0;
  for_each_batch(rows, std::max<int64_t>(1, evaluation_tokens / validation_tokens_), {}, device_,
                 [&](const std::vector<Tensor>& batch) {
                   const std::vector<double> found = measured(batch);
                   means.resize(found.size() - 1);
                   for (size_t i = 0; i < means.size(); ++i) means[i] += found[0] * found[i + 1];
                   count += found[0];
                 });
  for (double& mean : means) mean /= count;
  Evaluation made{.split = "validation", .loss = means.at(0), .examples = rows->size()};
  if (objective_.is_of_pairs())
    made.metrics = {{"reward_accuracy", means.at(2)}, {"reward_margin", means[1]}};
  else
    made.metrics = {{"perplexity", std::exp(teacher_ ? means.at(1) : made.loss)}};
  if (teacher_) made.metrics.emplace_back("divergence", means.at(2));
  return made;
}

Generated Finetune::generate() {
  if (prompt_.empty()) return {};
  base_.network->eval();
  const auto most = static_cast<size_t>(std::max<int64_t>(1, base_.network->options().context - sample_tokens));
  const std::span<const int32_t> prompt = std::span(prompt_).last(std::min(prompt_.size(), most));
  const auto context = static_cast<int64_t>(prompt.size()) + sample_tokens;
  const int64_t tokens = base_.tokenizer ? sample_tokens : planned_tokens;
  const std::vector<int32_t> made = nn::generate(*nn::cached_decoder(*base_.network, 1, context), prompt,
                                                 {.tokens = tokens, .temperature = 0, .stop = base_.ends});
  if (!base_.tokenizer) return {};
  return {.text = base_.tokenizer->decode(prompt) + base_.tokenizer->decode(made)};
}

Metadata Finetune::metadata() const {
  data::Preprocessing preprocessing;
  preprocessing.tokenizer = base_.tokenizer;
  Metadata made{{"preprocessing", preprocessing.str()}};
  if (!adapters_) made["model"] = nn::describe(base_.network->options());
  return made;
}

void Finetune::write_beside(const std::string& folder) {
  if (!adapters_) return;
  adapter_path_ = folder + "/adapter";
  nn::save_peft(adapter_path_, *adapters_, base_path_, nn::digest_of(*base_.network));
  if (nn::lacks_gguf(*adapters_, base_.architecture).empty())
    nn::save_gguf_adapter(folder + "/adapter.gguf", *adapters_, base_.network->options(), base_.architecture);
}

std::vector<Figure> Finetune::figures() const {
  int64_t trained = 0;
  const nn::Module& module = adapters_ ? static_cast<const nn::Module&>(*adapters_) : *base_.network;
  for (const Tensor& parameter : module.parameters()) trained += parameter.requires_grad() ? parameter.numel() : 0;
  std::vector<Figure> figures{{"validation_loss_before", loss_before_}, {"trainable_parameters", trained}};
  if (!adapter_path_.empty()) figures.push_back({"adapter", adapter_path_});
  return figures;
}

Recipe finetune() {
  return {
      .name = "finetune",
      .help = "a language model that there is, on conversations or texts (`heddle finetune`)",
      .model = {{"base", Text(), "the model: a GGUF file, or a folder of Hugging Face"},
                {"method", Text("lora"), "lora, qlora (the base in blocks), dora, full (all weights)"},
                {"quantise", Text(), "qlora of a folder: blocks of its matrices, nf4, q4_0, q4_1, q8_0, q4_k, q6_k"},
                {"objective", Text("sft"), "sft (cross entropy of answers), distil, dpo, orpo (pairs of answers)"},
                {"beta", Number(0),
                 "distil: the teacher's share; dpo: cost of leaving the base; orpo: weight of the "
                 "odds' ratio; 0: the objective's own"},
                {"teacher", Text(), "of distil: a GGUF file, or a folder of Hugging Face, with the same tokens"},
                {"temperature", Number(1), "of distil: what logits are divided by"},
                {"divergence", Text("forward"), "of distil: forward, reverse, jensen-shannon"},
                {"rank", Integer(8), "of the adapters"},
                {"alpha", Number(16), "of the adapters, whose scale is alpha / rank"},
                {"rank_stabilised", Flag(false), "the scale is alpha / sqrt(rank)"},
                {"dropout", Number(0), "of the adapters' inputs"},
                {"targets", Texts({"*.q_proj", "*.k_proj", "*.v_proj", "*.o_proj"}),
                 "patterns of modules that get adapters"},
                {"length", Integer(512), "tokens of a row"},
                {"pack", Flag(true), "several short examples in a row, each of which sees itself alone"},
                {"buckets", Integer(4), "lengths of rows of one example or pair each, which their batches are cut to"},
                {"drop_long", Flag(false), "leave out examples longer than a row, instead of cutting them"},
                {"all_tokens", Flag(false), "the loss is of all tokens, not of the answers alone"},
                {"template", Text(), "chat template; empty: the model's own"},
                {"recompute", Text("auto"), "blocks are computed again for gradients: on, off, auto (where they must)"},
                {"offload", Flag(false), "blocks are computed again, and their inputs wait in the host's memory"}},
      .unused = joined(joined({"data.augment", "data.mixup", "data.tokenizer", "run.init_from"},
                              {"data.target", "data.image_column", "data.image_size"}),
                       {"data.task"}),
      .defaults =
          [](Config& c) {
            c.training.batch = 4;
            c.training.epochs = 1;
            c.training.clip_norm = 1;
            c.optimizer.name = "adamw";
            c.optimizer.lr = 2e-4;
            c.schedule.name = "linear";
            c.schedule.warmup = 5;
          },
      .make = [](const TaskRequest& r) -> std::unique_ptr<Task> {
        const std::vector<std::string> settled = settle_memory(r.config, r.device);
        BaseModel base = load_finetune_base(r.config, r.device);
        ChatData data = read_chat_data(r.config, base);
        data.remarks.insert(data.remarks.begin(), settled.begin(), settled.end());
        return std::make_unique<Finetune>(std::move(base), std::move(data), r.config, r.device);
      },
      .network = [](const TaskRequest& r) -> Network {
        throw ValueError(fmt::format("[model] a run of {} holds what was trained beside {}, not a network",
                                     r.config.run.recipe, r.config.model_value<Text>("base")));
      }};
}

}  // namespace heddle::train
