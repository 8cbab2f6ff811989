// CSV, CIFAR, NumPy and named arrays: what is read, and files that lie.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/data/cifar.h"
#include "heddle/data/csv.h"
#include "heddle/data/numpy.h"
#include "heddle/io/safetensors.h"
#include "tests/support/corrupt.h"

namespace heddle {
namespace {

using data::Array;
using data::Random;
using test::contains;
using test::thrown_text;
using Json = nlohmann::json;

std::vector<uint8_t> from_hex(const std::string& text) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::vector<double> values_of(const Array& a) {
  return Tensor::from_bytes(a.bytes.data(), static_cast<size_t>(a.shape.numel()), a.dtype, a.shape,
                            &device("reference:0"))
      .to_doubles();
}

const Json& numpy_values() {
  static const Json values = Json::parse(std::ifstream(HEDDLE_SOURCE_DIR "/tests/data/numpy_values.json"));
  return values;
}

class Readers : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
  }
  test::TemporaryFolder folder;
  Random random{0, 0, 0};
};

using Numpy = Readers;
using Csv = Readers;
using Cifar = Readers;

TEST_F(Numpy, ReadsWhatNumpyWrites) {
  const std::string path = folder / "a.npy";
  for (const Json& item : numpy_values()["arrays"]) {
    test::write_bytes(path, from_hex(item["file"]));
    const Array array = data::read_npy(path);
    EXPECT_EQ(std::vector<int64_t>(array.shape.begin(), array.shape.end()), item["shape"].get<std::vector<int64_t>>());
    EXPECT_EQ(std::to_string(size_of(array.dtype)), item["dtype"].get<std::string>().substr(1)) << name_of(array.dtype);
    EXPECT_EQ(values_of(array), item["values"].get<std::vector<double>>()) << item["dtype"] << item["shape"];
  }
}

TEST_F(Numpy, WritesWhatItReads) {
  const std::string path = folder / "a.npy";
  for (const Json& item : numpy_values()["arrays"]) {
    test::write_bytes(path, from_hex(item["file"]));
    const Array array = data::read_npy(path);
    data::write_npy(path, array);
    EXPECT_TRUE(data::read_npy(path).bytes == array.bytes);
  }
  test::write_bytes(path, from_hex(numpy_values()["arrays"][1]["file"]));  // f4, C order
  const std::vector<uint8_t> before = test::read_bytes(path);
  data::write_npy(path, data::read_npy(path));
  EXPECT_EQ(test::read_bytes(path).size(), before.size());
  EXPECT_TRUE(contains(thrown_text<DTypeError>([&] {
                         data::write_npy(path, {DType::bf16, Shape{1}, std::vector<std::byte>(2)});
                       }),
                       "NumPy has no dtype bf16"));
}

TEST_F(Numpy, RefusesOtherDTypes) {
  const std::string path = folder / "a.npy";
  const auto error = [&](const char* which) {
    test::write_bytes(path, from_hex(numpy_values()["refused"][which]));
    return thrown_text<IoError>([&] { data::read_npy(path); });
  };
  EXPECT_TRUE(contains(error("complex"), "'<c8' is none of"));
  EXPECT_TRUE(contains(error("strings"), "'<U2' is none of"));
  EXPECT_TRUE(contains(error("i2"), "'<i2' is none of"));
  EXPECT_TRUE(contains(error("structured"), "structured arrays are not read"));
}

TEST_F(Numpy, ArchivesAreDatasets) {
  for (const char* how : {"stored", "deflated", "stored_zip64", "deflated_zip64"}) {
    const std::string path = folder / "set.npz";
    test::write_bytes(path, from_hex(numpy_values()["archives"][how]));
    const auto set = data::arrays_dataset(path, {"labels", "images"});
    ASSERT_EQ(set->size(), 2);
    EXPECT_EQ(values_of(set->get(1, random)[0]), std::vector<double>{1});
    EXPECT_EQ(values_of(set->get(0, random)[1])[3], -4);
    EXPECT_TRUE(contains(thrown_text<ValueError>([&] { data::arrays_dataset(path, {"x"}); }),
                         "no array 'x'; there are: images, labels"));
  }
}

