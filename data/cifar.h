// CIFAR-10 and CIFAR-100 in their binary form: cs.toronto.edu/~kriz/cifar.html.
//
// A record is the label (CIFAR-100: coarse, then fine) and 3 x 32 x 32 bytes. Errors: IoError with the file for a size
// that is no whole number of records and labels out of range. Thread safety: pure functions.
#pragma once

#include <string>
#include <vector>

#include "heddle/data/dataset.h"

namespace heddle::data {

enum class Cifar : uint8_t { ten, hundred };

struct ImageClasses {
  DatasetPtr train, test;            // (pixels (3, 32, 32) u8, label i32)
  std::vector<std::string> classes;  // "0", "1", ... where the folder has no file of names
};

// The examples of some files, in order; of CIFAR-100 the fine labels.
DatasetPtr read_cifar(const std::vector<std::string>& paths, Cifar kind);
// A folder as the archive has it: data_batch_1.bin to data_batch_5.bin and test_batch.bin, or train.bin and test.bin.
ImageClasses read_cifar_folder(const std::string& folder);

}  // namespace heddle::data
