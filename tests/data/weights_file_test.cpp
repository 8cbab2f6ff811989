// Weights of whichever file holds them: PyTorch's and safetensors, by the file's name.
#include "heddle/io/weights_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "heddle/core/device/context.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/torch_file.h"

namespace heddle {
namespace {

using tests::expect_error;

class WeightsFile : public testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < 16; ++i) values_.push_back(static_cast<float>(i) - 2.5f);
    storage_.assign(reinterpret_cast<const char*>(values_.data()), values_.size() * sizeof(float));
  }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  static std::vector<float> loaded(const std::string& path) {
    return load_weights(path, &device("reference:0")).tensors.at("w").to_vector<float>();
  }
  test::TemporaryFolder folder_;
  std::vector<float> values_;
  std::string storage_;
};

TEST_F(WeightsFile, IsReadByItsName) {
  const std::vector<float> first(values_.begin(), values_.begin() + 6);
  const std::string state = test::torch_state();
  for (const char* name : {"w.pt", "w.pth", "w.bin", "w.ckpt"}) {
    EXPECT_EQ(loaded(write(name, test::torch_archive(state, storage_))), first) << name;
    EXPECT_TRUE(weights_metadata(folder_ / name).empty());
  }
  EXPECT_EQ(loaded(write("old.pth", test::legacy_torch_file(state, storage_))), first);
  const std::string path = folder_ / "w.safetensors";
  save_safetensors(path, {{"w", Tensor::from_vector(values_, {4, 4}, &device("reference:0"))}}, {{"made", "here"}});
  EXPECT_EQ(loaded(path), values_);
  EXPECT_EQ(weights_metadata(path).at("made"), "here");
}

TEST_F(WeightsFile, ErrorsAreTheReaders) {
  expect_error<IoError>([&] { loaded(write("w.pt", "not a tensor")); }, {"[torch]", "w.pt"});
  expect_error<IoError>([&] { loaded(write("w.model", "not a tensor")); }, {"[safetensors]", "w.model"});
  expect_error<IoError>([&] { loaded(folder_ / "none.pth"); }, {"none.pth"});
}

}  // namespace
}  // namespace heddle