TEST_F(Numpy, SurvivesCorruption) {
  for (const size_t index : {1, 8, 11}) {
    const std::string path = folder / "a.npy";
    test::write_bytes(path, from_hex(numpy_values()["arrays"][index]["file"]));
    test::survive_corruption(path, [&] { data::read_npy(path); });
  }
  for (const char* how : {"stored", "deflated", "stored_zip64"}) {
    const std::string path = folder / "set.npz";
    test::write_bytes(path, from_hex(numpy_values()["archives"][how]));
    test::survive_corruption(path, [&] { data::read_npz(path); });
  }
}

// Eight names for one entry: each fits into the file, all of them together do not. Such files unpack to far more than
// deflate can say.
TEST_F(Numpy, EntriesThatShareTheirBytesAreRefused) {
  const std::string path = folder / "set.npz";
  const std::vector<uint8_t> file = from_hex(numpy_values()["archives"]["stored"]);
  const size_t end = file.size() - 22, directory = file[end + 16] | size_t{file[end + 17]} << 8;
  const size_t length = (end - directory) / 2;  // of one of its two entries
  const auto shared = [&](uint8_t names) {
    const std::span<const uint8_t> all(file), before = all.first(directory), entry = all.subspan(directory, length);
    const std::span<const uint8_t> behind = all.subspan(end);
    std::vector<uint8_t> made(before.begin(), before.end());
    for (uint8_t i = 0; i < names; ++i) {
      made.insert(made.end(), entry.begin(), entry.end());
      made[made.size() - length + 46] = static_cast<uint8_t>('a' + i);  // the name begins
    }
    const size_t at = made.size();
    made.insert(made.end(), behind.begin(), behind.end());
    made[at + 8] = made[at + 10] = names;
    test::write_bytes(path, made);
  };
  shared(1);
  EXPECT_EQ(data::read_npz(path).size(), 1u);
  shared(8);
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_npz(path); }), "its entries overlap"));
}

// Where the 32-bit end has no room for its numbers, the 64-bit one counts; neither is believed.
TEST_F(Numpy, TheDirectoryOfALargeArchive) {
  const std::string path = folder / "set.npz";
  std::vector<uint8_t> file = from_hex(numpy_values()["archives"]["stored_zip64"]);
  const size_t end = file.size() - 22, locator = end - 20, end64 = locator - 56;
  const auto put = [&](size_t at, size_t bytes, uint64_t value) {
    for (size_t i = 0; i < bytes; ++i) file[at + i] = static_cast<uint8_t>(value >> (8 * i));
    test::write_bytes(path, file);
  };
  const auto error = [&] { return thrown_text<IoError>([&] { data::read_npz(path); }); };
  put(end + 10, 2, 0xFFFF);
  put(end + 16, 4, 0xFFFFFFFF);
  EXPECT_EQ(data::read_npz(path).size(), 2u);
  const std::vector<uint8_t> whole = file;
  for (const uint64_t offset : {uint64_t{0}, uint64_t{1} << 40, ~uint64_t{0}}) {
    put(end64 + 48, 8, offset);
    EXPECT_FALSE(error().empty()) << offset;
  }
  file = whole;
  put(end64 + 32, 8, ~uint64_t{0});  // entries
  EXPECT_TRUE(contains(error(), "corrupt"));
  file = whole;
  for (const uint64_t offset : {uint64_t{3}, ~uint64_t{0} - 1}) {
    put(locator + 8, 8, offset);
    EXPECT_FALSE(error().empty()) << offset;
  }
  // The extra field of the first entry: sizes that are larger than the file, and a length that reaches behind it.
  file = whole;
  const size_t directory = static_cast<size_t>(file[end64 + 48]) | static_cast<size_t>(file[end64 + 49]) << 8,
               extra = directory + 46 + file[directory + 28];
  ASSERT_EQ(file[extra], 1);
  put(extra + 12, 8, uint64_t{1} << 63);
  EXPECT_TRUE(contains(error(), "overlap"));
  put(extra + 2, 2, 0xFFFF);
  EXPECT_TRUE(contains(error(), "extra field of entry 'images.npy' is corrupt"));
}

