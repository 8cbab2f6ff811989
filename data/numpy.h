// NumPy's files: .npy (one array) and .npz (a zip archive of them), and arrays by name from any file that has them.
//
// Read: formats 1 to 3, C and Fortran order, both byte orders, every dtype that NumPy and Heddle share (f2, f4, f8, i1,
// u1, i4, i8, b1); archives stored or deflated, without ZIP64. Written: format 1, C order; bf16, which NumPy has not,
// is a DTypeError. Errors: IoError with the path (and the archive's entry) for what is truncated, corrupt (CRC-32 in
// archives), or of another dtype; sizes are compared with what is there before memory is taken. Thread safety: pure
// functions.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heddle/data/dataset.h"

namespace heddle::data {

using NamedArrays = std::map<std::string, Array>;

Array read_npy(const std::string& path);
NamedArrays read_npz(const std::string& path);
void write_npy(const std::string& path, const Array& array);

// By the ending: .npy (its array is called "data"), .npz, .safetensors.
NamedArrays read_arrays(const std::string& path);
// Examples along the first dimension of these arrays of the file, in this order; none named: all, by name. ValueError
// that names the arrays there are.
DatasetPtr arrays_dataset(const std::string& path, const std::vector<std::string>& names = {});

}  // namespace heddle::data
