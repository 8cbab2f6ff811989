// data/array.h: nobody reads or writes an array whose bytes are not those of its shape.
#include "heddle/data/array.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/data/collate.h"
#include "heddle/data/dataset.h"
#include "heddle/data/image_file.h"
#include "heddle/data/numpy.h"
#include "heddle/data/records.h"
#include "heddle/data/transforms.h"
#include "heddle/io/safetensors.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using data::Array;
using data::Sample;
using test::contains;
using test::thrown_text;

TEST(Array, IsWhole) {
  EXPECT_EQ(thrown_text<ShapeError>([] {
              Array::of(std::vector<float>{1, 2, 3}, {2, 2});
            }),
            "[array] (2, 2) f32 takes 16 bytes, the array has 12");
  EXPECT_TRUE(contains(thrown_text<ShapeError>([] { Array::of(std::vector<int64_t>{}, Shape{int64_t{1} << 61}); }),
                       "too many bytes"));
  EXPECT_EQ(Array::of(std::vector<float>{}, {0, 3}).bytes.size(), 0u);
}

// Shorter and longer than the shape says, through everything that goes by the shape.
TEST(Array, WhatIsNotWholeIsRefused) {
  const test::TemporaryFolder folder;
  const auto image = [](size_t bytes) { return Array{DType::u8, {1, 4, 5}, std::vector<std::byte>(bytes)}; };
  const auto tokens = [](size_t bytes) { return Array{DType::i32, {5}, std::vector<std::byte>(bytes)}; };
  data::Random random(0, 0, 0);
  const std::map<std::string, std::function<void(const Array& image, const Array& tokens)>> users = {
#ifdef HEDDLE_HAS_PNG
      {"write_png", [&](const Array& a, const Array&) { data::write_png(folder / "a", a); }},
#endif
      {"write_npy", [&](const Array& a, const Array&) { data::write_npy(folder / "a", a); }},
      {"records", [&](const Array& a, const Array&) { data::RecordWriter(folder / "a").add({a}); }},
      {"stack",
       [&](const Array& a, const Array&) {
         data::stack(std::vector<Sample>{{a}, {a}});
       }},
      {"to_tensors", [&](const Array& a, const Array&) { data::to_tensors({a}, device("reference:0")); }},
      {"from_arrays", [&](const Array& a, const Array&) { data::from_arrays({a}); }},
      {"resize", [&](const Array& a, const Array&) { data::resize(2, 2)({a}, random); }},
      {"random_crop", [&](const Array& a, const Array&) { data::random_crop(2, 2)({a}, random); }},
      {"random_flip", [&](const Array& a, const Array&) { data::random_flip(1)({a}, random); }},
      {"to_float", [&](const Array& a, const Array&) { data::to_float()({a}, random); }},
      {"padded", [&](const Array&, const Array& t) { data::padded({})(std::vector<Sample>{{t}}); }},
      {"packed", [&](const Array&, const Array& t) { data::packed(8, 0)(std::vector<Sample>{{t}}); }},
  };
  for (const auto& [name, use] : users) {
    for (const int wrong : {-4, 4}) {
      const std::string said = thrown_text<ShapeError>(
          [&, &used = use] { used(image(static_cast<size_t>(20 + wrong)), tokens(static_cast<size_t>(20 + wrong))); });
      EXPECT_TRUE(contains(said, " takes 20 bytes, the array has ")) << name << ": " << said;
    }
    use(image(20), tokens(20));
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "a.png"));
}

TEST(Array, TensorsOfAFileAreWhole) {
  const test::TemporaryFolder folder;
  const std::vector<uint8_t> bytes(10);
  const std::string path = folder / "a.safetensors";
  for (const Shape& shape : {Shape{3}, Shape{2}}) {
    EXPECT_TRUE(contains(thrown_text<ValueError>([&] {
                           write_safetensors(path, {{"x", {DType::f32, shape, bytes}}});
                         }),
                         "tensor 'x' is "));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Array, ImagesHavePixelsAndBounds) {
  data::Random random(0, 0, 0);
  EXPECT_TRUE(contains(thrown_text<ShapeError>([&] {
                         data::resize(2, 2)({Array{DType::u8, {1, 0, 5}, {}}}, random);
                       }),
                       "it has no pixels"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { data::resize(int64_t{1} << 40, int64_t{1} << 40); }),
                       "expected 1 to 2^28"));
}

}  // namespace
}  // namespace heddle
