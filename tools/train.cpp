// heddle train
#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <memory>
#include <string>

#include "tools/cli.h"
#include "tools/trainer.h"

namespace heddle::tools {

void add_train_options(CLI::App& command, TrainOptions& o) {
  command.add_option("recipe", o.recipe, "mnist-mlp: a 784-128-64-10 network on 28x28 images of ten classes")
      ->required();
  command.add_option("--data", o.data,
                      "Folder with MNIST's four IDX files, plain or .gz; default: the embedded set of drawn digits");
  add_device_option(command, o.device);
  command.add_option("--epochs", o.epochs, "Passes over the training images")->capture_default_str();
  command.add_option("--batch", o.batch, "Images in a step")->capture_default_str();
  command.add_option("--lr", o.lr, "Learning rate at the start")->capture_default_str();
  command.add_option("--schedule", o.schedule, "Learning rate over the run: cosine (falls to 0) or constant")
      ->capture_default_str();
  command.add_option("--optimizer", o.optimizer, "sgd (momentum 0.9), adam, adamw or lion")->capture_default_str();
  command.add_option("--weight-decay", o.weight_decay, "Weight decay")->capture_default_str();
  command.add_option("--clip-norm", o.clip_norm, "Largest norm of all gradients together: larger ones are scaled down; default: none");
  command.add_option("--seed", o.seed, "Seed of weights and order of the data: the same on every device")
      ->check([](const std::string& text) {  // CLI11 wraps -1 and saturates what is too long
        uint64_t seed = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        return whole ? std::string() : fmt::format("'{}' is not a number from 0 to 18446744073709551615", text);
      })
      ->capture_default_str();
  command.add_option("--out", o.out, "Folder for model.safetensors and checkpoint.safetensors")->capture_default_str();
  command.add_option("--checkpoint-every", o.checkpoint_every, "Steps between checkpoints; 0: one after each epoch")
      ->capture_default_str();
  command.add_option("--limit-steps", o.limit_steps, "Stop after that many steps of the run; 0: no limit")
      ->capture_default_str();
  command.add_option("--limit-test", o.limit_test, "Test on that many images only; 0: all")->capture_default_str();
  add_budget_option(command, o.memory_budget);
  command.add_flag("--resume", o.resume, "Go on from checkpoint.safetensors in --out");
}

void add_train(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("train", "Train a recipe and save the model");
  auto options = std::make_shared<TrainOptions>();
  add_train_options(*command, *options);
  add_json_option(*command, options->json);
  command->footer(
      "Ctrl-C saves a checkpoint and ends with exit code 130; a second Ctrl-C ends at once.\n"
      "Example:\n  heddle train mnist-mlp --device vulkan:0 --epochs 2 --out runs/first");
  command->callback([options, &cli] { cli.exit_code = Trainer(*options).run(); });
}

}  // namespace heddle::tools
