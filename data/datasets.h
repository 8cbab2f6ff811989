// Labelled image sets: MNIST-type files and the embedded set of drawn digits.
//
// Purpose: host-side data of a training job. Invariants: pixels are row-major bytes, image after image; labels.size()
// images; every label is smaller than `classes` (checked when the set is made). Errors: IoError that names the file,
// what was expected and what was found; nothing is allocated on the word of a file header alone. Thread safety: plain
// values; the functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/data/dataset.h"

namespace heddle::data {

struct ImageSet {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t classes = 0;
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  int64_t image_size() const { return rows * columns; }
};

// (pixels u8 (1, rows, columns), label i32), a copy.
DatasetPtr dataset_of(const ImageSet& set);

struct Split {
  std::string name;  // "stroke-digits", or the folder it was read from
  ImageSet train;
  ImageSet test;
};

// The contents of an IDX file of bytes (type 0x08). `shape` has the file's dimensions.
struct IdxArray {
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
};
// Reads an IDX file, plain or gzip-compressed (told apart by content, not by name). `rank` is the expected number of
// dimensions.
IdxArray read_idx(const std::string& path, int rank);

// One images file (rank 3) and one labels file (rank 1) with equal counts.
ImageSet read_idx_images(const std::string& images_path, const std::string& labels_path, int64_t classes = 10);
// A folder with MNIST's four files, each plain or with .gz: train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-...
Split read_mnist_folder(const std::string& folder);

// The embedded set: 28x28 digits drawn from strokes in several styles, each with a random affine map, elastic waves,
// stroke width, stray marks, occlusion and noise. Image i of a split depends only on (seed, split, i) and is computed
// in integers, so the bytes are the same on every platform. Labels are drawn uniformly.
Split stroke_digits(uint64_t seed = 1, int64_t train_images = 30000, int64_t test_images = 5000);

}  // namespace heddle::data
