#include "heddle/data/labelled_images.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/folders.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/shortened.h"
#include "heddle/data/csv.h"
#include "heddle/data/records.h"
#include "heddle/data/unicode.h"

namespace heddle::data {
namespace {

[[noreturn]] void refuse_labels(const std::string& path, const std::string& why) {
  throw IoError(fmt::format("[images] {}: {}", path, why));
}

std::string ending_of(const std::string& path) { return fs::path(path).extension().string(); }

std::string list_of(const std::vector<std::string>& names) {
  return shortened(fmt::format("{}", fmt::join(names, ", ")), 1000);
}

// Names go into JSON, which is UTF-8.
void check_classes(const std::string& path, const std::vector<std::string>& classes) {
  for (const std::string& name : classes) {
    if (valid_utf8(name) != name) refuse_labels(path, fmt::format("the class '{}' is no UTF-8", valid_utf8(name)));
    if (name.empty()) refuse_labels(path, "a class has no name");
  }
}

// What is there, in the numbers of `classes`; `path` is for messages.
void number_by(const std::vector<std::string>& classes, const std::string& path, ImageFolderFiles& found) {
  std::vector<int32_t> numbers;
  for (const std::string& name : found.classes) {
    const auto known = std::find(classes.begin(), classes.end(), name);
    if (known == classes.end())
      refuse_labels(path, fmt::format("the class '{}' is none of {}", shortened(name), list_of(classes)));
    numbers.push_back(static_cast<int32_t>(known - classes.begin()));
  }
  for (ImageFiles::File& file : found.files) file.label = numbers[static_cast<size_t>(file.label)];
}

// ---- folders

enum class Part { train, validation, test };

std::optional<Part> part_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Part>, 7> names = {{{"train", Part::train},
                                                                       {"training", Part::train},
                                                                       {"val", Part::validation},
                                                                       {"valid", Part::validation},
                                                                       {"validation", Part::validation},
                                                                       {"test", Part::test},
                                                                       {"testing", Part::test}}};
  const auto found = std::ranges::find(names, name, &std::pair<std::string_view, Part>::first);
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> folders_in(const std::string& folder) {
  std::error_code code;
  std::vector<std::string> folders;
  for (const std::string& name : names_in(folder, code)) {
    if (!name.starts_with('.') && fs::is_directory(fs::path(folder) / name)) folders.push_back(name);
  }
  if (code) refuse_labels(folder, code.message());
  return folders;
}

// A folder of parts has one for training, and nothing but parts: "train" alone may be a class beside "bus".
bool is_split(const std::vector<std::string>& folders) {
  return std::ranges::all_of(folders, [](const std::string& name) { return part_of(name).has_value(); }) &&
         std::ranges::any_of(folders, [](const std::string& name) { return part_of(name) == Part::train; });
}

std::string remark_on(const std::string& folder, const std::map<std::string, int64_t>& left_out) {
  int64_t files = 0;
  std::vector<std::string> kinds;
  for (const auto& [ending, count] : left_out) {
    files += count;
    kinds.push_back(fmt::format("{} {}", count, ending.empty() ? "without an ending" : ending));
  }
  return fmt::format("[images] {}: {} files are neither .png, .jpg nor .jpeg and are left out ({})", folder, files,
                     list_of(kinds));
}

LabelledImages read_folder(const std::string& folder, const std::vector<std::string>& known) {
  const std::vector<std::string> folders = folders_in(folder);
  LabelledImages images;
  const auto read = [&](const std::string& path, LabelledSet& into) {
    ImageFolderFiles found = list_image_folder(path);
    if (!found.left_out.empty()) images.remarks.push_back(remark_on(path, found.left_out));
    if (images.classes.empty()) images.classes = known.empty() ? found.classes : known;
    number_by(images.classes, path, found);
    if (!into.files.empty()) refuse_labels(folder, "it has two folders for one of training, validation and test");
    into.files = std::move(found.files);
  };
  if (!is_split(folders)) {
    read(folder, images.train);
    return images;
  }
  for (const Part part : {Part::train, Part::validation, Part::test}) {  // training says which classes there are
    LabelledSet& into = part == Part::train ? images.train : part == Part::validation ? images.validation : images.test;
    for (const std::string& name : folders) {
      if (part_of(name) == part) read((fs::path(folder) / name).string(), into);
    }
  }
  return images;
}

// ---- tables of paths

LabelledImages read_csv(const std::string& path, const LabelledImagesOptions& o) {
  const CsvTable table(path);
  if (table.columns().size() < 2)
    refuse_labels(path,
                  "a table of images has a column of paths and a column of classes; this one has a single column");
  if (table.size() == 0) refuse_labels(path, "there are no rows");
  const size_t image = o.image_column.empty() ? 0 : table.column(o.image_column);
  const size_t of = o.class_column.empty() ? table.columns().size() - 1 : table.column(o.class_column);
  if (image == of)
    throw ValueError(fmt::format("[images] {}: the column '{}' cannot hold both the paths and the classes", path,
                                 shortened(table.columns()[image])));
  ImageFolderFiles found{table.classes(of), {}};
  const fs::path folder = fs::path(path).parent_path();
  for (int64_t row = 0; row < table.size(); ++row) {
    const std::string& file = table.text(row, image);
    if (file.empty())
      refuse_labels(path, fmt::format("row {} has no path in the column '{}'", row + 1, table.columns()[image]));
    const auto label = std::ranges::lower_bound(found.classes, table.text(row, of)) - found.classes.begin();
    found.files.push_back({(folder / file).string(), static_cast<int32_t>(label)});
  }
  LabelledImages images{.classes = o.classes.empty() ? found.classes : o.classes};
  number_by(images.classes, path, found);
  images.train.files = std::move(found.files);
  return images;
}

// ---- records

// Records of images, each checked when it is read.
class RecordImages final : public Dataset {
 public:
  explicit RecordImages(std::string path) : path_(std::move(path)), file_(path_) {}
  int64_t size() const override { return file_.size(); }
  Sample get(int64_t index, Random& random) const override {
    Sample sample = file_.get(index, random);
    const bool fits = sample.size() == 2 && sample[0].dtype == DType::u8 && sample[0].shape.rank() == 3 &&
                      sample[1].dtype == DType::i32 && sample[1].shape.rank() == 0;
    if (!fits)
      refuse_labels(path_,
                    fmt::format("record {} is no image with a class; `heddle pack` makes such of images", index));
    const int32_t label = sample[1].as<int32_t>()[0];
    if (label < 0 || (!numbers_.empty() && static_cast<size_t>(label) >= numbers_.size()))
      refuse_labels(path_, fmt::format("record {} is of class {} among {}", index, label, numbers_.size()));
    if (!numbers_.empty()) sample[1] = Array::scalar(numbers_[static_cast<size_t>(label)]);
    return sample;
  }
  const std::string& metadata() const { return file_.metadata(); }
  // Classes 0, 1, ... of the file become these.
  void set_numbers(std::vector<int32_t> numbers) { numbers_ = std::move(numbers); }

