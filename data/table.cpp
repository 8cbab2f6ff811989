#include "heddle/data/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/shortened.h"
#include "heddle/data/unicode.h"

namespace heddle::data {
namespace {

constexpr double most_deviations = 10;
constexpr double largest = 1e100;  // so that squares and their sums are finite
constexpr size_t few = 20;         // values of a target that are classes, and texts that no column of names has
constexpr size_t most_classes = 1000;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : text.substr(first, last + 1 - first);
}

bool is_missing(std::string_view text) {
  constexpr std::array<std::string_view, 9> words = {"", "NA", "N/A", "nan", "NaN", "NAN", "null", "NULL", "?"};
  return std::ranges::find(words, text) != words.end();
}

// One column of a table: its texts without blanks at their ends.
class Column {
 public:
  Column(const CsvTable& table, const std::string& name) : table_(table), name_(name), at_(table.column(name)) {}

  std::string_view text(int64_t row) const {
    const std::string_view text = trimmed(table_.text(row, at_));
    if (whole_characters(text) != text.size() || valid_utf8(text) != text) fail(row, "is no UTF-8");
    return text;
  }
  bool missing(int64_t row) const { return is_missing(trimmed(table_.text(row, at_))); }
  std::optional<double> try_number(int64_t row) const {
    std::string_view digits = trimmed(table_.text(row, at_));
    if (digits.starts_with('+')) digits.remove_prefix(1);
    return parse_number<double>(digits);
  }
  double number(int64_t row) const {
    const std::optional<double> value = try_number(row);
    if (!value) fail(row, "is not a number");
    if (!(std::abs(*value) <= largest)) fail(row, "is not finite, or beyond 1e100");
    return *value;
  }
  // Whether all that is there is a number.
  bool all_numbers() const {
    for (int64_t row = 0; row < table_.size(); ++row) {
      if (!missing(row) && !try_number(row)) return false;
    }
    return true;
  }
  [[noreturn]] void fail(int64_t row, const char* what) const {
    throw IoError(fmt::format("[table] {}: '{}' in column '{}' {}", table_.place(row),
                              shortened(valid_utf8(table_.text(row, at_))), shortened(name_), what));
  }

 private:
  const CsvTable& table_;
  const std::string& name_;
  size_t at_;
};

struct Moments {
  double mean = 0, deviation = 0;
};
Moments moments_of(const std::vector<double>& values) {
  Moments m;
  if (values.empty()) m.mean = std::numeric_limits<double>::quiet_NaN();
  const auto count = static_cast<double>(values.size());
  for (const double x : values) m.mean += x / count;
  for (const double x : values) m.deviation += (x - m.mean) * (x - m.mean) / count;
  const bool constant = std::ranges::adjacent_find(values, std::ranges::not_equal_to()) == values.end();
  m.deviation = constant ? 0 : std::sqrt(m.deviation);  // a mean of equal values is rounded
  return m;
}

// ---- the target

// Few whole numbers are classes, if there are rows enough to learn them.
bool are_classes(const Column& column, int64_t rows) {
  if (!column.all_numbers()) return true;
  std::set<double> different;
  for (int64_t row = 0; row < rows; ++row) {
    const double value = column.number(row);
    different.insert(value);
    if (value != std::floor(value) || different.size() > few) return false;
  }
  return different.size() <= std::max<size_t>(2, static_cast<size_t>(rows) / 5);
}

// Numbers by their value, texts by their characters.
std::vector<std::string> classes_of(const Column& column, int64_t rows) {
  std::set<std::string> different;
  for (int64_t row = 0; row < rows; ++row) different.emplace(column.text(row));
  std::vector<std::string> classes(different.begin(), different.end());
  if (column.all_numbers())
    std::ranges::stable_sort(classes, {}, [](const std::string& text) {
      return *parse_number<double>(text.starts_with('+') ? std::string_view(text).substr(1) : text);
    });
  return classes;
}

void check_rows(const CsvTable& table, const TableCodeOptions& o, const Column& column) {
  if (table.size() == 0) throw IoError(fmt::format("[table] there are no rows beside the names of columns"));
  int64_t missing = 0, first = -1;
  for (int64_t row = 0; row < table.size(); ++row) {
    if (!column.missing(row)) continue;
    if (first < 0) first = row;
    ++missing;
  }
  if (missing > 0)
    throw IoError(fmt::format("[table] {}: the target '{}' is missing, here and in {} of {} rows", table.place(first),
                              shortened(o.target), missing, table.size()));
}

// ---- columns

TableColumn number_column(const Column& column, const std::string& name, const std::vector<int64_t>& rows) {
  TableColumn made{.name = name};
  std::vector<double> values;
  for (const int64_t row : rows) {
    if (column.missing(row))
      made.can_miss = true;
    else
      values.push_back(column.number(row));
  }
  const Moments m = moments_of(values);
  made.mean = m.mean;
  made.deviation = m.deviation;
  return made;
}

TableColumn text_column(const Column& column, const std::string& name, const std::vector<int64_t>& rows) {
  TableColumn made{.name = name, .is_number = false};
  std::set<std::string> different;
  for (const int64_t row : rows) {
    if (column.missing(row))
      made.can_miss = true;
    else
      different.emplace(column.text(row));
  }
  made.categories.assign(different.begin(), different.end());
  return made;
}

// Why nothing can be learned of a column; empty where something can.
std::string fault_of(const TableColumn& column, size_t rows) {
  const size_t texts = column.categories.size();
  const bool constant = column.is_number ? !(column.deviation > 0) : texts < 2;
  if (column.is_number ? std::isnan(column.mean) : texts == 0) return "has no value at all";
  if (constant && !column.can_miss) return "has one value alone";
  if (!column.is_number && texts > few && 2 * texts > rows)
    return fmt::format("has {} different texts in {} rows", texts, rows);
  return {};
}

}  // namespace

