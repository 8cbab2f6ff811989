// `heddle train` on a small folder of MNIST's form, and what its output says.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/subprocess.h"
#include "tests/support/idx_files.h"
#include "tests/support/temporary_folder.h"

namespace heddle::test {

class Train : public testing::Test {
 protected:
  Train() { write_mnist_folder(data, 96, 20); }
  void put(const std::string& name, const Bytes& bytes) { write_bytes(data / name, bytes); }

  // heddle train mnist-mlp on the small folder into `out`; on the reference device, with batch 16 and all 96 images,
  // unless `more` says otherwise.
  Finished train(std::vector<std::string> more, const RunOptions& options = {}) {
    const auto otherwise = [&more](const char* option, const char* value) {
      if (std::find(more.begin(), more.end(), option) == more.end()) more.insert(more.end(), {option, value});
    };
    otherwise("--device", "reference:0");
    otherwise("--batch", "16");
    otherwise("--validation", "0");
    more.insert(more.begin(), {"train", "mnist-mlp", "--data", data.path(), "--out", out});
    return run_heddle(more, options);
  }
  void expect_refused(const std::vector<std::string>& more, const std::string& part) {
    const Finished run = train(more);
    EXPECT_EQ(run.exit_code, 2) << run.out << run.err;
    EXPECT_TRUE(contains(run.err, part));
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_FALSE(std::filesystem::exists(out + "/model.safetensors"));
  }
  static std::vector<nlohmann::json> events(const Finished& run, const std::string& kind) {
    std::vector<nlohmann::json> found;
    for (const std::string& line : run.out_lines()) {
      nlohmann::json event = nlohmann::json::parse(line);
      if (event["event"] == kind) found.push_back(std::move(event));
    }
    return found;
  }
  static std::vector<double> losses(const Finished& run) {
    std::vector<double> values;
    for (const nlohmann::json& step : events(run, "step")) values.push_back(step["loss"].get<double>());
    return values;
  }
  std::string checkpoint(int64_t step) const { return fmt::format("{}/checkpoints/step-{:08}.safetensors", out, step); }

  TemporaryFolder data, parent;
  const std::string out = parent / "run/one";
};

}  // namespace heddle::test
