// Readers of arrays: safetensors, NumPy, IDX, CIFAR, images, CSV, records.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "heddle/core/base/error.h"
#include "heddle/data/cifar.h"
#include "heddle/data/csv.h"
#include "heddle/data/datasets.h"
#include "heddle/data/image_file.h"
#include "heddle/data/numpy.h"
#include "heddle/data/records.h"
#include "heddle/data/table.h"
#include "heddle/io/safetensors.h"
#include "tests/fuzz/seed_files.h"
#include "tests/fuzz/target.h"

namespace heddle::fuzz {
namespace {

// What is read and written again is the same.
void safetensors(Bytes input) {
  const SafetensorsBytes file = read_safetensors(file_of(input));
  const std::string copy = scratch_folder() + "/copy.safetensors";
  write_safetensors(copy, file.tensors, file.metadata);
  const SafetensorsBytes again = read_safetensors(copy);
  require(again.metadata == file.metadata && again.tensors.size() == file.tensors.size(),
          "safetensors: the copy differs");
  for (const auto& [name, tensor] : file.tensors) {
    const TensorBytes& other = again.tensors.at(name);
    require(other.dtype == tensor.dtype && other.shape == tensor.shape &&
                std::equal(other.bytes.begin(), other.bytes.end(), tensor.bytes.begin(), tensor.bytes.end()),
            "safetensors: a tensor differs");
  }
}

void npy(Bytes input) {
  const data::Array array = data::read_npy(file_of(input));
  const std::string copy = scratch_folder() + "/copy.npy";
  data::write_npy(copy, array);
  const data::Array again = data::read_npy(copy);
  require(again.bytes == array.bytes && again.shape == array.shape && again.dtype == array.dtype,
          "npy: the copy differs");
}

void npz(Bytes input) { data::read_npz(file_of(input)); }

void idx(Bytes input) {
  for (const int rank : {1, 3}) {
    try {
      data::read_idx(file_of(input), rank);
    } catch (const IoError&) {
    }
  }
  const std::string images = scratch_folder() + "/images";
  std::ofstream(images, std::ios::binary) << text_of(input);
  data::read_idx_images(images, file_of(input), 10);
}

void cifar(Bytes input) {
  try {
    data::read_cifar({file_of(input)}, data::Cifar::hundred);
  } catch (const IoError&) {
  }
  data::read_cifar({file_of(input)}, data::Cifar::ten);
}

// Checksums of a PNG's chunks, made to fit.
void png(Bytes input) {
  std::string file(text_of(input));
  for (size_t at = 8; at + 12 <= file.size();) {
    uint64_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<uint8_t>(file[at + i]);
    if (length > file.size() - at - 12) break;
    const uLong crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(file.data() + at + 4), length + 4);
    for (size_t i = 0; i < 4; ++i) file[at + 8 + length + i] = static_cast<char>(crc >> (24 - 8 * i));
    at += 12 + length;
  }
  for (const int channels : {0, 1, 3}) {
    try {
      data::read_image(file_of(file), channels);
    } catch (const IoError&) {
    }
  }
  data::read_image(file_of(input));
}

void jpeg(Bytes input) {
  for (const int channels : {1, 0}) data::read_image(file_of(input), channels);
}

void csv(Bytes input) {
  const data::CsvTable plain(file_of(input), {.header = false});
  for (int64_t row = 0; row < std::min<int64_t>(plain.size(), 20); ++row) {
    for (size_t column = 0; column < plain.columns().size(); ++column) {
      try {
        plain.number(row, column);
      } catch (const IoError&) {
      }
    }
  }
  const data::CsvTable table(file_of(input));
  try {  // what is learned of a table is stored, read and applied
    const data::TableTarget target = data::read_target(table, {.target = table.columns().back()}).target;
    const std::string stored = data::make_table_code(table, target, {0}).code.str();
    data::encode(table, data::TableCode::parse(stored), true);
  } catch (const UserError&) {
  }
  data::csv_dataset(table, {.label = table.columns().front()});
}

void read_records(const std::string& path) {
  const data::RecordFile file(path);
  data::Random random(0, 0, 0);
  for (int64_t i = 0; i < file.size(); ++i) file.get(i, random);
}

uint32_t crc_of(std::string_view bytes) {
  return static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// The input as it is, and as the only record of a file whose checksums fit.
void records(Bytes input) {
  const std::string_view record = text_of(input);
  std::string file = "HDLREC01" + std::string(record), index, end;
  put(index, uint64_t{8});
  put(index, uint64_t{record.size()});
  put(index, crc_of(record));
  for (const uint64_t number :
       {uint64_t{8 + record.size()}, uint64_t{0}, uint64_t{8 + record.size()}, uint64_t{index.size()}})
    put(end, number);
  put(end, crc_of(""));
  put(end, crc_of(index));
  put(end, crc_of(end));
  file += index + end + "HDLREC01";
  try {
    read_records(file_of(file));
  } catch (const IoError&) {
  }
  read_records(file_of(input));
}

}  // namespace

std::vector<Target> array_targets() {
  return {
      {"safetensors",
       safetensors,
       safetensors_seeds,
       {"\"dtype\":", "\"shape\":", "\"data_offsets\":", "\"F32\"", "\"BOOL\"", "__metadata__", "[[[[[[[[",
        "{\"a\":", "4611686018427387904", "-1", "1e9"}},
      {"npy",
       npy,
       npy_seeds,
       {"'descr': '", "'<f4'", "'>i8'", "'|b1'", "'fortran_order': True", "'shape': (", "999999999999999999", "0, ",
        "1L"}},
      {"npz",
       npz,
       npz_seeds,
       {"PK\x03\x04", "PK\x01\x02", "PK\x05\x06", "PK\x06\x06", "PK\x06\x07", "\xff\xff\xff\xff"}},
      {"idx",
       idx,
       idx_seeds,
       {std::string_view("\0\0\x08\x01", 4), std::string_view("\0\0\x08\x03", 4), "\x1f\x8b", "\xff\xff\xff\xff"}},
      {"cifar", cifar, cifar_seeds, {}},
      {"png", png, png_seeds, {"IHDR", "IDAT", "PLTE", "tRNS", "IEND", "gAMA", "iCCP", "\xff\xff\xff\xff"}},
      {"jpeg",
       jpeg,
       jpeg_seeds,
       {"\xff\xc0", "\xff\xc2", "\xff\xc9", "\xff\xda", "\xff\xdd", "\xff\xc4", "\xff\xd9", "\xff\xff"}},
      {"csv", csv, csv_seeds, {"\"", "\"\"", ",", "\r\n", "\n", "1e999", "nan", " ", "\t", "-"}},
      {"records", records, records_seeds, {"HDLREC01", "\xff\xff\xff\xff\xff\xff\xff\x7f"}},
  };
}

}  // namespace heddle::fuzz
