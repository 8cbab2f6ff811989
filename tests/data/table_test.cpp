// data/table.h: what a table's columns and target are taken for, how rows are encoded, and what is refused.
#include "heddle/data/table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "heddle/core/base/error.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using data::TableCode;
using data::TableTask;
using test::contains;
using test::thrown_text;
using Names = std::vector<std::string>;

class Tables : public testing::Test {
 protected:
  data::CsvTable table(const std::string& text) {
    std::ofstream(folder / "rows.csv", std::ios::binary) << text;
    return data::CsvTable(folder / "rows.csv");
  }
  static std::vector<int64_t> all_rows(const data::CsvTable& table) {
    std::vector<int64_t> rows(static_cast<size_t>(table.size()));
    std::iota(rows.begin(), rows.end(), int64_t{0});
    return rows;
  }
  static data::MadeTableCode made(const data::CsvTable& t, const std::string& target,
                                  TableTask task = TableTask::automatic) {
    return data::make_table_code(t, data::read_target(t, {target, task}).target, all_rows(t));
  }
  // A table with one column x of numbers and the target's texts.
  data::CsvTable of_target(const std::vector<std::string>& values) {
    std::string text = "x,y\n";
    for (size_t i = 0; i < values.size(); ++i) text += fmt::format("{},{}\n", i, values[i]);
    return table(text);
  }
  std::string refused_target(const std::vector<std::string>& values, TableTask task = TableTask::automatic) {
    const data::CsvTable t = of_target(values);
    return thrown_text<Error>([&] { data::read_target(t, {"y", task}); });
  }
  test::TemporaryFolder folder;
};

TEST_F(Tables, RowsBecomeNumbers) {
  const data::CsvTable t = table("size,town,rooms,price\n1,Ulm,2,10\n3, Bonn ,,20\n5,,4,30\nNA,Ulm,6,45.5\n");
  const data::MadeTableCode m = made(t, "price");
  EXPECT_TRUE(m.remarks.empty());
  ASSERT_EQ(m.code.columns.size(), 3u);
  EXPECT_EQ(m.code.columns[1].categories, (Names{"Bonn", "Ulm"}));
  EXPECT_EQ(m.code.numbers(), 4);
  EXPECT_EQ(m.code.categories(), (std::vector<int64_t>{3}));
  const data::EncodedTable e = data::encode(t, m.code, true);
  ASSERT_EQ(e.features.shape, (Shape{4, 5}));
  const float deviation = std::sqrt(8.0f / 3);  // of 1, 3, 5 and of 2, 4, 6
  const std::vector<float> expected = {-2 / deviation,
                                       0,
                                       -2 / deviation,
                                       0,
                                       2,  //
                                       0,
                                       0,
                                       0,
                                       1,
                                       1,  //
                                       2 / deviation,
                                       0,
                                       0,
                                       0,
                                       0,  //
                                       0,
                                       1,
                                       2 / deviation,
                                       0,
                                       2};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(e.features.as<float>()[i], expected[i], 1e-6) << i;
  const double mean = 105.5 / 4;
  double spread = 0;
  for (const double x : {10.0, 20.0, 30.0, 45.5}) spread += (x - mean) * (x - mean) / 4;
  EXPECT_NEAR(e.target.as<float>()[3], (45.5 - mean) / std::sqrt(spread), 1e-6);
}

TEST_F(Tables, TheCodeReadsBack) {
  const data::CsvTable t = table("a,\"b \"\"x\"\"\",y\n0.1,p,u\n0.25,q,v\n,p,v\n");
  const TableCode code = made(t, "y").code, again = TableCode::parse(code.str());
  EXPECT_EQ(again.str(), code.str());
  const data::EncodedTable one = data::encode(t, code, true), two = data::encode(t, again, true);
  EXPECT_TRUE(one.features.bytes == two.features.bytes);
  EXPECT_TRUE(one.target.bytes == two.target.bytes);
  for (const char* text : {"", "{}", "[]", R"({"columns":[{"name":3}],"target":{}})",
                           R"({"columns":[],"target":{"name":"y","classes":[],"mean":0,"deviation":0}})"})
    EXPECT_TRUE(contains(thrown_text<IoError>([&] { TableCode::parse(text, "m"); }), "[table] m")) << text;
}

TEST_F(Tables, ATargetIsClassesOrANumber) {
  const auto classes = [&](const std::vector<std::string>& values, TableTask task = TableTask::automatic) {
    const data::CsvTable t = of_target(values);
    return data::read_target(t, {"y", task}).target.classes;
  };
  EXPECT_EQ(classes({"no", "yes", "no"}), (Names{"no", "yes"}));
  EXPECT_EQ(classes({"0", "1", "1", "0"}), (Names{"0", "1"}));
  Names ten, digits;
  for (int i = 0; i < 100; ++i) ten.push_back(std::to_string(i % 11));
  EXPECT_EQ(classes(ten).back(), "10");  // by their values
  EXPECT_TRUE(classes({"1", "2", "3", "4", "5", "6"}).empty());
  EXPECT_TRUE(classes({"0.5", "1", "0.5", "1"}).empty());
  EXPECT_TRUE(classes({"0", "1", "1", "0"}, TableTask::regression).empty());
  EXPECT_EQ(classes({"0.5", "1", "0.5", "1"}, TableTask::classification).size(), 2u);
  const data::CsvTable t = of_target({"b", "a", "b"});
  EXPECT_EQ(data::read_target(t, {"y"}).labels, (std::vector<int32_t>{1, 0, 1}));
}

