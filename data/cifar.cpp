#include "heddle/data/cifar.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/text_stream.h"
#include "heddle/io/read_file.h"

namespace heddle::data {
namespace {

constexpr size_t pixels = 3 * 32 * 32;

std::vector<std::string> class_names(const std::string& path, int64_t classes) {
  std::vector<std::string> names;
  if (fs::exists(path)) {
    TextInput lines(read_text_file(path, "cifar"));
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) names.push_back(line);
    }
    if (static_cast<int64_t>(names.size()) != classes)
      throw IoError(fmt::format("[cifar] {}: {} names, expected {}", path, names.size(), classes));
  } else {
    for (int64_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  }
  return names;
}

}  // namespace

DatasetPtr read_cifar(const std::vector<std::string>& paths, Cifar kind) {
  const size_t label_bytes = kind == Cifar::ten ? 1 : 2, record = label_bytes + pixels;
  const int classes = kind == Cifar::ten ? 10 : 100;
  std::vector<uint8_t> images;
  std::vector<int32_t> labels;
  for (const std::string& path : paths) {
    const std::vector<uint8_t> file = read_file(path, "cifar");
    if (file.size() % record != 0)
      throw IoError(
          fmt::format("[cifar] {}: {} bytes are no whole number of records of {}; is it truncated, or not CIFAR-{}?",
                      path, file.size(), record, classes));
    for (size_t at = 0; at < file.size(); at += record) {
      const uint8_t label = file[at + label_bytes - 1];
      if (label >= classes)
        throw IoError(fmt::format("[cifar] {}: label {} of record {} is not between 0 and {}", path, label, at / record,
                                  classes - 1));
      labels.push_back(label);
      const auto image = file.begin() + static_cast<std::ptrdiff_t>(at + label_bytes);
      images.insert(images.end(), image, image + pixels);
    }
  }
  const auto count = static_cast<int64_t>(labels.size());
  return from_arrays({Array::of(images, Shape{count, 3, 32, 32}), Array::of(labels, Shape{count})});
}

ImageClasses read_cifar_folder(const std::string& folder) {
  const auto file = [&](const std::string& name) { return (fs::path(folder) / name).string(); };
  if (fs::exists(file("train.bin"))) {
    return {read_cifar({file("train.bin")}, Cifar::hundred), read_cifar({file("test.bin")}, Cifar::hundred),
            class_names(file("fine_label_names.txt"), 100)};
  }
  if (!fs::exists(file("data_batch_1.bin")))
    throw IoError(
        fmt::format("[cifar] {}: neither data_batch_1.bin (CIFAR-10) nor train.bin (CIFAR-100) is there", folder));
  std::vector<std::string> batches;
  for (int i = 1; i <= 5; ++i) batches.push_back(file(fmt::format("data_batch_{}.bin", i)));
  return {read_cifar(batches, Cifar::ten), read_cifar({file("test_batch.bin")}, Cifar::ten),
          class_names(file("batches.meta.txt"), 10)};
}

}  // namespace heddle::data