TEST_F(Numpy, AHeaderIsNotBelieved) {
  const std::string path = folder / "a.npy";
  std::string file = "\x93NUMPY\x01";
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (100000000000, 100000000), }\n";
  file += std::string(1, '\0') + static_cast<char>(header.size()) + std::string(1, '\0') + header + "abcd";
  write("a.npy", file);
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_npy(path); }), "overflows"));
  file.replace(file.find("100000000000"), 12, "1           ");
  write("a.npy", file);
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_npy(path); }), "needs 400000000 bytes, found 4"));
}

TEST_F(Readers, SafetensorsAreDatasets) {
  const std::string path = folder / "set.safetensors";
  DeviceContext& host = device("reference:0");
  save_safetensors(path, {{"x", Tensor::from_vector<float>({1, 2, 3, 4}, {2, 2}, &host)},
                          {"y", Tensor::from_vector<int64_t>({5, 6}, {2}, &host)}});
  const auto set = data::arrays_dataset(path);
  ASSERT_EQ(set->size(), 2);
  EXPECT_EQ(values_of(set->get(1, random)[0]), (std::vector<double>{3, 4}));
  EXPECT_EQ(set->get(1, random)[1].dtype, DType::i64);
  test::survive_corruption(path, [&] { data::read_arrays(path); });
  EXPECT_TRUE(
      contains(thrown_text<ValueError>([&] { data::read_arrays("a.bin"); }), "ends with .npy, .npz or .safetensors"));
}

TEST_F(Csv, ColumnsByName) {
  const std::string path =
      write("a.csv", "\xEF\xBB\xBFheight, width,kind\r\n1.5, 2 ,cat\r\n\"3\",-4e-1,\"do\"\"g,\nx\"\r\n\r\n5,6,cat");
  const data::CsvTable table(path);
  EXPECT_EQ(table.columns(), (std::vector<std::string>{"height", " width", "kind"}));
  ASSERT_EQ(table.size(), 3);
  EXPECT_EQ(table.text(1, 2), "do\"g,\nx");
  EXPECT_EQ(table.classes(2), (std::vector<std::string>{"cat", "do\"g,\nx"}));
  const auto set = data::csv_dataset(table, {.label = "kind"});
  ASSERT_EQ(set->size(), 3);
  const data::Sample sample = set->get(1, random);
  EXPECT_EQ(values_of(sample[0]), (std::vector<double>{3, -0.4f}));
  EXPECT_EQ(values_of(sample[1]), std::vector<double>{1});
  EXPECT_EQ(values_of(data::csv_dataset(table, {.numbers = {" width"}})->get(2, random)[0]), std::vector<double>{6});
}

