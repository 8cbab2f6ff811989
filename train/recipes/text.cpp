// char-gpt, char-lstm and gpt2.
#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/nn/language_model.h"
#include "heddle/train/recipes/language.h"
#include "heddle/train/recipes/mixture.h"
#include "heddle/train/recipes/recipes.h"

namespace heddle::train {
namespace {

data::TokenizerPtr characters(const std::string& text, const Config&) {
  return std::make_shared<data::CharTokenizer>(text);
}
data::TokenizerPtr byte_pairs(const std::string& text, const Config& c) {
  return data::BpeTokenizer::train(text, {.vocabulary = c.model_value<Integer>("vocabulary")});
}

data::TokenizerPtr stored(const TaskRequest& r) { return r.stored.tokenizer; }

std::unique_ptr<Task> make_gpt(const TaskRequest& r, Corpus corpus) {
  const Config& c = r.config;
  nn::GptOptions options;
  options.vocabulary = corpus.tokenizer->size();
  options.context = c.model_value<Integer>("context");
  options.layers = c.model_value<Integer>("layers");
  options.heads = c.model_value<Integer>("heads");
  options.width = c.model_value<Integer>("width");
  options.dropout = c.model_value<Number>("dropout");
  read_mixture(c, options);
  return std::make_unique<LanguageModel>(
      nn::LanguageModel(std::make_shared<nn::Gpt>(options, nn::ParameterOptions{.device = r.device})),
      std::move(corpus), options.context, c, r.device);
}

std::vector<ModelOption> gpt_model(Integer layers, Integer heads, Integer width, Integer context, Number dropout) {
  return with_mixture({{"layers", layers, "blocks"},
                       {"heads", heads, "heads of attention"},
                       {"width", width, "of the embedding"},
                       {"context", context, "tokens of a block"},
                       {"dropout", dropout, "in the blocks"}});
}

// By its description, without the text.
Network stored_network(const TaskRequest& r) {
  const auto description = r.metadata.find("model");
  if (description == r.metadata.end())
    throw IoError(
        fmt::format("[model] the model of {} holds no description; not written by heddle train", r.config.run.recipe));
  const auto model = std::make_shared<nn::LanguageModel>(description->second, r.device);
  return {std::shared_ptr<nn::Module>(model, &model->module()), Shape{1, r.config.model_value<Integer>("context")},
          DType::i32};
}

}  // namespace

// nanoGPT's configuration for a CPU: github.com/karpathy/nanoGPT, README, "I only have a macbook".
Recipe char_gpt() {
  return {.name = "char-gpt",
          .help = "small GPT on the characters of a text",
          .model = gpt_model(4, 4, 128, 64, 0),
          .unused = joined(LanguageModel::unused_options(), own_data_options()),
          .defaults =
              [](Config& c) {
                c.data.validation = 0.1;
                c.training.steps = 2000;
                c.training.batch = 12;
                c.training.clip_norm = 1;
                c.optimizer.name = "adamw";
                c.optimizer.lr = 1e-3;
                c.optimizer.beta2 = 0.99;
                c.optimizer.weight_decay = 0.1;
                c.schedule.warmup = 100;
                c.schedule.least = 1e-4;
              },
          .make = [](const TaskRequest& r) { return make_gpt(r, read_corpus(r.config, stored(r), characters)); },
          .network = stored_network};
}

Recipe char_lstm() {
  return {.name = "char-lstm",
          .help = "LSTM on the characters of a text",
          .model = {{"layers", Integer{2}, "LSTM layers"},
                    {"width", Integer{64}, "of the embedding"},
                    {"hidden", Integer{256}, "width of the states"},
                    {"context", Integer{64}, "tokens of a block"},
                    {"dropout", Number{0}, "between the layers"}},
          .unused = joined(LanguageModel::unused_options(), own_data_options()),
          .defaults =
              [](Config& c) {
                c.data.validation = 0.1;
                c.training.steps = 2000;
                c.training.batch = 32;
                c.training.clip_norm = 1;
                c.optimizer.lr = 2e-3;
                c.schedule.warmup = 100;
              },
          .make = [](const TaskRequest& r) -> std::unique_ptr<Task> {
            const Config& c = r.config;
            Corpus corpus = read_corpus(c, stored(r), characters);
            nn::RecurrentLmOptions options;
            options.vocabulary = corpus.tokenizer->size();
            options.width = c.model_value<Integer>("width");
            options.hidden = c.model_value<Integer>("hidden");
            options.layers = c.model_value<Integer>("layers");
            options.dropout = c.model_value<Number>("dropout");
            return std::make_unique<LanguageModel>(
                nn::LanguageModel(std::make_shared<nn::RecurrentLm>(options, nn::ParameterOptions{.device = r.device})),
                std::move(corpus), c.model_value<Integer>("context"), c, r.device);
          },
          .network = stored_network};
}

Recipe gpt2() {
  std::vector<ModelOption> model = gpt_model(12, 12, 768, 1024, 0.1);
  model.push_back({"vocabulary", Integer{2048}, "tokens of the tokenizer that is trained where none is given"});
  return {.name = "gpt2",
          .help = "GPT-2 of 124 million parameters and its like, on byte pairs",
          .model = std::move(model),
          .unused = joined(LanguageModel::unused_options(), own_data_options()),
          .defaults =
              [](Config& c) {
                c.data.validation = 0.1;
                c.training.steps = 10000;
                c.training.batch = 4;
                c.training.accumulate = 8;
                c.training.clip_norm = 1;
                c.optimizer.name = "adamw";
                c.optimizer.lr = 6e-4;
                c.optimizer.beta2 = 0.95;
                c.optimizer.weight_decay = 0.1;
                c.schedule.warmup = 500;
                c.schedule.least = 6e-5;
              },
          .make = [](const TaskRequest& r) { return make_gpt(r, read_corpus(r.config, stored(r), byte_pairs)); },
          .network = stored_network};
}

}  // namespace heddle::train