 private:
  std::string path_;
  RecordFile file_;
  std::vector<int32_t> numbers_;
};

// Of a file that names none, as that of MNIST's digits: "0", "1", ..., as many as there are.
std::vector<std::string> numbered_classes(const Dataset& records) {
  int32_t most = 0;
  Random random(0, 0, 0);
  for (int64_t i = 0; i < records.size(); ++i) most = std::max(most, records.get(i, random)[1].as<int32_t>()[0]);
  std::vector<std::string> names;
  for (int32_t i = 0; i <= most; ++i) names.push_back(std::to_string(i));
  return names;
}

LabelledImages read_records(const std::string& path, const std::vector<std::string>& known) {
  auto records = std::make_shared<RecordImages>(path);
  if (records->size() == 0) refuse_labels(path, "there are no records");
  LabelledImages images;
  if (!records->metadata().empty()) images.packed = Preprocessing::parse(records->metadata(), path);
  Random random(0, 0, 0);
  records->get(0, random);  // as a check
  ImageFolderFiles own{images.packed.classes.empty() ? numbered_classes(*records) : images.packed.classes, {}};
  for (size_t i = 0; i < own.classes.size(); ++i) own.files.push_back({"", static_cast<int32_t>(i)});
  images.classes = known.empty() ? own.classes : known;
  number_by(images.classes, path, own);
  std::vector<int32_t> numbers;
  for (const ImageFiles::File& file : own.files) numbers.push_back(file.label);
  records->set_numbers(std::move(numbers));
  images.train.records = std::move(records);
  return images;
}

}  // namespace

DatasetPtr LabelledSet::dataset(int channels) const {
  if (records) return records;
  return std::make_shared<ImageFiles>(files, channels);
}

bool holds_labelled_images(const std::string& path) {
  std::error_code code;
  return ending_of(path) == ".csv" || ending_of(path) == ".rec" || fs::is_directory(path, code);
}

LabelledImages read_labelled_images(const std::string& path, const LabelledImagesOptions& options) {
  std::error_code code;
  const bool is_folder = fs::is_directory(path, code);
  if (!is_folder && !holds_labelled_images(path))
    refuse_labels(
        path, fs::exists(path, code) ? "neither a folder of images nor a .csv or .rec file" : "no such file or folder");
  LabelledImages images = is_folder                   ? read_folder(path, options.classes)
                          : ending_of(path) == ".csv" ? read_csv(path, options)
                                                      : read_records(path, options.classes);
  check_classes(path, images.classes);
  return images;
}

HeldOut hold_out(const LabelledSet& all, double share, uint64_t seed) {
  HeldOut parts;
  if (all.records) {
    const std::vector<DatasetPtr> split = random_split(all.records, {1 - share, share}, seed);
    parts.rest.records = split[0];
    parts.held_out.records = split[1];
    return parts;
  }
  std::vector<int32_t> labels;
  for (const ImageFiles::File& file : all.files) labels.push_back(file.label);
  const std::vector<int64_t> held = stratified_share(labels, share, seed);
  for (size_t i = 0, next = 0; i < all.files.size(); ++i) {
    const bool out = next < held.size() && held[next] == static_cast<int64_t>(i);
    next += out;
    (out ? parts.held_out : parts.rest).files.push_back(all.files[i]);
  }
  return parts;
}

}  // namespace heddle::data
