#include "heddle/data/csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/shortened.h"
#include "heddle/io/read_file.h"

namespace heddle::data {
namespace {

// Reads one row after the other.
class Scanner {
 public:
  Scanner(const std::string& path, const std::string& text, char separator)
      : path_(path), text_(text), separator_(separator) {
    if (text_.compare(0, 3, "\xEF\xBB\xBF") == 0) at_ = 3;  // the mark that some programs put in front of UTF-8
  }
  bool at_end() const { return at_ == text_.size(); }
  int64_t line() const { return line_; }

  std::vector<std::string> row() {
    std::vector<std::string> fields;
    do {
      fields.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted() : plain());
    } while (skip(separator_));
    if (!at_end() && !skip_line_break()) fail("a quoted field goes on behind its closing quote");
    return fields;
  }

 private:
  [[noreturn]] void fail(const char* what) const { throw IoError(fmt::format("[csv] {}:{}: {}", path_, line_, what)); }

  bool skip(char c) {
    const bool there = at_ < text_.size() && text_[at_] == c;
    at_ += there;
    return there;
  }
  bool skip_line_break() {
    if (text_.compare(at_, 2, "\r\n") == 0) ++at_;
    const bool there = skip('\n');
    line_ += there;
    return there;
  }

  std::string plain() {
    const size_t from = at_;
    while (!at_end() && text_[at_] != separator_ && text_[at_] != '\n' && text_.compare(at_, 2, "\r\n") != 0) ++at_;
    return text_.substr(from, at_ - from);
  }

  std::string quoted() {
    std::string field;
    const int64_t opened = line_;
    for (++at_; !at_end(); ++at_) {
      const char c = text_[at_];
      if (c == '"' && !(at_ + 1 < text_.size() && text_[at_ + 1] == '"')) {
        ++at_;
        return field;
      }
      at_ += c == '"';
      line_ += c == '\n';
      field.push_back(c);
    }
    line_ = opened;
    fail("a quote that opens here is not closed");
  }

  const std::string& path_;
  const std::string& text_;
  char separator_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

}  // namespace

CsvTable::CsvTable(const std::string& path, const CsvOptions& options) : path_(path) {
  parse(read_text_file(path, "csv"), options.separator);
  if (rows_.empty()) throw IoError(fmt::format("[csv] {}: there are no rows", path));
  if (options.header) {
    columns_ = std::move(rows_.front().fields);
    rows_.erase(rows_.begin());
    const std::set<std::string> different(columns_.begin(), columns_.end());
    if (different.size() != columns_.size()) throw IoError(fmt::format("[csv] {}:1: two columns have one name", path));
  } else {
    for (size_t i = 0; i < rows_.front().fields.size(); ++i) columns_.push_back(std::to_string(i));
  }
}

void CsvTable::parse(const std::string& text, char separator) {
  Scanner scanner(path_, text, separator);
  while (!scanner.at_end()) {
    const int64_t line = scanner.line();
    std::vector<std::string> fields = scanner.row();
    if (fields.size() == 1 && fields[0].empty()) continue;  // an empty line
    if (!rows_.empty() && fields.size() != rows_.front().fields.size()) {
      throw IoError(fmt::format("[csv] {}:{}: the row has {} fields, the first one has {}", path_, line, fields.size(),
                                rows_.front().fields.size()));
    }
    rows_.push_back({std::move(fields), line});
  }
}

size_t CsvTable::column(const std::string& name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  if (found == columns_.end())
    throw ValueError(fmt::format("[csv] {} has no column '{}'; there are: {}", path_, shortened(name),
                                 shortened(fmt::format("{}", fmt::join(columns_, ", ")), 1000)));
  return static_cast<size_t>(found - columns_.begin());
}

const std::string& CsvTable::text(int64_t row, size_t column) const {
  if (row < 0 || row >= size()) throw ValueError(fmt::format("[csv] {} has no row {} among {}", path_, row, size()));
  check_column(column);
  return rows_[static_cast<size_t>(row)].fields[column];
}

void CsvTable::check_column(size_t column) const {
  if (column >= columns_.size())
    throw ValueError(fmt::format("[csv] {} has no column {} among {}", path_, column, columns_.size()));
}

double CsvTable::number(int64_t row, size_t column) const {
  const std::string& field = text(row, column);
  const size_t first = field.find_first_not_of(" \t"), last = field.find_last_not_of(" \t");
  const bool blank = first == std::string::npos;
  const std::optional<double> value =
      blank ? std::nullopt : parse_number<double>(std::string_view(field).substr(first, last + 1 - first));
  if (value) return *value;
  throw IoError(fmt::format("[csv] {}:{}: '{}' in column '{}' is not a number", path_,
                            rows_[static_cast<size_t>(row)].line, shortened(field), shortened(columns_[column])));
}

std::string CsvTable::place(int64_t row) const {
  text(row, 0);  // as a check
  return fmt::format("{}:{}", path_, rows_[static_cast<size_t>(row)].line);
}

std::vector<std::string> CsvTable::classes(size_t column) const {
  check_column(column);
  std::set<std::string> different;
  for (const Row& row : rows_) different.insert(row.fields[column]);
  return {different.begin(), different.end()};
}

DatasetPtr csv_dataset(const CsvTable& table, const CsvExample& example) {
  const size_t label = example.label.empty() ? 0 : table.column(example.label);
  std::vector<size_t> columns;
  for (const std::string& name : example.numbers.empty() ? table.columns() : example.numbers) {
    if (name != example.label) columns.push_back(table.column(name));
  }
  std::vector<float> numbers;
  for (int64_t row = 0; row < table.size(); ++row) {
    for (const size_t column : columns) numbers.push_back(static_cast<float>(table.number(row, column)));
  }
  Sample arrays = {Array::of(numbers, Shape{table.size(), static_cast<int64_t>(columns.size())})};
  if (example.label.empty()) return from_arrays(std::move(arrays));

  const std::vector<std::string> classes = example.classes.empty() ? table.classes(label) : example.classes;
  std::vector<int32_t> labels;
  for (int64_t row = 0; row < table.size(); ++row) {
    const auto found = std::find(classes.begin(), classes.end(), table.text(row, label));
    if (found == classes.end()) {
      throw IoError(fmt::format("[csv] the label '{}' of row {} is none of the classes {}",
                                shortened(table.text(row, label)), row + 1,
                                shortened(fmt::format("{}", fmt::join(classes, ", ")), 1000)));
    }
    labels.push_back(static_cast<int32_t>(found - classes.begin()));
  }
  arrays.push_back(Array::of(labels, Shape{table.size()}));
  return from_arrays(std::move(arrays));
}

std::string csv_row(const std::vector<std::string>& fields) {
  std::string row;
  for (const std::string& field : fields) {
    if (&field != &fields.front()) row += ',';
    if (field.find_first_of(",\"\r\n") == std::string::npos) {
      row += field;
      continue;
    }
    row += '"';
    for (const char c : field) row += c == '"' ? std::string("\"\"") : std::string(1, c);
    row += '"';
  }
  return row + '\n';
}

}  // namespace heddle::data
