// Predictor: a trained model and what it does to the files that it is asked about, without its training data.
//
//   train::ModelFile file = train::read_model_file("runs/photos", device);
//   const auto predictor = train::make_predictor(file, device);          // train/recipe.h
//   predictor->predict({"a.jpg", "b.jpg"}, {}, [](const train::Prediction& p) { ... p.top.front().first ... });
//
// Invariants: files are prepared as the evaluations of the run prepared theirs, from what is stored with the model:
// what is asked about the examples of an evaluation, in its order, is answered with the same bits. Errors: IoError that
// names a file that cannot be read. Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "heddle/train/task.h"

namespace heddle::train {

struct PredictOptions {
  bool skip_broken = false;  // leave files out that cannot be read
};

class Predictor {
 public:
  virtual ~Predictor() = default;
  virtual nn::Module& model() = 0;
  // Each example of some files, in order: images, of a folder all below it; the rows of tables.
  virtual void predict(const std::vector<std::string>& files, const PredictOptions& options,
                       const Callable<void(const Prediction& prediction)>& see) = 0;
  // What there is to say about what was predicted so far, a line each.
  virtual std::vector<std::string> remarks() const { return {}; }
};

}  // namespace heddle::train
