// heddle pack: every format that it takes, through the command; the same bytes, and the same training, from the file as
// from the source.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/data/cifar.h"
#include "heddle/data/csv.h"
#include "heddle/data/datasets.h"
#include "heddle/data/image_file.h"
#include "heddle/data/numpy.h"
#include "heddle/data/preprocess.h"
#include "heddle/data/records.h"
#include "heddle/data/text.h"
#include "heddle/nn/layers.h"
#include "heddle/train/trainer.h"
#include "tests/cli/subprocess.h"
#include "tests/cli/user_error.h"
#include "tests/support/idx_files.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using data::Array;
using data::DatasetPtr;
using test::Bytes;

DeviceContext& host() { return device("reference:0"); }

// A linear layer over the first array of an example.
class FirstArray final : public train::Task {
 public:
  explicit FirstArray(DatasetPtr set) : layer_(made(*set)) { data_ = {.name = "packed", .dataset = std::move(set)}; }
  nn::Module& model() override { return layer_; }
  const train::TrainingData& training() const override { return data_; }
  Tensor loss(const std::vector<Tensor>& batch) override {
    return mean(square(layer_(cast(reshape(batch.at(0), {batch.at(0).dim(0), -1}), DType::f32) * 0.01) - 1.0));
  }
  train::Evaluation evaluate(int64_t) override { return {}; }

 private:
  static nn::Linear made(const data::Dataset& set) {
    manual_seed(1);
    data::Random random(0, 0, 0);
    return nn::Linear(set.get(0, random)[0].shape.numel(), 1, {.device = host()});
  }
  nn::Linear layer_;
  train::TrainingData data_;
};

double last_loss(const DatasetPtr& set) {
  FirstArray task(set);
  train::Config c;
  c.training.batch = 2;
  c.training.steps = 3;
  train::Trainer trainer(task, c, host());
  trainer.run(false);
  return trainer.last_loss();
}

class Pack : public testing::Test {
 protected:
  std::string put(const std::string& name, const Bytes& bytes) {
    fs::create_directories(fs::path(folder / name).parent_path());
    test::write_bytes(folder / name, bytes);
    return folder / name;
  }
  std::string put_text(const std::string& name, const std::string& text) {
    return put(name, Bytes(text.begin(), text.end()));
  }

