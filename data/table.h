// Tables for training: the rows of a CSV file as numbers that a network takes, by a code that is stored with its model.
//
//   const data::CsvTable rows("houses.csv");
//   auto made = data::make_table_code(rows, {.target = "price"}, training_rows);
//   const data::EncodedTable all = data::encode(rows, made.code, true);          // all.features (N, width) f32
//
// A column of numbers becomes (x - mean) / deviation, at most 10 either way; one that lacks values in training gets a
// second number, 1 where the value is missing (and the first one 0, the mean). A column of texts becomes a category's
// number, 0 for a missing one and for one that training did not have. Missing are "", NA, N/A, nan, null and ?. Columns
// with one value, and columns of texts that are nearly all different, are left out, and said. Errors: IoError that
// names the file and the line, ValueError for a column that there is not and a target that nothing can be learned of.
// Thread safety: values; pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/data/csv.h"

namespace heddle::data {

struct TableColumn {
  std::string name;
  bool is_number = true;
  double mean = 0, deviation = 1;            // of a number
  bool can_miss = false;                     // of a number: a second one says whether it is missing
  std::vector<std::string> categories = {};  // of a text: numbers 1, 2, ...
};

struct TableTarget {
  std::string name;
  std::vector<std::string> classes = {};  // empty: a number
  double mean = 0, deviation = 1;         // of a number
};

struct TableCode {
  std::vector<TableColumn> columns;
  TableTarget target;

  // The first features are numbers, the others categories, one each.
  int64_t numbers() const;
  // How many numbers each category's column can have, 0 included.
  std::vector<int64_t> categories() const;

  // JSON.
  std::string str() const;
  static TableCode parse(std::string_view text, std::string_view where = "table");
};

enum class TableTask : uint8_t { automatic, classification, regression };

struct TableCodeOptions {
  std::string target;
  TableTask task = TableTask::automatic;  // automatic: classes where there are texts or few whole numbers
};

// The target of all rows, and how it is to be taken.
struct TableLabels {
  TableTarget target;
  std::vector<int32_t> labels;  // of classes; of numbers all 0
};
TableLabels read_target(const CsvTable& table, const TableCodeOptions& options);

struct MadeTableCode {
  TableCode code;
  std::vector<std::string> remarks;  // what was left out
};
// Means, deviations and categories are those of some rows.
MadeTableCode make_table_code(const CsvTable& table, const TableTarget& target, const std::vector<int64_t>& rows);

struct EncodedTable {
  Array features;      // (rows, numbers + categories) f32
  Array target;        // (rows): i32 classes, or (x - mean) / deviation f32; -1 and NaN where it was not asked for
  int64_t unseen = 0;  // texts that training did not have
  std::string example = {};  // one of them, and where
};
EncodedTable encode(const CsvTable& table, const TableCode& code, bool with_target);

}  // namespace heddle::data
