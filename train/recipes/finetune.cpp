#include "heddle/train/recipes/finetune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/data/batcher.h"
#include "heddle/data/chat.h"
#include "heddle/nn/generate.h"
#include "heddle/nn/language_model.h"
#include "heddle/nn/linear_cross_entropy.h"
#include "heddle/nn/lora_files.h"
#include "heddle/train/recipes/batches.h"
#include "heddle/train/recipes/recipes.h"

namespace heddle::train {
namespace {

constexpr int64_t ignored = -100;  // PyTorch's number for targets that give no loss
constexpr uint64_t held_out_epoch = 0;
constexpr int64_t sample_tokens = 96, evaluation_tokens = 2048;

const std::string& method_of(const Config& c) {
  const std::string& method = c.model_value<Text>("method");
  for (const char* known : {"lora", "qlora", "dora", "full"}) {
    if (method == known) return method;
  }
  throw ValueError(fmt::format("[finetune] --method {} is none of lora, qlora, dora, full", method));
}

data::ChatTemplate template_of(const Config& c, const BaseModel& base) {
  const std::string& name = c.model_value<Text>("template");
  if (!name.empty()) return data::ChatTemplate::named(name);
  if (const auto own = data::ChatTemplate::recognised(base.chat_template)) return *own;
  throw ValueError(
      fmt::format("[finetune] the model {}; give --template, one of {}",
                  base.chat_template.empty() ? "brings no chat template" : "has a chat template that is unknown",
                  fmt::join(data::ChatTemplate::names(), ", ")));
}

nn::LoraOptions lora_options(const Config& c) {
  nn::LoraOptions o;
  o.rank = c.model_value<Integer>("rank");
  o.alpha = c.model_value<Number>("alpha");
  o.dropout = c.model_value<Number>("dropout");
  o.rank_stabilised = c.model_value<Flag>("rank_stabilised");
  o.dora = method_of(c) == "dora";
  o.targets = c.model_value<Texts>("targets");
  return o;
}

int64_t length_of(const Config& c, const BaseModel& base) {
  const int64_t length = c.model_value<Integer>("length"), most = base.network->options().context;
  if (length < 2 || length > most)
    throw ValueError(fmt::format("[finetune] --length {}; the model reads 2 to {} tokens", length, most));
  return length;
}

// Examples in the template's form, and as tokens.
struct Encoded {
  std::vector<data::ChatExample> examples;
  std::vector<data::ChatTokens> tokens;
};

// Turns that the template does not take are refused, or with --skip-bad left out and counted.
Encoded encode(const Config& c, std::vector<data::ChatExample> examples, const data::ChatTemplate& form,
               const data::Tokenizer& tokenizer, std::vector<std::string>& remarks) {
  Encoded made;
  int64_t bad = 0;
  std::string reason;
  for (data::ChatExample& example : examples) {
    try {
      made.tokens.push_back(data::encode_chat(example, form, tokenizer, !c.model_value<Flag>("all_tokens")));
      made.examples.push_back(std::move(example));
    } catch (const ValueError& error) {
      if (!c.data.skip_broken) throw;
      if (bad++ == 0) reason = error.what();
    }
  }
  if (bad > 0) remarks.push_back(fmt::format("[finetune] {} examples are left out, the first: {}", bad, reason));
  return made;
}

// A book: its end is held out.
ChatData split_text(const Config& c, const data::ChatTokens& all, std::vector<std::string> remarks) {
  const double share = static_cast<double>(all.tokens.size()) * (1 - c.data.validation);
  const auto keep = static_cast<std::ptrdiff_t>(std::llround(share));
  const auto cut = [&](std::ptrdiff_t from, std::ptrdiff_t to) {
    return data::ChatTokens{{all.tokens.begin() + from, all.tokens.begin() + to},
                            {all.trained.begin() + from, all.trained.begin() + to},
                            true};
  };
  const auto end = static_cast<std::ptrdiff_t>(all.tokens.size());
  return {{cut(0, keep)}, {cut(keep, end)}, {}, std::move(remarks)};
}

// Up to the last answer.
std::vector<int32_t> question_of(data::ChatExample example, const data::ChatTemplate& form,
                                 const data::Tokenizer& tokenizer) {
  while (!example.turns.empty() && example.turns.back().role == "assistant") example.turns.pop_back();
  return data::encode_prompt(example.turns, form, tokenizer);
}

}  // namespace

ChatData read_chat_data(const Config& c, const BaseModel& base) {
  if (c.data.path.empty())
    throw ValueError("[finetune] --data is missing: JSON lines of conversations, or a .txt file");
  data::ChatFile file = data::read_chat_file(c.data.path, {.skip_bad = c.data.skip_broken});
  const bool texts = file.form == "text";
  const data::ChatTemplate form = texts ? data::ChatTemplate::named("plain") : template_of(c, base);
  std::vector<std::string> remarks = std::move(file.remarks);
  Encoded all = encode(c, std::move(file.examples), form, *base.tokenizer, remarks);
  if (texts && all.tokens.size() == 1) return split_text(c, all.tokens[0], std::move(remarks));
  const auto count = static_cast<int64_t>(all.tokens.size());
  const auto held = static_cast<int64_t>(std::ceil(static_cast<double>(count) * c.data.validation));
  if (held < 1 || held >= count)
    throw ValueError(fmt::format("[finetune] --validation {} holds out {} of the {} examples of {}", c.data.validation,
                                 held, count, c.data.path));
  const std::vector<uint32_t> order = data::shuffled_order(count, static_cast<uint64_t>(c.run.seed), held_out_epoch);
  std::vector<bool> is_held(all.tokens.size(), false);
  for (int64_t i = 0; i < held; ++i) is_held[order[static_cast<size_t>(i)]] = true;
  ChatData made{.remarks = std::move(remarks)};
  for (size_t i = 0; i < all.tokens.size(); ++i) {
    if (is_held[i] && made.prompt.empty() && !texts) made.prompt = question_of(all.examples[i], form, *base.tokenizer);
    (is_held[i] ? made.validation : made.training).push_back(std::move(all.tokens[i]));
  }
  return made;
}

Finetune::Finetune(BaseModel base, ChatData data, const Config& c, DeviceContext& device)
    : base_(std::move(base)),
      packs_(c.model_value<Flag>("pack")),
      label_smoothing_(c.training.label_smoothing),
      base_path_(c.model_value<Text>("base")),
      prompt_(std::move(data.prompt)),
      remarks_(std::move(data.remarks)),
      device_(device) {
  make_rows(data, c);
  if (method_of(c) != "full") {
    adapters_.emplace(*base_.network, lora_options(c));
    const std::vector<std::string> paths = adapters_->paths();
    own_head_ = std::ranges::find(paths, "lm_head") != paths.end();
  }
  own_head_ = own_head_ || base_.network->options().logit_cap > 0;
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
}

Tensor Finetune::loss_of(const std::vector<Tensor>& batch, double smoothing) {
  nn::Llama& network = *base_.network;
  const Tensor &tokens = batch.at(0), &targets = batch.at(1);
  const Tensor features = network.features(tokens, packs_ ? batch.at(2) : Tensor());
  if (!own_head_) {
    return nn::linear_cross_entropy(features, network.head(), targets,
                                    {.ignore_index = ignored, .label_smoothing = smoothing});
  }
  const Tensor logits = network.projected(features);
  CrossEntropyOptions options;
  options.ignore_index = ignored;
  options.label_smoothing = smoothing;
  return cross_entropy(reshape(logits, {-1, logits.dim(2)}), flatten(targets), options);
}

Tensor Finetune::loss(const std::vector<Tensor>& batch) {
  // Dropout of adapters asks the module that they stand beside.
  if (base_.network->training() != model().training()) base_.network->train(model().training());
  return loss_of(batch, label_smoothing_);
}

Evaluation Finetune::evaluate(int64_t limit) {
  base_.network->eval();
  const data::DatasetPtr rows = data::first(validation_, limit);
  double sum = 0, count = 0;
  for_each_batch(
      rows, std::max<int64_t>(1, evaluation_tokens / data_.tokens), {}, device_, [&](const std::vector<Tensor>& batch) {
        const double trained = heddle::sum(cast(batch.at(1) != static_cast<double>(ignored), DType::f32)).item();
        if (trained == 0) return;
        sum += loss_of(batch, 0).item() * trained;
        count += trained;
      });
  const double loss = sum / count;
  return {.split = "validation", .loss = loss, .examples = rows->size(), .metrics = {{"perplexity", std::exp(loss)}}};
}

Generated Finetune::generate() {
  if (prompt_.empty()) return {};
  base_.network->eval();
  const auto most = static_cast<size_t>(std::max<int64_t>(1, base_.network->options().context - sample_tokens));
  const std::span<const int32_t> prompt = std::span(prompt_).last(std::min(prompt_.size(), most));
  const auto context = static_cast<int64_t>(prompt.size()) + sample_tokens;
  const std::vector<int32_t> made = nn::generate(*nn::cached_decoder(*base_.network, 1, context), prompt,
                                                 {.tokens = sample_tokens, .temperature = 0, .stop = base_.ends});
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
  nn::save_peft(adapter_path_, *adapters_, base_path_);
  if (!adapters_->options().dora) nn::save_gguf_adapter(folder + "/adapter.gguf", *adapters_, base_.network->options());
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
                {"method", Text("lora"), "lora, qlora (blocks stay packed), dora, full (all weights)"},
                {"rank", Integer(8), "of the adapters"},
                {"alpha", Number(16), "of the adapters, whose scale is alpha / rank"},
                {"rank_stabilised", Flag(false), "the scale is alpha / sqrt(rank)"},
                {"dropout", Number(0), "of the adapters' inputs"},
                {"targets", Texts({"*.q_proj", "*.k_proj", "*.v_proj", "*.o_proj"}),
                 "patterns of modules that get adapters"},
                {"length", Integer(512), "tokens of a row"},
                {"pack", Flag(true), "several short examples in a row, each of which sees itself alone"},
                {"drop_long", Flag(false), "leave out examples longer than a row, instead of cutting them"},
                {"all_tokens", Flag(false), "the loss is of all tokens, not of the answers alone"},
                {"template", Text(), "chat template; empty: the model's own"},
                {"recompute", Flag(false), "blocks are computed again for gradients, in less memory and more time"}},
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
        const std::string& path = r.config.model_value<Text>("base");
        if (path.empty()) throw ValueError("[finetune] which model? heddle finetune MODEL --data FILE");
        BaseModel base = load_base_model(path, method_of(r.config) == "qlora", r.device);
        base.network->checkpoint_blocks(r.config.model_value<Flag>("recompute"));
        ChatData data = read_chat_data(r.config, base);
        return std::make_unique<Finetune>(std::move(base), std::move(data), r.config, r.device);
      },
      .network = [](const TaskRequest& r) -> Network {
        throw ValueError(fmt::format("[model] a run of {} holds what was trained beside {}, not a network",
                                     r.config.run.recipe, r.config.model_value<Text>("base")));
      }};
}

}  // namespace heddle::train
