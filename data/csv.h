// CSV files: tables of text, and examples made of their columns.
//
//   const data::CsvTable table(path);
//   const auto set = data::csv_dataset(table, {.numbers = {"height", "width"}, .label = "species"});   // ((2) f32,
//   scalar i32)
//
// The format is RFC 4180's: fields with separators, quotes (doubled) or line breaks stand in quotes; lines end with LF
// or CRLF. Errors: IoError with file and line for a row of another number of fields, a quote that is not closed, a
// field that is no number; ValueError for a column or a row that there is not. Thread safety: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/data/dataset.h"

namespace heddle::data {

struct CsvOptions {
  char separator = ',';
  bool header = true;  // the first line has the names; else they are "0", "1", ...
};

class CsvTable {
 public:
  explicit CsvTable(const std::string& path, const CsvOptions& options = {});
  int64_t size() const { return static_cast<int64_t>(rows_.size()); }
  const std::vector<std::string>& columns() const { return columns_; }
  // ValueError that names the columns there are.
  size_t column(const std::string& name) const;
  const std::string& text(int64_t row, size_t column) const;
  double number(int64_t row, size_t column) const;
  // "rows.csv:3", for messages: where a row begins.
  std::string place(int64_t row) const;
  // The different texts of a column, in ascending order.
  std::vector<std::string> classes(size_t column) const;

 private:
  struct Row {
    std::vector<std::string> fields;
    int64_t line;
  };
  void parse(const std::string& text, char separator);
  void check_column(size_t column) const;

  std::string path_;
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
};

struct CsvExample {
  std::vector<std::string> numbers;  // empty: all columns but the label
  std::string label;                 // empty: none
  std::vector<std::string> classes;  // the label's class i is classes[i]; empty: CsvTable::classes()
};

// Examples are (numbers (columns) f32, label i32), the label only where there is one. All fields are read now. IoError
// for a label among none of the classes.
DatasetPtr csv_dataset(const CsvTable& table, const CsvExample& example);

// A row as a file of this format holds it, with its line break: what needs quotes gets them.
std::string csv_row(const std::vector<std::string>& fields);

}  // namespace heddle::data
