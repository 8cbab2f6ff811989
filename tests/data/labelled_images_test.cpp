// Images of the user's own: which folders, tables and records are taken, what is refused, how they are held out, and
// what a survey of them says.
#ifdef HEDDLE_HAS_PNG
#include "heddle/data/labelled_images.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "heddle/core/base/error.h"
#include "heddle/data/image_survey.h"
#include "heddle/data/records.h"
#include "tests/support/drawn_images.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using data::Array;
using data::LabelledImages;
using test::contains;
using test::thrown_text;
using Names = std::vector<std::string>;

class OwnImages : public testing::Test {
 protected:
  void draw(const std::string& path, uint8_t value = 7) {
    fs::create_directories(fs::path(folder / path).parent_path());
    data::write_png(folder / path, Array::of(std::vector<uint8_t>(3 * 2 * 4, value), {3, 2, 4}));
  }
  std::string put(const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
  }
  static std::vector<int32_t> labels(const data::LabelledSet& set) {
    std::vector<int32_t> all;
    for (const auto& file : set.files) all.push_back(file.label);
    return all;
  }
  std::string refused(const std::string& path, const data::LabelledImagesOptions& options = {}) {
    return thrown_text<Error>([&] { data::read_labelled_images(path, options); });
  }
  test::TemporaryFolder folder;
};

TEST_F(OwnImages, AFolderOfClasses) {
  for (const char* path : {"p/dog/1.png", "p/dog/2.PNG", "p/cat/1.jpeg", "p/.hidden/1.png", "p/dog/.a.png"}) draw(path);
  put("p/dog/notes.txt", "x");
  put("p/readme.txt", "x");
  const LabelledImages images = data::read_labelled_images(folder / "p");
  EXPECT_EQ(images.classes, (Names{"cat", "dog"}));
  EXPECT_EQ(labels(images.train), (std::vector<int32_t>{0, 1, 1}));
  EXPECT_TRUE(images.validation.empty() && images.test.empty());
  data::Random random(0, 0, 0);
  const data::Sample sample = images.train.dataset(1)->get(2, random);
  EXPECT_EQ(sample[0].shape, (Shape{1, 2, 4}));
  EXPECT_EQ(sample[1].as<int32_t>()[0], 1);
  const LabelledImages known = data::read_labelled_images(folder / "p", {.classes = {"dog", "bird", "cat"}});
  EXPECT_EQ(labels(known.train), (std::vector<int32_t>{2, 0, 0}));
  EXPECT_TRUE(contains(refused(folder / "p", {.classes = {"dog"}}), "the class 'cat' is none of dog"));
}

TEST_F(OwnImages, FilesOfOtherKindsAreSaid) {
  for (const char* name : {"cat/1.png", "dog/1.png"}) draw(name);
  EXPECT_TRUE(data::read_labelled_images(folder.path()).remarks.empty());
  for (const char* name : {"cat/2.webp", "dog/3.WEBP", "dog/readme"}) put(name, "x");
  const LabelledImages images = data::read_labelled_images(folder.path());
  ASSERT_EQ(images.remarks.size(), 1u);
  EXPECT_TRUE(contains(images.remarks[0],
                       "3 files are neither .png, .jpg nor .jpeg and are left out (1 without an "
                       "ending, 2 .webp)"));
}

