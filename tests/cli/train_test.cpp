// `heddle train` and `eval` end to end on small MNIST-type folders: files, JSON, bad data. Runs that end before their
// time and go on: train_resume_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/io/safetensors.h"
#include "tests/cli/subprocess.h"
#include "tests/cli/train_fixture.h"
#include "tests/support/devices.h"
#include "tests/support/idx_files.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::available;
using test::Bytes;
using test::contains;
using test::Finished;
using test::Train;

TEST_F(Train, JsonEventsAndFiles) {
  const Finished run = train({"--epochs", "2", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<Json> steps = events(run, "step"), evaluations = events(run, "eval");
  ASSERT_EQ(steps.size(), 12u);  // 2 epochs of 6 steps
  for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(steps[i]["step"], i + 1);
  EXPECT_EQ(steps.front()["lr"], 1e-3);
  EXPECT_NEAR(losses(run).front(), std::log(10.0), 0.15);
  ASSERT_EQ(evaluations.size(), 2u);
  EXPECT_EQ(evaluations.back()["confusion"].size(), 10u);
  EXPECT_EQ(events(run, "loader").size(), 2u);
  const Json start = Json::parse(run.out_lines().front()), done = Json::parse(run.out_lines().back());
  EXPECT_EQ(start["event"], "start");
  EXPECT_EQ(start["parameters"], 109386);
  EXPECT_EQ(done["event"], "done");
  EXPECT_EQ(done["device"], "reference:0");
  EXPECT_EQ(done["step"], 12);
  EXPECT_EQ(done["test_accuracy"], evaluations.back()["metrics"]["accuracy"]);
  for (const char* key : {"test_loss", "seconds", "median_step_ms", "kernels_per_step", "peak_device_bytes"})
    EXPECT_TRUE(done[key].is_number()) << key;
  EXPECT_GT(done["median_step_ms"].get<double>(), 0);
  EXPECT_GE(done["peak_device_bytes"].get<double>(), 109386 * 4 * 3);  // parameters and Adam's two moments
  for (const char* name : {"checkpoints", "config.toml", "environment.json", "metrics.jsonl", "model.safetensors"})
    EXPECT_TRUE(std::filesystem::exists(out + "/" + name)) << name;
  std::ifstream metrics(out + "/metrics.jsonl");
  std::vector<double> written;
  for (std::string line; std::getline(metrics, line);) {
    if (const Json event = Json::parse(line); event["event"] == "step") written.push_back(event["loss"].get<double>());
  }
  EXPECT_EQ(written, losses(run));
  const SafetensorsFile model = load_safetensors(out + "/model.safetensors", &device("reference:0"));
  int64_t parameters = 0;
  for (const auto& [name, tensor] : model.tensors) parameters += tensor.numel();
  EXPECT_EQ(parameters, 109386);
}

// The test images are looked at once; what is chosen during the run is chosen on images that were held out.
TEST_F(Train, ValidationIsHeldOutOfTheTrainingSet) {
  const Finished run = train({"--epochs", "2", "--validation", "0.25", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::vector<Json> evaluations = events(run, "eval");
  ASSERT_EQ(evaluations.size(), 3u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(evaluations[i]["split"], "validation");
    EXPECT_EQ(evaluations[i]["examples"], 24);
    EXPECT_EQ(evaluations[i]["step"], 4 * (i + 1));  // 72 images are left
  }
  EXPECT_EQ(evaluations[2]["split"], "test");
  EXPECT_EQ(evaluations[2]["examples"], 20);
  const Json done = Json::parse(run.out_lines().back());
  EXPECT_EQ(done["validation_loss"], evaluations[1]["loss"]);
  EXPECT_EQ(done["test_loss"], evaluations[2]["loss"]);
  const Finished read = test::run_heddle({"eval", "--model", out, "--device", "reference:0"});
  EXPECT_TRUE(contains(read.out, fmt::format("test loss {:.4f}, ", done["test_loss"].get<double>())));
  EXPECT_TRUE(contains(read.out, "on 20 examples of"));
}

TEST_F(Train, WhatTheChoicesLookAtIsSaid) {
  const Finished held_out = train({"--epochs", "1", "--validation", "0.25"});
  for (const char* part :
       {"72 training examples", "epoch 1/1  loss", "validation loss", "on 24 examples\ntest loss", "on 20 examples\n"})
    EXPECT_TRUE(contains(held_out.out, part)) << held_out.out;
  EXPECT_FALSE(contains(held_out.out, "--validation"));
  std::filesystem::remove_all(out);
  EXPECT_TRUE(contains(train({"--epochs", "1"}).out,
                       "evaluations look at the test data, and so do plateau, best checkpoint and early stopping"));
}

TEST_F(Train, EvalRepeatsTheTest) {
  const Finished run = train({"--epochs", "1", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json done = Json::parse(run.out_lines().back());
  for (const std::string& file : {out + "/model.safetensors", checkpoint(6), out}) {
    const Finished again =
        test::run_heddle({"eval", "mnist-mlp", "--model", file, "--device", "reference:0", "--json"});
    ASSERT_EQ(again.exit_code, 0) << again.err;
    const Json tested = Json::parse(again.out);
    EXPECT_EQ(tested["test_accuracy"], done["test_accuracy"]);
    EXPECT_NEAR(tested["test_loss"].get<double>(), done["test_loss"].get<double>(), 1e-6);
    EXPECT_EQ(tested["examples"], 20);
  }
  const Finished other = test::run_heddle({"eval", "mnist-cnn", "--model", out, "--device", "reference:0"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(contains(other.err, "is a model of mnist-mlp, not of mnist-cnn"));
}

// Lion's first step moves every weight with a gradient by the rate, up or down; a tiny norm stops SGD where it stands.
TEST_F(Train, LionAndClipping) {
  const auto weights = [this](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"--epochs", "1", "--limit-steps", "1", "--schedule", "constant", "--lr", "0.01"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::filesystem::remove_all(out);
    const Finished run = train(arguments);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return load_safetensors(out + "/model.safetensors", &device("reference:0")).tensors.begin()->second.to_doubles();
  };
  const std::vector<double> lion = weights({"--optimizer", "lion"}),
                            still = weights({"--optimizer", "sgd", "--clip-norm", "1e-12"});
  ASSERT_EQ(lion.size(), still.size());
  double largest = 0;
  for (size_t i = 0; i < lion.size(); ++i) largest = std::max(largest, std::abs(lion[i] - still[i]));
  EXPECT_NEAR(largest, 0.01, 1e-6);
}

TEST_F(Train, PlainLinesWithoutATerminal) {
  const Finished run = train({"--epochs", "2"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out.find('\r'), std::string::npos);
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
  for (const char* part : {"training mnist-mlp (109,386 parameters) on reference:0", "epoch 1/2", "test loss",
                           ", accuracy 0.", "samples/s", "model          "}) {
    EXPECT_TRUE(contains(run.out, part));
  }
}

// The terminal, metrics.jsonl and the report say the same speed.
TEST_F(Train, OneSpeedEverywhere) {
  const Finished run = train({"--epochs", "2"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  std::string line;
  for (const std::string& l : run.out_lines()) line = l.starts_with("speed ") ? l : line;
  std::string shown = line.substr(15, line.find(" samples/s") - 15);
  std::erase(shown, ',');
  const Finished report = test::run_heddle({"report", out, "--json"});
  ASSERT_EQ(report.exit_code, 0) << report.err;
  const Json of_report = Json::parse(report.out)[0];
  EXPECT_EQ(fmt::format("{:.0f}", of_report["speed"]["samples_per_second"].get<double>()), shown) << line;
  EXPECT_EQ(of_report["speed"]["samples_per_second"], of_report["done"]["samples_per_second"]);
}

TEST_F(Train, ImpossibleNumbers) {
  expect_refused({"--epochs", "0"}, "--epochs is '0'");
  expect_refused({"--batch", "0"}, "--batch is '0'");
  expect_refused({"--batch", "-3"}, "--batch is '-3'");
  expect_refused({"--batch", "97"}, "only 96 examples");
  expect_refused({"--accumulate", "7"}, "an update takes 7 batches of 16, but an epoch has only 6");
  for (const char* lr : {"0", "-1", "nan", "inf"}) expect_refused({"--lr", lr}, "--lr is ");
  expect_refused({"--weight-decay", "-1"}, "--weight-decay");
  expect_refused({"--optimizer", "magic"}, "--optimizer is 'magic', expected one of sgd");
  expect_refused({"--clip-norm", "nan"}, "--clip-norm");
  expect_refused({"--schedule", "magic"}, "--schedule is 'magic'");
  expect_refused({"--validation", "0.005"}, "--validation 0.005 holds out 0 of the 96 training images");
  expect_refused({"--validation", "1"}, "--validation is ");
  expect_refused({"--limit-steps", "-1"}, "--limit-steps");
  expect_refused({"--seed", "x"}, "--seed");
  expect_refused({"--set", "optimizer.lrr=1"}, "did you mean optimizer.lr");
  expect_refused({"--set", "model.hiden=1"}, "did you mean hidden");
  expect_refused({"--set", "lr"}, "expected KEY=VALUE");
  expect_refused({"--optimizer", "adam", "--momentum", "0.5"},
                 "only sgd, rmsprop and muon use it: optimizer.name is adam");
  expect_refused({"--set", "training.loss_scale=1024"}, "only f16 uses it");
}

TEST_F(Train, BadData) {
  put("train-labels-idx1-ubyte", test::labels_file(95));
  expect_refused({}, "has 96 images");
  put("train-labels-idx1-ubyte", test::idx_file(0x801, {96}, Bytes(96, 10)));
  expect_refused({}, "label 10 of item 0 is out of range");
  put("train-labels-idx1-ubyte", test::images_file(1, 2, 2));
  expect_refused({}, "wrong magic number");
  put("train-labels-idx1-ubyte", {1, 2});
  expect_refused({}, "truncated");
  std::filesystem::remove(data / "train-labels-idx1-ubyte");
  expect_refused({}, "no file train-labels-idx1-ubyte");
  put("train-labels-idx1-ubyte", test::labels_file(96));
  put("train-images-idx3-ubyte", test::images_file(96, 14, 14));
  put("t10k-images-idx3-ubyte", test::images_file(20, 14, 14));
  expect_refused({}, "images are 14x14, expected 28x28");
  EXPECT_TRUE(contains(test::run_heddle({"train", "mnist-mlp", "--data", "/nonexistent", "--out", out}).err,
                       "/nonexistent: no such folder"));
}

TEST_F(Train, UnwritableOutputIsRefusedBeforeTraining) {
  test::write_bytes(parent / "file", {1});
  const Finished run =
      test::run_heddle({"train", "mnist-mlp", "--out", parent / "file/run", "--device", "reference:0"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(contains(run.err, "cannot create the folder"));
  EXPECT_EQ(run.out, "");
  const Finished proc = test::run_heddle({"train", "mnist-mlp", "--out", "/proc/heddle", "--device", "reference:0"});
  EXPECT_EQ(proc.exit_code, 2);
  EXPECT_TRUE(contains(proc.err, "/proc/heddle"));
}

TEST_F(Train, EvalRefusesForeignFiles) {
  const auto refused = [&](const std::string& model, const std::string& part) {
    const Finished run = test::run_heddle({"eval", "mnist-mlp", "--model", model, "--device", "reference:0"});
    EXPECT_EQ(run.exit_code, 2) << run.out;
    EXPECT_TRUE(contains(run.err, part));
  };
  refused(parent / "none", "no such file");
  test::write_bytes(parent / "junk", Bytes(100, 'x'));
  refused(parent / "junk", "not a safetensors file");
  save_safetensors(parent / "other", {{"weight", Tensor::from_vector<float>({1, 2}, {2}, &device("reference:0"))}});
  refused(parent / "other", "other");
}

class TrainOnDevice : public Train, public testing::WithParamInterface<const char*> {};

TEST_P(TrainOnDevice, ABudgetChangesNothingButMemory) {
  const std::string id = GetParam();
  if (!available(id)) GTEST_SKIP() << id << " is not available";
  const Finished refused = train({"--device", id, "--epochs", "1", "--memory-budget", "100KiB"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_TRUE(contains(refused.err, "needs at least 2 MiB")) << refused.err;
  std::filesystem::remove_all(out);
  EXPECT_EQ(train({"--device", id, "--epochs", "1", "--memory-budget", "2MiB"}).exit_code, 0);
}

// Everything a script relies on, on a device with kernels: the same seed gives the same losses, the first ones those of
// the reference.
TEST_P(TrainOnDevice, SameSeedSameLosses) {
  const std::string id = GetParam();
  if (!available(id)) GTEST_SKIP() << id << " is not available";
  const auto fresh = [&](const std::string& device_id) {
    std::filesystem::remove_all(out);
    return train({"--epochs", "2", "--json", "--device", device_id});
  };
  const Finished reference = fresh("reference:0"), one = fresh(id), two = fresh(id);
  ASSERT_EQ(one.exit_code, 0) << one.err;
  const std::vector<double> expected = losses(reference), first = losses(one);
  ASSERT_EQ(first.size(), expected.size());
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(first[i], expected[i], 1e-4 * expected[i]) << i;
  EXPECT_EQ(losses(two), first);  // bit for bit
  const Json done = Json::parse(one.out_lines().back());
  EXPECT_EQ(done["device"], id);
  EXPECT_GT(done["kernels_per_step"].get<double>(), 0);
  EXPECT_LE(done["kernels_per_step"].get<double>(), 18);
}
// Whatever kernels read through (HEDDLE_TEXELS, backend_vulkan/physical.h) where a driver offers it.
TEST_F(Train, EveryKindOfTexelBufferGivesTheSameLosses) {
  if (!available("vulkan:0")) GTEST_SKIP() << "vulkan:0 is not available";
  std::vector<double> expected;
  for (const char* kind : {"none", "uniform", "storage"}) {
    std::filesystem::remove_all(out);
    const Finished run =
        train({"--epochs", "1", "--json", "--device", "vulkan:0"}, {.environment = {{"HEDDLE_TEXELS", kind}}});
    ASSERT_EQ(run.exit_code, 0) << kind << ": " << run.err;
    const std::vector<double> found = losses(run);
    if (expected.empty()) expected = found;
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 1e-5 * expected[i]) << kind << ' ' << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, TrainOnDevice, testing::Values("opencl:0", "vulkan:0"),
                         [](const auto& p) { return std::string(p.param).substr(0, std::string(p.param).find(":")); });

}  // namespace
}  // namespace heddle