TableLabels read_target(const CsvTable& table, const TableCodeOptions& o) {
  const Column column(table, o.target);
  check_rows(table, o, column);
  TableLabels read{{.name = o.target}, std::vector<int32_t>(static_cast<size_t>(table.size()))};
  const bool classes =
      o.task == TableTask::classification || (o.task == TableTask::automatic && are_classes(column, table.size()));
  if (!classes) {
    const double first = column.number(0);
    for (int64_t row = 0; row < table.size(); ++row) {
      if (column.number(row) != first) return read;
    }
    throw ValueError(fmt::format("[table] the target '{}' is {} in every row", shortened(o.target), first));
  }
  std::vector<std::string>& names = read.target.classes = classes_of(column, table.size());
  if (names.size() < 2)
    throw ValueError(
        fmt::format("[table] the target '{}' has one class alone, '{}'", shortened(o.target), shortened(names.at(0))));
  const bool names_of_rows = names.size() > few && 2 * names.size() > static_cast<size_t>(table.size());
  if (names.size() > most_classes || names_of_rows)
    throw ValueError(
        fmt::format("[table] the target '{}' has {} different values in {} rows, too many for classes; "
                    "--task regression takes numbers",
                    shortened(o.target), names.size(), table.size()));
  std::map<std::string, int32_t, std::less<>> numbers;
  for (const std::string& name : names) numbers.emplace(name, static_cast<int32_t>(numbers.size()));
  for (int64_t row = 0; row < table.size(); ++row)
    read.labels[static_cast<size_t>(row)] = numbers.find(column.text(row))->second;
  return read;
}

MadeTableCode make_table_code(const CsvTable& table, const TableTarget& target, const std::vector<int64_t>& rows) {
  MadeTableCode made;
  made.code.target = target;
  for (const std::string& name : table.columns()) {
    if (valid_utf8(name) != name) throw IoError(fmt::format("[table] the column '{}' is no UTF-8", valid_utf8(name)));
    if (name == target.name) continue;
    const Column column(table, name);
    TableColumn read = column.all_numbers() ? number_column(column, name, rows) : text_column(column, name, rows);
    if (const std::string fault = fault_of(read, rows.size()); !fault.empty()) {
      made.remarks.push_back(fmt::format("[table] the column '{}' {} and is left out", shortened(name), fault));
      continue;
    }
    if (!(read.deviation > 0)) read.deviation = 1;
    made.code.columns.push_back(std::move(read));
  }
  if (made.code.columns.empty())
    throw ValueError(fmt::format("[table] no column is left from which '{}' could be predicted{}",
                                 shortened(target.name), made.remarks.empty() ? "" : ": " + made.remarks.front()));
  if (!target.classes.empty()) return made;
  const Column column(table, target.name);
  std::vector<double> values;
  for (const int64_t row : rows) values.push_back(column.number(row));
  const Moments m = moments_of(values);
  made.code.target.mean = m.mean;
  made.code.target.deviation = m.deviation > 0 ? m.deviation : 1;
  return made;
}

int64_t TableCode::numbers() const {
  int64_t count = 0;
  for (const TableColumn& column : columns) count += column.is_number ? 1 + int64_t{column.can_miss} : 0;
  return count;
}

std::vector<int64_t> TableCode::categories() const {
  std::vector<int64_t> counts;
  for (const TableColumn& column : columns) {
    if (!column.is_number) counts.push_back(static_cast<int64_t>(column.categories.size()) + 1);
  }
  return counts;
}

// ---- encoding

namespace {

class Encoder {
 public:
  Encoder(const CsvTable& table, const TableCode& code)
      : table_(table),
        width_(code.numbers() + static_cast<int64_t>(code.categories().size())),
        values_(static_cast<size_t>(table.size() * width_)) {
    int64_t number = 0, category = code.numbers();
    for (const TableColumn& column : code.columns) {
      if (!column.is_number) {
        add_texts(column, category++);
      } else {
        add_numbers(column, number);
        number += 1 + int64_t{column.can_miss};
      }
    }
  }
  EncodedTable take() {
    encoded_.features = Array::of(values_, Shape{table_.size(), width_});
    return std::move(encoded_);
  }

