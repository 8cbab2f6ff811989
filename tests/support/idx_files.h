// Makes IDX files for tests, plain and gzip.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "tests/support/temporary_folder.h"

namespace heddle::test {

using Bytes = std::vector<uint8_t>;

inline void append_big_endian(Bytes& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(value >> shift));
}

// An IDX file of bytes with that header, whatever the payload.
inline Bytes idx_file(uint32_t magic, std::initializer_list<uint32_t> sizes, const Bytes& payload) {
  Bytes out;
  append_big_endian(out, magic);
  for (const uint32_t size : sizes) append_big_endian(out, size);
  out.insert(out.end(), payload.begin(), payload.end());
  return out;
}
// Images whose pixel i is i * 7 modulo 256, and labels i % 10.
inline Bytes images_file(uint32_t count, uint32_t rows, uint32_t columns) {
  Bytes pixels(size_t{count} * rows * columns);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 7);
  return idx_file(0x803, {count, rows, columns}, pixels);
}
inline Bytes labels_file(uint32_t count) {
  Bytes labels(count);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<uint8_t>(i % 10);
  return idx_file(0x801, {count}, labels);
}

// MNIST's four files in a folder, of square images.
inline void write_mnist_folder(const TemporaryFolder& folder, uint32_t train, uint32_t test, uint32_t side = 28) {
  write_bytes(folder / "train-images-idx3-ubyte", images_file(train, side, side));
  write_bytes(folder / "train-labels-idx1-ubyte", labels_file(train));
  write_bytes(folder / "t10k-images-idx3-ubyte", images_file(test, side, side));
  write_bytes(folder / "t10k-labels-idx1-ubyte", labels_file(test));
}

}  // namespace heddle::test
