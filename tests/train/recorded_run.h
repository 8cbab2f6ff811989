// A recipe's run into a folder, cut or gone on with, and the lines that it wrote. Thread safety: none.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "heddle/train/recipe.h"
#include "heddle/train/trainer.h"
#include "tests/support/temporary_folder.h"

namespace heddle::train {

// Of each step in lines of metrics.jsonl.
inline std::vector<double> losses_of(const std::vector<nlohmann::json>& lines) {
  std::vector<double> losses;
  for (const nlohmann::json& line : lines) {
    if (line["event"] == "step") losses.push_back(line["loss"]);
  }
  return losses;
}

struct RecordedRun {
  Evaluation evaluation;
  std::string model;                  // its file
  std::vector<nlohmann::json> lines;  // of metrics.jsonl
  std::vector<double> losses() const { return losses_of(lines); }
};

// Until step `stop_before` where it is given; with `resume` on from there.
inline RecordedRun recorded_run(Config config, DeviceContext& device, const std::string& folder,
                                int64_t stop_before = -1, bool resume = false) {
  struct Stop final : Callback {
    int64_t before = -1;
    void on_batch_start(Trainer& t) override {
      if (t.step() + 1 == before) t.interrupt();
    }
  };
  const std::unique_ptr<Task> task = make_task(config, device);
  RunFolder files(folder, resume);
  Trainer trainer(*task, config, device);
  trainer.write_to(files);
  const auto stop = std::make_shared<Stop>();
  stop->before = stop_before;
  trainer.add(stop);
  if (resume) trainer.resume();
  trainer.run();
  RecordedRun run{trainer.evaluation(), trainer.model_path(), {}};
  std::istringstream lines(test::read_text(files.file("metrics.jsonl")));
  for (std::string line; std::getline(lines, line);) run.lines.push_back(nlohmann::json::parse(line));
  return run;
}

}  // namespace heddle::train