TEST_F(Csv, WithoutHeader) {
  const data::CsvTable table(write("a.csv", "1;2\n3;4\n"), {.separator = ';', .header = false});
  EXPECT_EQ(table.columns(), (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(table.number(1, table.column("1")), 4);
}

TEST_F(Csv, BadFilesAreNamedWithTheLine) {
  const auto error = [&](const std::string& text) {
    return thrown_text<IoError>([&] { data::csv_dataset(data::CsvTable(write("bad.csv", text)), {.label = "b"}); });
  };
  EXPECT_TRUE(contains(error("a,b\n1,x\n\n2\n"), "bad.csv:4: the row has 1 fields, the first one has 2"));
  EXPECT_TRUE(contains(error("a,b\n\"1\n\n\",x\n2,3,4"), "bad.csv:5: the row has 3 fields"));
  EXPECT_TRUE(contains(error("a,b\n1,\"x\n"), "bad.csv:2: a quote that opens here is not closed"));
  EXPECT_TRUE(contains(error("a,b\n\"1\"2,x\n"), "bad.csv:2: a quoted field goes on behind its closing quote"));
  EXPECT_TRUE(contains(error("a,b\n1,x\none,x\n"), "bad.csv:3: 'one' in column 'a' is not a number"));
  EXPECT_TRUE(contains(error("a,b\n,x\n"), "'' in column 'a' is not a number"));
  EXPECT_TRUE(contains(error("a,b\n ,x\n"), "bad.csv:2: ' ' in column 'a' is not a number"));
  EXPECT_TRUE(contains(error("a,b\n \t ,x\n"), "in column 'a' is not a number"));
  EXPECT_TRUE(contains(error("b,b\n1,x\n"), "two columns have one name"));
  EXPECT_TRUE(contains(error(""), "there are no rows"));
  const data::CsvTable table(write("good.csv", "a,b\n1,x\n"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { data::csv_dataset(table, {.label = "c"}); }),
                       "no column 'c'; there are: a, b"));
  EXPECT_TRUE(contains(thrown_text<IoError>([&] {
                         data::csv_dataset(table, {.label = "b", .classes = {"y", "z"}});
                       }),
                       "the label 'x' of row 1 is none of the classes y, z"));
}

TEST_F(Csv, SurvivesCorruption) {
  const std::string path = write("a.csv", "a,b,c\n1,\"x\",2\n3,\"y\"\"\",4\r\n");
  test::survive_corruption(path, [&] {
    const data::CsvTable table(path);
    for (int64_t row = 0; row < table.size(); ++row) table.number(row, 0);
  });
}

std::string cifar_records(int count, int labels) {
  std::string file;
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < labels; ++k) file.push_back(static_cast<char>(i + k));
    for (int p = 0; p < 3072; ++p) file.push_back(static_cast<char>(i + p));
  }
  return file;
}

TEST_F(Cifar, Ten) {
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"})
    write(name, cifar_records(3, 1));
  write("batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  const data::ImageClasses sets = data::read_cifar_folder(folder.path());
  EXPECT_EQ(sets.train->size(), 15);
  EXPECT_EQ(sets.test->size(), 3);
  EXPECT_EQ(sets.classes[9], "j");
  const data::Sample sample = sets.train->get(4, random);
  EXPECT_EQ(sample[0].shape, (Shape{3, 32, 32}));
  EXPECT_EQ(sample[0].as<uint8_t>()[5], 6);
  EXPECT_EQ(values_of(sample[1]), std::vector<double>{1});
}

TEST_F(Cifar, HundredHasFineLabels) {
  write("train.bin", cifar_records(2, 2));
  write("test.bin", cifar_records(1, 2));
  const data::ImageClasses sets = data::read_cifar_folder(folder.path());
  EXPECT_EQ(values_of(sets.train->get(1, random)[1]), std::vector<double>{2});
  EXPECT_EQ(sets.classes.size(), 100u);
}

TEST_F(Cifar, BadFiles) {
  const std::string path = write("a.bin", cifar_records(2, 1) + "x");
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_cifar({path}, data::Cifar::ten); }),
                       "6147 bytes are no whole number of records of 3073"));
  write("a.bin", cifar_records(12, 1));
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_cifar({path}, data::Cifar::ten); }),
                       "label 10 of record 10 is not between 0 and 9"));
  EXPECT_TRUE(
      contains(thrown_text<IoError>([&] { data::read_cifar_folder(folder.path()); }), "neither data_batch_1.bin"));
  write("a.bin", cifar_records(1, 1));
  test::survive_corruption(path, [&] { data::read_cifar({path}, data::Cifar::ten); });
}

}  // namespace
}  // namespace heddle