TEST_F(OwnImages, FoldersOfParts) {
  for (const char* path : {"p/train/cat/1.png", "p/train/dog/1.png", "p/val/dog/2.png", "p/test/cat/3.png"}) draw(path);
  const LabelledImages images = data::read_labelled_images(folder / "p");
  EXPECT_EQ(images.classes, (Names{"cat", "dog"}));
  EXPECT_EQ(labels(images.train), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(labels(images.validation), (std::vector<int32_t>{1}));
  EXPECT_EQ(labels(images.test), (std::vector<int32_t>{0}));
  draw("p/val/zebra/1.png");
  EXPECT_TRUE(contains(refused(folder / "p"), "p/val: the class 'zebra' is none of cat, dog"));
  fs::remove_all(folder / "p/val/zebra");
  draw("p/valid/dog/1.png");
  EXPECT_TRUE(contains(refused(folder / "p"), "two folders for one of training, validation and test"));
  for (const char* path : {"vehicles/train/1.png", "vehicles/bus/1.png"}) draw(path);  // a class of that name
  EXPECT_EQ(data::read_labelled_images(folder / "vehicles").classes, (Names{"bus", "train"}));
}

TEST_F(OwnImages, WhatIsNoFolderOfImages) {
  EXPECT_TRUE(contains(refused(folder / "none"), "none: no such file or folder"));
  fs::create_directories(folder / "empty");
  EXPECT_TRUE(contains(refused(folder / "empty"), "empty: no folders of classes with images in them"));
  draw("flat/1.png");
  EXPECT_TRUE(contains(refused(folder / "flat"), "no folders of classes"));
  draw("p/cat/1.png");
  fs::create_directories(folder / "p/dog");
  EXPECT_TRUE(contains(refused(folder / "p"), "p/dog: the folder of a class has no .png"));
  EXPECT_TRUE(contains(refused(put("a.txt", "x")), "a.txt: neither a folder of images nor a .csv or .rec file"));
}

TEST_F(OwnImages, ATableOfPaths) {
  draw("photos/1.png", 1);
  draw("2.png", 2);
  const std::string path = put("list.csv", "kind,path,note\ndog,photos/1.png,a\ncat,2.png,b\n");
  const LabelledImages images = data::read_labelled_images(path, {.image_column = "path", .class_column = "kind"});
  EXPECT_EQ(images.classes, (Names{"cat", "dog"}));
  EXPECT_EQ(labels(images.train), (std::vector<int32_t>{1, 0}));
  data::Random random(0, 0, 0);
  EXPECT_EQ(images.train.dataset(3)->get(0, random)[0].as<uint8_t>()[0], 1);
  EXPECT_EQ(data::read_labelled_images(put("two.csv", "file,class\n2.png,x\n2.png,y\n")).classes, (Names{"x", "y"}));
  EXPECT_TRUE(contains(refused(path, {.image_column = "file"}), "has no column 'file'; there are: kind, path, note"));
  EXPECT_TRUE(contains(refused(path, {.image_column = "path", .class_column = "path"}), "cannot hold both"));
  EXPECT_TRUE(contains(refused(put("one.csv", "file\n1.png\n")), "a single column"));
  EXPECT_TRUE(contains(refused(put("none.csv", "file,class\n")), "there are no rows"));
  EXPECT_TRUE(contains(refused(put("gap.csv", "file,class\na.png,x\n,y\n")), "row 2 has no path"));
  EXPECT_TRUE(contains(refused(put("bytes.csv", "file,class\na.png,\xff\n")), "is no UTF-8"));
  EXPECT_TRUE(contains(refused(put("nameless.csv", "file,class\na.png,\nb.png,x\n")), "a class has no name"));
}

TEST_F(OwnImages, Records) {
  draw("p/cat/1.png", 1);
  draw("p/dog/1.png", 2);
  const data::ImageFolder source(folder / "p");
  data::pack(source, folder / "p.rec", data::Preprocessing{.classes = source.classes()}.str());
  const LabelledImages images = data::read_labelled_images(folder / "p.rec", {.classes = {"dog", "cat"}});
  data::Random random(0, 0, 0);
  EXPECT_EQ(images.train.dataset(3)->get(0, random)[1].as<int32_t>()[0], 1);
  EXPECT_EQ(images.train.size(), 2);
  data::pack(source, folder / "nameless.rec");
  EXPECT_EQ(data::read_labelled_images(folder / "nameless.rec").classes, (Names{"0", "1"}));
  data::pack(source, folder / "few.rec", data::Preprocessing{.classes = {"cat"}}.str());
  const data::DatasetPtr few = data::read_labelled_images(folder / "few.rec").train.dataset(3);
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { few->get(1, random); }), "record 1 is of class 1 among 1"));
  data::pack(*data::from_arrays({Array::of(std::vector<float>{1, 2}, {2}), Array::of(std::vector<int32_t>{0, 1}, {2})}),
             folder / "numbers.rec");
  EXPECT_TRUE(contains(refused(folder / "numbers.rec"), "record 0 is no image with a class"));
  EXPECT_TRUE(contains(refused(put("text.rec", "hello")), "not a file of records"));
}

TEST_F(OwnImages, AShareOfEachClassIsHeldOut) {
  data::LabelledSet all;
  for (int i = 0; i < 30; ++i) all.files.push_back({std::to_string(i), i < 20 ? 0 : i < 28 ? 1 : i < 29 ? 2 : 3});
  const data::HeldOut parts = data::hold_out(all, 0.25, 5);
  std::map<int32_t, int> held;
  std::set<std::string> names;
  for (const auto& file : parts.held_out.files) ++held[file.label], names.insert(file.path);
  EXPECT_EQ(held, (std::map<int32_t, int>{{0, 5}, {1, 2}}));  // not the only image of a class
  for (const auto& file : parts.rest.files) EXPECT_TRUE(names.insert(file.path).second);
  EXPECT_EQ(names.size(), 30u);
  const auto paths = [](const data::HeldOut& p) {
    Names found;
    for (const auto& file : p.held_out.files) found.push_back(file.path);
    return found;
  };
  EXPECT_EQ(paths(data::hold_out(all, 0.25, 5)), paths(parts));
  EXPECT_NE(paths(data::hold_out(all, 0.25, 6)), paths(parts));
  EXPECT_TRUE(data::hold_out(all, 0, 5).held_out.empty());
}

// Against the formula, image by image.
TEST_F(OwnImages, ASurveyFindsWhatIsBrokenAndTheStatistics) {
  draw("p/cat/1.png", 51);
  draw("p/cat/2.png", 204);
  draw("p/dog/1.png", 102);
  const data::LabelledSet whole = data::read_labelled_images(folder / "p").train;
  const data::ImageSurvey survey = data::survey_images(*whole.dataset(3), false);
  EXPECT_EQ(survey.whole, (std::vector<int64_t>{0, 1, 2}));
  const double mean = (0.2 + 0.8 + 0.4) / 3, square = (0.04 + 0.64 + 0.16) / 3;
  ASSERT_EQ(survey.statistics.mean.size(), 3u);
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(survey.statistics.mean[c], mean, 1e-12);
    EXPECT_NEAR(survey.statistics.deviation[c], std::sqrt(square - mean * mean), 1e-12);
  }
  put("p/cat/2.png", "");
  put("p/dog/2.png", "no image");
  const data::LabelledSet some = data::read_labelled_images(folder / "p").train;
  const std::string said = thrown_text<IoError>([&] { data::survey_images(*some.dataset(3), false); });
  EXPECT_TRUE(contains(said, "cat/2.png: neither a PNG nor a JPEG file; 2 of 4 images cannot be read; --skip-broken"));
  const data::ImageSurvey rest = data::survey_images(*some.dataset(3), true);
  EXPECT_EQ(rest.whole, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(rest.broken.size(), 2u);
  EXPECT_NEAR(rest.statistics.mean[0], 0.3, 1e-12);
  draw("one/a/1.png", 9);
  EXPECT_DOUBLE_EQ(
      data::survey_images(*data::read_labelled_images(folder / "one").train.dataset(3), false).statistics.deviation[0],
      1.0 / 255);
}

}  // namespace
}  // namespace heddle
#endif
