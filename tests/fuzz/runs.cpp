// Readers of runs: checkpoints, what a resumed run takes from them, model files, and the folder that a report is made
// of.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/language_model.h"
#include "heddle/nn/models/llama_families.h"
#include "heddle/train/early_stopping.h"
#include "heddle/train/model_file.h"
#include "heddle/train/run_state.h"
#include "tests/fuzz/seed_files.h"
#include "tests/fuzz/target.h"
#include "tests/train/small_task.h"
#include "tools/report_run.h"

namespace heddle::fuzz {
namespace {

DeviceContext& host() { return device("reference:0"); }

// "key=value" pairs with a NUL behind each.
void add_pairs(std::string_view text, Metadata& to) {
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find('\0'));
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos) to[std::string(pair.substr(0, equals))] = pair.substr(equals + 1);
    text.remove_prefix(std::min(pair.size() + 1, text.size()));
  }
}

void checkpoint(Bytes input) { train::load_checkpoint(file_of(input), &host()); }

// A run of a small task that is asked to go on from a checkpoint with the input's metadata.
void run_state(Bytes input) {
  struct Run {
    train::SmallTask task{1, 0, host()};
    train::Config config;
    std::shared_ptr<nn::Plateau> plateau = std::make_shared<nn::Plateau>(0.5);
    train::Optimizers optimizers;
    std::vector<std::shared_ptr<train::Callback>> callbacks = {std::make_shared<train::EarlyStopping>(3)};
    Run() : config(with_plateau()), optimizers(task, config, train::make_schedule(config, 10, plateau), host()) {}
    static train::Config with_plateau() {
      train::Config c;
      c.schedule.name = "plateau";
      return c;
    }
  };
  static Run run;
  const train::RunState state{run.task, run.optimizers, nullptr, run.plateau.get(), run.callbacks};
  static const train::Checkpoint whole = train::checkpoint_of(state, run.config, {3});
  train::Checkpoint file = whole;
  add_pairs(text_of(input), file.metadata);
  train::restore(file, "input", state, run.config);
}

void model_file(Bytes input) {
  train::Checkpoint file;
  file.tensors.emplace("model.weight", zeros({2}, DType::f32, &host()));
  file.metadata["config"] = train::Config().str();
  add_pairs(text_of(input), file.metadata);
  const std::string path = scratch_folder() + "/model.safetensors";
  train::save_checkpoint(path, file);
  const train::ModelFile read = train::read_model_file(path, host());
  require(read.metadata == file.metadata, "model file: the metadata differs");
}

// What is read is options of a model that there may be.
void llama_config(Bytes input) {
  const nn::LlamaConfig read = nn::llama_config(text_of(input), "config.json");
  nn::checked(read.options);
  require(!nn::describe(read.options).empty(), "llama_config: no description");
}

// Models take the memory that their description says: large ones are left out.
void language_model(Bytes input) {
  if (const auto json = try_parse_json(text_of(input)); json && json->is_object()) {
    for (const auto& value : *json) {
      if (value.is_number_integer() && value > 64 && value <= 1 << 24) return;
    }
  }
  nn::LanguageModel(std::string(text_of(input)), host());
}

// metrics.jsonl up to a NUL, environment.json up to another, config.toml behind it.
void report(Bytes input) {
  const std::string folder = scratch_folder() + "/run";
  std::filesystem::create_directories(folder);
  std::string_view left = text_of(input);
  for (const char* name : {"metrics.jsonl", "environment.json", "config.toml"}) {
    const std::string_view part = left.substr(0, left.find('\0'));
    if (part.empty() && name != std::string_view("metrics.jsonl"))
      std::filesystem::remove(folder + "/" + name);
    else
      write_scratch(folder + "/" + name, std::string(part));
    left.remove_prefix(std::min(part.size() + 1, left.size()));
  }
  tools::report_data(folder).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

std::vector<Target> run_targets() {
  return {
      {"checkpoint", checkpoint, checkpoint_seeds, {"\"crc32\":", "\"crc32.", "__metadata__", "\"score\":"}},
      {"run_state",
       run_state,
       run_state_seeds,
       {"plateau=", "early_stopping.best=", "early_stopping.bad=", "random.seed=", "step=", "inf", "nan", "0x1p-3",
        " 1", "-1", std::string_view("\0", 1)}},
      {"model_file",
       model_file,
       model_file_seeds,
       {"config=", "tokenizer=", "[training]\n", "batch = 1\n", std::string_view("\0", 1)}},
      {"llama_config",
       llama_config,
       llama_config_seeds,
       {"\"model_type\":", "\"gemma2\"", "\"qwen3\"", "\"mistral\"", "\"rope_type\":\"yarn\"", "null", "1e308", "-1",
        "\"partial_rotary_factor\":", "\"head_dim\":", "2147483647", "\"attention_bias\":true"}},
      {"language_model",
       language_model,
       language_model_seeds,
       {"\"type\":\"gpt\"", "\"heads\":", "\"layers\":", "\"width\":", "999999999", "-1", "0", "1e300",
        "\"cell\":\"gru\"", "true"}},
      {"report",
       report,
       report_seeds,
       {"{\"event\":\"step\"", "\"start\"", "\"resume\"", "\"eval\"", "\"loader\"", "\"sample\"",
        ",\"step\":", ",\"seconds\":", "1e308", "null", "\n", "[[", std::string_view("\0", 1)}},
  };
}

}  // namespace heddle::fuzz
