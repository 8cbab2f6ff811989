// Task: what a training run trains, behind one interface: a model, its data, its loss and its evaluation.
//
//   struct Regression final : train::Task { ... };
//   Regression task(device);
//   train::Trainer(task, config, device).run();
//
// Purpose: the trainer (train/trainer.h) knows nothing of images or text; recipes (train/recipe.h) are Tasks with
// defaults. Invariants: loss() records and does not wait; everything a task draws comes from the seed. Errors: those of
// the model and the data. Thread safety: none; datasets are read by the loader's workers (data/dataset.h).
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/data/loader.h"
#include "heddle/io/safetensors.h"
#include "heddle/nn/module.h"
#include "heddle/train/risk_coverage.h"

namespace heddle::train {

struct TrainingData {
  std::string name;                              // "stroke-digits", or the file or folder it was read from
  data::DatasetPtr dataset;                      // or `stream`
  std::vector<data::Transform> transforms = {};  // of each example, in the loader's workers
  data::SamplerPtr sampler = nullptr;            // null: all examples of `dataset`, shuffled by the run's seed
  data::Collate collate = data::stack;
  int64_t tokens = 0;  // of an example, for models of text
  // Instead of `dataset`: passes over it, opened as epochs 0, 1, ..., follow each other until training.steps updates
  // are done. A resumed run opens the pass that was under way and skips what it had seen: it repeats the losses bit for
  // bit if open() gives the same examples again.
  data::IterableDatasetPtr stream = nullptr;
};

struct Evaluation {
  std::string split;  // "validation" or "test"
  double loss = std::numeric_limits<double>::quiet_NaN();
  int64_t examples = 0;
  std::vector<std::pair<std::string, double>> metrics =
      {};  // "accuracy", "top5", "perplexity" ...; the first is what a line of progress shows
  std::vector<std::vector<int64_t>> confusion = {};  // [label][prediction]; empty for what is no classification

  std::vector<RiskPoint> curve = {};  // of a classifier that may pass a case on to a person

  // NaN for one that was not measured.
  double metric(const std::string& name) const {
    for (const auto& [known, value] : metrics) {
      if (known == name) return value;
    }
    return std::numeric_limits<double>::quiet_NaN();
  }
};

// What a model says of one example.
struct Prediction {
  std::string file;                                      // the image or the table; a number where the data has no files
  int64_t row = 0;                                       // of a table, from 1; 0: none
  std::string label = {};                                // what it is, where that is known
  std::vector<std::pair<std::string, double>> top = {};  // classes with their probabilities, the likeliest first
  double value = std::numeric_limits<double>::quiet_NaN();  // of a model of numbers, which has no classes
};

// What a generative model makes: a text, or an image.
struct Generated {
  std::string text = {};
  data::Array image = {};       // pixels u8 (1 or 3, height, width)
  std::string image_path = {};  // where the trainer put it, from the run's folder

  bool empty() const { return text.empty() && image.bytes.empty(); }
};

// What the last line of a run says besides its losses.
struct Figure {
  std::string name;
  std::variant<int64_t, double, std::string> value;
};

class PartedModel;  // train/model_parallel/parted_model.h

class Task {
 public:
  virtual ~Task() = default;
  virtual nn::Module& model() = 0;
  // Where ranks have parts of the model: this rank's, of which model() are the parameters; null: it is whole.
  virtual PartedModel* parted() { return nullptr; }
  // What loss() calls: the model, or where that is a part by itself (adapters) the network that it stands beside.
  virtual nn::Module& network() { return model(); }
  virtual const TrainingData& training() const = 0;
  // The mean loss over a batch as the loader gives it, rank 0, with gradients.
  virtual Tensor loss(const std::vector<Tensor>& batch) = 0;
  // Whether every example has the same weight in it: then the means of equal parts of a batch make up its mean, and
  // ranks may share batches.
  virtual bool loss_weighs_examples_alike() const { return true; }
  // Names of what loss() finds besides, which lines of steps show; always the same ones.
  virtual std::vector<std::string> names_of_step() const { return {}; }
  // What the last loss() found: rank 0, without gradients, in the order of the names. Not asked for where an update is
  // accumulated from parts.
  virtual std::vector<Tensor> take_figures_of_step() { return {}; }
  // Over the validation data, or its first `limit` examples when limit > 0: what the plateau, the best checkpoint and
  // early stopping look at. The model is in evaluation mode meanwhile.
  virtual Evaluation evaluate(int64_t limit = 0) = 0;
  // The same over the test data, once at the end of a run, so that no choice was made with it. No examples: there is no
  // test data, or evaluate() looks at it.
  virtual Evaluation test(int64_t /*limit*/ = 0) { return {}; }
  // What the model says of each example that test() looks at, or evaluate() where there is no test, in order. The model
  // is in evaluation mode. False: it predicts neither classes nor numbers.
  virtual bool predict(int64_t /*limit*/, const Callable<void(const Prediction& prediction)>& /*see*/) { return false; }
  // Something new, always from the same chance, in evaluation mode; empty for models that make nothing.
  virtual Generated generate() { return {}; }
  // What using the model takes besides its weights (means, a vocabulary, names of classes): stored with it.
  virtual Metadata metadata() const { return {}; }
  // Takes the weights of another model, which config.run.init_from names, in the place of those that were drawn.
  virtual void begin_with(const nn::StateDict& state) { model().load_state_dict(state); }
  // Writes what stands beside the run's model, whose weights these are, into its folder.
  virtual void write_beside(const std::string& /*folder*/) {}
  virtual std::vector<Figure> figures() const { return {}; }
  // What a user should know before the run begins, a line each: what was left out, what begins anew.
  virtual std::vector<std::string> remarks() const { return {}; }
};

}  // namespace heddle::train
