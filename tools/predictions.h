// Predictions as `heddle predict` and `heddle eval --predictions` give them: a line of text or of JSON, a row of a CSV
// file.
//
// Errors: IoError for the CSV file, which appears when finish() was called. Thread safety: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heddle/io/atomic_file.h"
#include "heddle/train/task.h"

namespace heddle::tools {

// "photos/a.jpg  cat 0.9731, dog 0.0269": the first `top` classes; of a table's row "rows.csv:1  cat ...", of a number
// "rows.csv:1  12.5".
std::string prediction_text(const train::Prediction& prediction, int64_t top);
// {"file", "row" of a table, "class", "probability", "top": [[class, probability], ...]}, or {"file", "row", "value"}.
std::string prediction_json(const train::Prediction& prediction, int64_t top);

// Columns file, row (of tables), label (where it is known), then class and probability, or value.
class PredictionFile {
 public:
  explicit PredictionFile(const std::string& path);
  void add(const train::Prediction& prediction);
  // The file takes its name.
  void finish();
  int64_t size() const { return size_; }

 private:
  AtomicFile file_;
  std::string pending_;  // not handed over yet
  int64_t size_ = 0;
};

}  // namespace heddle::tools
