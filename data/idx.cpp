// IDX files, plain and gzip. Sizes in a header are compared with the bytes that are there before anything is made of
// them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/data/datasets.h"
#include "heddle/io/inflate.h"
#include "heddle/io/read_file.h"

namespace heddle::data {
namespace {

using ByteVector = std::vector<uint8_t>;

bool is_gzip(const ByteVector& bytes) { return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; }

struct IdxHeader {
  std::vector<int64_t> shape;
  int64_t payload = 1;
};

size_t header_bytes(int rank) { return 4 + 4 * static_cast<size_t>(rank); }

IdxHeader parse_header(const std::string& path, const ByteVector& bytes, int rank) {
  if (bytes.size() < 4)
    throw IoError(fmt::format("[idx] {}: truncated: {} bytes, an IDX file has at least 4", path, bytes.size()));
  const uint32_t expected = 0x800u | static_cast<uint32_t>(rank);
  const uint32_t found = uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
  if (found != expected) {
    const char* hint = found == 0x801   ? "; this is a file of labels"
                       : found == 0x803 ? "; this is a file of images"
                                        : "; not an IDX file of bytes";
    throw IoError(
        fmt::format("[idx] {}: wrong magic number 0x{:08x}, expected 0x{:08x}{}", path, found, expected, hint));
  }
  if (bytes.size() < header_bytes(rank)) {
    throw IoError(
        fmt::format("[idx] {}: truncated header: {} bytes, expected {}", path, bytes.size(), header_bytes(rank)));
  }
  IdxHeader header;
  for (int d = 0; d < rank; ++d) {
    const uint8_t* p = bytes.data() + 4 + 4 * d;
    const int64_t size = int64_t{p[0]} << 24 | int64_t{p[1]} << 16 | int64_t{p[2]} << 8 | p[3];
    header.shape.push_back(size);
    if (__builtin_mul_overflow(header.payload, size, &header.payload))
      throw IoError(fmt::format("[idx] {}: impossible sizes in the header", path));
  }
  return header;
}

[[noreturn]] void wrong_length(const std::string& path, const IdxHeader& header, int64_t found, bool at_least) {
  throw IoError(fmt::format("[idx] {}: {}: the header says {} bytes of data ({}), found {}{}", path,
                            found < header.payload ? "truncated" : "trailing garbage", header.payload,
                            fmt::join(header.shape, " x "), at_least ? "at least " : "", found));
}

}  // namespace

IdxArray read_idx(const std::string& path, int rank) {
  if (rank < 1 || rank > Shape::max_rank)
    throw ValueError(fmt::format("[idx] {} dimensions; expected 1 to {}", rank, Shape::max_rank));
  ByteVector file = read_file(path, "idx");
  IdxHeader header;
  ByteVector content;
  bool at_least = false;
  if (is_gzip(file)) {
    Inflater inflater(file, Inflater::Format::gzip, "idx", path);
    inflater.fill(content, header_bytes(rank));
    header = parse_header(path, content, rank);
    const size_t wanted = header_bytes(rank) + static_cast<size_t>(header.payload);
    inflater.fill(content, wanted + 1);  // one byte more shows trailing data without inflating all of it
    at_least = content.size() > wanted;
  } else {
    header = parse_header(path, file, rank);
    content = std::move(file);
  }
  const int64_t found = static_cast<int64_t>(content.size() - header_bytes(rank));
  if (found != header.payload) wrong_length(path, header, found, at_least);
  content.erase(content.begin(), content.begin() + static_cast<std::ptrdiff_t>(header_bytes(rank)));
  return {header.shape, std::move(content)};
}

DatasetPtr dataset_of(const ImageSet& set) {
  const std::vector<int32_t> labels(set.labels.begin(), set.labels.end());
  return from_arrays({Array::of(set.pixels, {set.size(), 1, set.rows, set.columns}), Array::of(labels, {set.size()})});
}

ImageSet read_idx_images(const std::string& images_path, const std::string& labels_path, int64_t classes) {
  if (classes < 1 || classes > 256)
    throw ValueError(fmt::format("[idx] the number of classes is {}, expected 1 to 256", classes));
  IdxArray images = read_idx(images_path, 3);
  IdxArray labels = read_idx(labels_path, 1);
  if (images.shape[0] != labels.shape[0]) {
    throw IoError(fmt::format("[idx] {} has {} images, but {} has {} labels; do the two belong together?", images_path,
                              images.shape[0], labels_path, labels.shape[0]));
  }
  for (size_t i = 0; i < labels.bytes.size(); ++i) {
    if (labels.bytes[i] >= classes) {
      throw IoError(fmt::format("[idx] {}: label {} of item {} is out of range, expected 0 to {}", labels_path,
                                labels.bytes[i], i, classes - 1));
    }
  }
  return {images.shape[1], images.shape[2], classes, std::move(images.bytes), std::move(labels.bytes)};
}

Split read_mnist_folder(const std::string& folder) {
  std::error_code code;
  if (!fs::is_directory(folder, code)) throw IoError(fmt::format("[idx] {}: no such folder", folder));
  const auto find = [&](const std::string& name) {
    const fs::path plain = fs::path(folder) / name;
    fs::path zipped = plain;
    zipped += ".gz";
    if (fs::exists(plain, code)) return plain.string();
    if (fs::exists(zipped, code)) return zipped.string();
    throw IoError(
        fmt::format("[idx] {}: no file {} or {}.gz; a data folder holds MNIST's four IDX files", folder, name, name));
  };
  Split split;
  split.name = folder;
  const std::string train_images = find("train-images-idx3-ubyte"), train_labels = find("train-labels-idx1-ubyte");
  const std::string test_images = find("t10k-images-idx3-ubyte"), test_labels = find("t10k-labels-idx1-ubyte");
  split.train = read_idx_images(train_images, train_labels);
  split.test = read_idx_images(test_images, test_labels);
  if (split.train.rows != split.test.rows || split.train.columns != split.test.columns) {
    throw IoError(fmt::format("[idx] {}: training images are {}x{}, test images {}x{}", folder, split.train.rows,
                              split.train.columns, split.test.rows, split.test.columns));
  }
  return split;
}

}  // namespace heddle::data