TEST_F(Tables, TargetsThatCannotBeLearned) {
  EXPECT_TRUE(
      contains(refused_target({"1", "", "3"}), "rows.csv:3: the target 'y' is missing, here and in 1 of 3 rows"));
  EXPECT_TRUE(contains(refused_target({"1.5", "NaN", "3"}), "the target 'y' is missing"));
  EXPECT_TRUE(
      contains(refused_target({"1", "two"}, TableTask::regression), "rows.csv:3: 'two' in column 'y' is not a"));
  EXPECT_TRUE(contains(refused_target({"1.5", "inf"}), "is not finite"));
  EXPECT_TRUE(contains(refused_target({"2.5", "2.5", "2.5"}), "the target 'y' is 2.5 in every row"));
  EXPECT_TRUE(contains(refused_target({"a", "a"}), "one class alone, 'a'"));
  EXPECT_TRUE(contains(refused_target({"\xff", "a"}), "is no UTF-8"));
  Names names;
  for (int i = 0; i < 40; ++i) names.push_back("n" + std::to_string(i));
  EXPECT_TRUE(contains(refused_target(names), "40 different values in 40 rows, too many for classes"));
  const data::CsvTable t = of_target({"1", "2"});
  EXPECT_TRUE(
      contains(thrown_text<ValueError>([&] { data::read_target(t, {"z"}); }), "no column 'z'; there are: x, y"));
  const data::CsvTable none = table("x,y\n");
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_target(none, {"y"}); }), "there are no rows"));
}

TEST_F(Tables, ColumnsOfWhichNothingCanBeLearnedAreLeftOut) {
  std::string text = "id,same,word,gone,x,y\n";
  for (int i = 0; i < 30; ++i) text += fmt::format("name{},7,w,,{},{}\n", i, i, i % 2);
  const data::CsvTable t = table(text);
  const data::MadeTableCode m = made(t, "y");
  ASSERT_EQ(m.code.columns.size(), 1u);
  EXPECT_EQ(m.code.columns[0].name, "x");
  ASSERT_EQ(m.remarks.size(), 4u);
  EXPECT_TRUE(contains(m.remarks[0], "'id' has 30 different texts in 30 rows and is left out"));
  EXPECT_TRUE(contains(m.remarks[1], "'same' has one value alone and is left out"));
  EXPECT_TRUE(contains(m.remarks[2], "'word' has one value alone and is left out"));
  EXPECT_TRUE(contains(m.remarks[3], "'gone' has no value at all and is left out"));
  const data::CsvTable constant = table("a,y\n1,p\n1,q\n");
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { made(constant, "y"); }), "no column is left"));
}

TEST_F(Tables, OfOtherRows) {
  const data::CsvTable t = table("x,town,y\n1,Ulm,a\n2,Bonn,b\n3,Ulm,b\n");
  const TableCode code = made(t, "y").code;
  const data::CsvTable other = table("town,x\nKiel,1e9\nUlm,nan\nRom,-1e9\n");
  const data::EncodedTable e = data::encode(other, code, false);
  EXPECT_EQ(e.unseen, 2);
  EXPECT_TRUE(contains(e.example, "'Kiel' in column 'town' of "));
  EXPECT_TRUE(contains(e.example, "rows.csv:2"));
  EXPECT_EQ(std::vector<float>(e.features.as<float>().begin(), e.features.as<float>().end()),
            (std::vector<float>{10, 0, 0, 2, -10, 0}));
  EXPECT_EQ(e.target.as<int32_t>()[0], -1);
  const data::CsvTable lacks = table("x\n1\n");
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { data::encode(lacks, code, false); }), "has no column 'town'"));
  const data::CsvTable texts = table("x,town\n1,Ulm\nmany,Ulm\n");
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::encode(texts, code, false); }),
                       "rows.csv:3: 'many' in column 'x' is not a number"));
  const data::CsvTable endless = table("x,town\ninf,Ulm\n");
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::encode(endless, code, false); }), "is not finite"));
  const data::CsvTable unknown = table("x,town,y\n1,Ulm,c\n");
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::encode(unknown, code, true); }), "none of the classes"));
}

TEST(CsvRow, ReadsBack) {
  const test::TemporaryFolder folder;
  const Names fields = {"a", "b,c", "d\"e", "f\ng", "", "\r"};
  std::ofstream(folder / "a.csv", std::ios::binary) << data::csv_row(fields);
  const data::CsvTable t(folder / "a.csv", {.header = false});
  ASSERT_EQ(t.columns().size(), fields.size());
  for (size_t i = 0; i < fields.size(); ++i) EXPECT_EQ(t.text(0, i), fields[i]);
}

}  // namespace
}  // namespace heddle