  // Packs, compares every example with the source's, and trains from both. The metadata.
  data::Preprocessing expect_packed(const std::string& source, const DatasetPtr& expected,
                                    std::vector<std::string> options = {}) {
    const std::string out = folder / "packed.rec";
    options.insert(options.begin(), {"pack", source, "--out", out});
    const test::Finished run = test::run_heddle(options);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const auto file = std::make_shared<data::RecordFile>(out);
    EXPECT_EQ(file->size(), expected->size());
    data::Random random(0, 0, 0);
    for (int64_t i = 0; i < file->size(); ++i) {
      const data::Sample a = file->get(i, random), b = expected->get(i, random);
      EXPECT_EQ(a.size(), b.size());
      for (size_t k = 0; k < std::min(a.size(), b.size()); ++k)
        EXPECT_TRUE(a[k].dtype == b[k].dtype && a[k].shape == b[k].shape && a[k].bytes == b[k].bytes)
            << "array " << k << " of " << i;
    }
    EXPECT_EQ(last_loss(file), last_loss(expected));
    EXPECT_EQ(test::run_heddle({"pack", "verify", out}).exit_code, 0);
    const data::Preprocessing stored = data::Preprocessing::parse(file->metadata());
    fs::remove(out);
    return stored;
  }
  // One line, exit code 2, and no file.
  void expect_refused(const std::string& source, const std::string& part,
                      const std::vector<std::string>& options = {}) {
    std::vector<std::string> arguments = {"pack", source, "--out", folder / "bad.rec"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    test::expect_user_error(arguments, part);
    for (const std::string& name : folder.names())
      EXPECT_FALSE(name.starts_with("bad.rec")) << name << " after: " << part;
  }
  test::TemporaryFolder folder;
};

TEST_F(Pack, Idx) {
  test::write_mnist_folder(folder, 6, 4, 5);
  const data::Split split = data::read_mnist_folder(folder.path());
  const data::Preprocessing stored = expect_packed(folder.path(), data::dataset_of(split.train));
  EXPECT_EQ(stored.statistics.mean.size(), 1u);
  expect_packed(folder.path(), data::dataset_of(split.test), {"--split", "test", "--kind", "idx"});
  put("train-labels-idx1-ubyte", test::labels_file(5));
  expect_refused(folder.path(), "has 6 images, but");
  put("train-labels-idx1-ubyte", test::idx_file(0x801, {6}, {1, 2, 3}));
  expect_refused(folder.path(), "truncated: the header says 6 bytes");
  put("train-images-idx3-ubyte", test::idx_file(0x803, {0xffffffff, 0xffffffff, 0xffffffff}, {}));
  expect_refused(folder.path(), "impossible sizes");
}

TEST_F(Pack, Cifar) {
  constexpr size_t record = 1 + 3 * 32 * 32;
  const auto batch = [](size_t count, uint8_t seed) {
    Bytes bytes(count * record);
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<uint8_t>(i % record == 0 ? (i / record + seed) % 10 : i * 31 + seed);
    return bytes;
  };
  for (int i = 1; i <= 5; ++i) put("cifar/data_batch_" + std::to_string(i) + ".bin", batch(2, static_cast<uint8_t>(i)));
  put("cifar/test_batch.bin", batch(3, 7));
  put_text("cifar/batches.meta.txt", "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n");
  const std::string source = folder / "cifar";
  const data::ImageClasses sets = data::read_cifar_folder(source);
  ASSERT_EQ(sets.train->size(), 10);
  const data::Preprocessing stored = expect_packed(source, sets.train);
  EXPECT_EQ(stored.classes.at(2), "bird");
  expect_packed(source, sets.test, {"--split", "test"});
  put("cifar/data_batch_3.bin", Bytes(record - 1));
  expect_refused(source, "no whole number of records");
  put("cifar/data_batch_3.bin", Bytes(record, 10));
  expect_refused(source, "label 10 of record 0");
  fs::remove(folder / "cifar/data_batch_3.bin");
  expect_refused(source, "data_batch_3.bin: no such file");
}

#ifdef HEDDLE_HAS_PNG
TEST_F(Pack, FoldersOfImages) {
  for (const char* name : {"cat", "dog"}) {
    fs::create_directories(folder / "photos/" + name);
    for (int i = 0; i < 3; ++i) {
      std::vector<uint8_t> pixels(3 * 4 * 5);
      for (size_t p = 0; p < pixels.size(); ++p)
        pixels[p] = static_cast<uint8_t>(p * 11 + static_cast<size_t>(i) + (name[0] == 'c' ? 0 : 100));
      data::write_png(folder / "photos/" + name + "/" + std::to_string(i) + ".png", Array::of(pixels, {3, 4, 5}));
    }
  }
  const std::string source = folder / "photos";
  const data::Preprocessing stored = expect_packed(source, std::make_shared<data::ImageFolder>(source));
  EXPECT_EQ(stored.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(stored.statistics.mean.size(), 3u);
  const Bytes whole = test::read_bytes(source + "/dog/1.png");
  put("photos/dog/1.png", Bytes(whole.begin(), whole.end() - 30));
  expect_refused(source, "dog/1.png: ");
  put_text("photos/dog/1.png", "GIF89a");
  expect_refused(source, "neither a PNG nor a JPEG file");
  fs::create_directories(source + "/empty");
  expect_refused(source, "the folder of a class has no .png");
}
#endif

TEST_F(Pack, NumPyAndSafetensors) {
  std::ifstream stream(HEDDLE_SOURCE_DIR "/tests/data/numpy_values.json");
  const Json stored = Json::parse(stream);
  const auto from_hex = [](const std::string& text) {
    Bytes bytes;
    for (size_t i = 0; i < text.size(); i += 2)
      bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
    return bytes;
  };
  for (const char* how : {"stored", "deflated", "stored_zip64"}) {
    const std::string npz = put("set.npz", from_hex(stored["archives"][how]));
    expect_packed(npz, data::arrays_dataset(npz));
  }
  const std::string npy = put("set.npy", from_hex(stored["arrays"][1]["file"]));
  expect_packed(npy, data::arrays_dataset(npy));
  const std::string tensors = folder / "set.safetensors";
  save_safetensors(tensors, {{"x", reshape(arange(0, 12, 1, DType::f32, &host()), {4, 3})},
                             {"y", arange(0, 4, 1, DType::i64, &host())}});
  expect_packed(tensors, data::arrays_dataset(tensors));

  expect_refused(put_text("bad.npy", "\x93NUMPY"), "truncated header");
  expect_refused(put("i2.npy", from_hex(stored["refused"]["i2"])), "'<i2' is none of");
  expect_refused(put_text("bad.npz", "PK"), "not a zip archive");
  expect_refused(put_text("bad.safetensors", "short"), "truncated: 5 bytes");
  save_safetensors(tensors, {{"x", zeros({4, 3}, DType::f32, &host())}, {"y", zeros({3}, DType::f32, &host())}});
  expect_refused(tensors, "array 1 has 3 examples, the first has 4");
  save_safetensors(tensors, {{"x", zeros({}, DType::f32, &host())}});
  expect_refused(tensors, "array 0 is a scalar");
}

TEST_F(Pack, CsvAndText) {
  const std::string csv = put_text("a.csv", "x,y,kind\n1,2,cat\n3,4,dog\n5,6.5,cat\n");
  const data::Preprocessing table =
      expect_packed(csv, data::csv_dataset(data::CsvTable(csv), {.label = "kind"}), {"--label", "kind"});
  EXPECT_EQ(table.classes, (std::vector<std::string>{"cat", "dog"}));
  const std::string text = put_text("a.txt", "warp and weft and warp and weft and more");
  const auto tokenizer = std::make_shared<data::CharTokenizer>("warp and weft and warp and weft and more");
  const data::Preprocessing stored = expect_packed(
      text, data::windows(data::token_stream(tokenizer->encode("warp and weft and warp and weft and more")), 8),
      {"--block", "8"});
  EXPECT_EQ(stored.tokenizer->size(), tokenizer->size());
  expect_refused(csv, "no column 'sort'", {"--label", "sort"});
  expect_refused(put_text("b.csv", "x,y\n1,two\n"), "two");
  expect_refused(put_text("b.txt", "ab\xFF"), "UTF-8");
  expect_refused(put_text("c.txt", "short"), "", {"--block", "100"});
  expect_refused(text, "", {"--block", "0"});
  expect_refused(text, "", {"--block", "-3"});
}

TEST_F(Pack, WhatCannotBeMeant) {
  expect_refused(folder / "nothing.csv", "no such file");
  expect_refused(folder / "nothing", "cannot tell what this is");
  expect_refused(put_text("a.csv", "x\n1\n"), "", {"--kind", "idx"});
  const std::string csv = put_text("b.csv", "x\n1\n");
  test::expect_user_error({"pack", csv, "--out", folder / "no/such/folder/a.rec"}, "a.rec");
}

}  // namespace
}  // namespace heddle