 private:
  float& at(int64_t row, int64_t column) { return values_[static_cast<size_t>(row * width_ + column)]; }

  void add_numbers(const TableColumn& code, int64_t to) {
    const Column column(table_, code.name);
    for (int64_t row = 0; row < table_.size(); ++row) {
      const bool missing = column.missing(row);
      const double value = missing ? 0 : (column.number(row) - code.mean) / code.deviation;
      at(row, to) = static_cast<float>(std::clamp(value, -most_deviations, most_deviations));
      if (code.can_miss) at(row, to + 1) = missing ? 1.0f : 0.0f;
    }
  }
  void add_texts(const TableColumn& code, int64_t to) {
    const Column column(table_, code.name);
    std::map<std::string, float, std::less<>> numbers;
    for (const std::string& text : code.categories) numbers.emplace(text, static_cast<float>(numbers.size() + 1));
    for (int64_t row = 0; row < table_.size(); ++row) {
      if (column.missing(row)) continue;
      const std::string_view text = column.text(row);
      const auto found = numbers.find(text);
      if (found != numbers.end())
        at(row, to) = found->second;
      else if (encoded_.unseen++ == 0)
        encoded_.example =
            fmt::format("'{}' in column '{}' of {}", shortened(text), shortened(code.name), table_.place(row));
    }
  }

  const CsvTable& table_;
  int64_t width_;
  std::vector<float> values_;
  EncodedTable encoded_;
};

Array encoded_target(const CsvTable& table, const TableTarget& target, bool known) {
  const Shape shape{table.size()};
  if (!known) {
    if (!target.classes.empty()) return Array::of(std::vector<int32_t>(static_cast<size_t>(table.size()), -1), shape);
    return Array::of(std::vector<float>(static_cast<size_t>(table.size()), std::numeric_limits<float>::quiet_NaN()),
                     shape);
  }
  const Column column(table, target.name);
  std::vector<int32_t> labels;
  std::vector<float> values;
  for (int64_t row = 0; row < table.size(); ++row) {
    if (target.classes.empty()) {
      values.push_back(static_cast<float>((column.number(row) - target.mean) / target.deviation));
      continue;
    }
    const auto found = std::ranges::find(target.classes, column.text(row));
    if (found == target.classes.end()) column.fail(row, "is none of the classes of the model");
    labels.push_back(static_cast<int32_t>(found - target.classes.begin()));
  }
  return target.classes.empty() ? Array::of(values, shape) : Array::of(labels, shape);
}

}  // namespace

EncodedTable encode(const CsvTable& table, const TableCode& code, bool with_target) {
  EncodedTable encoded = Encoder(table, code).take();
  encoded.target = encoded_target(table, code.target, with_target);
  return encoded;
}

// ---- JSON

std::string TableCode::str() const {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const TableColumn& c : columns) {
    nlohmann::ordered_json one = {{"name", c.name}};
    if (c.is_number)
      one.update({{"mean", c.mean}, {"deviation", c.deviation}, {"can_miss", c.can_miss}});
    else
      one["categories"] = c.categories;
    all.push_back(std::move(one));
  }
  return nlohmann::ordered_json{
      {"columns", all},
      {"target",
       {{"name", target.name}, {"classes", target.classes}, {"mean", target.mean}, {"deviation", target.deviation}}}}
      .dump();
}

TableCode TableCode::parse(std::string_view text, std::string_view where) {
  const nlohmann::json json = parse_json(text, fmt::format("[table] {}", where));
  TableCode code;
  try {
    for (const nlohmann::json& one : json.at("columns")) {
      TableColumn column{.name = one.at("name"), .is_number = !one.contains("categories")};
      if (column.is_number) {
        one.at("mean").get_to(column.mean);
        one.at("deviation").get_to(column.deviation);
        one.at("can_miss").get_to(column.can_miss);
      } else {
        one.at("categories").get_to(column.categories);
      }
      code.columns.push_back(std::move(column));
    }
    const nlohmann::json& target = json.at("target");
    target.at("name").get_to(code.target.name);
    target.at("classes").get_to(code.target.classes);
    target.at("mean").get_to(code.target.mean);
    target.at("deviation").get_to(code.target.deviation);
  } catch (const nlohmann::json::exception& error) {
    throw IoError(fmt::format("[table] {}: not what a table's code is stored as: {}", where, shortened(error.what())));
  }
  for (const TableColumn& column : code.columns) {
    if (!(column.deviation > 0)) throw IoError(fmt::format("[table] {}: a deviation that is not positive", where));
  }
  if (!(code.target.deviation > 0)) throw IoError(fmt::format("[table] {}: a deviation that is not positive", where));
  return code;
}

}  // namespace heddle::data
