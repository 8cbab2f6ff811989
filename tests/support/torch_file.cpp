#include "tests/support/torch_file.h"

#include <zlib.h>

#include <utility>

namespace heddle::test {
namespace {

using namespace std::string_literals;  // texts with NULs in them

std::string little_endian(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

std::string pickled(const std::string& text) { return "X" + little_endian(text.size(), 4) + text; }
std::string pickled(int64_t value) { return "\x8a\x08" + little_endian(static_cast<uint64_t>(value), 8); }
std::string pickled(const std::vector<int64_t>& values) {
  std::string tuple = "(";
  for (const int64_t value : values) tuple += pickled(value);
  return tuple + "t";
}

}  // namespace

std::string torch_state(const TorchTensor& tensor, const std::vector<std::string>& names) {
  const std::string storage = "(" + pickled("storage"s) + "ctorch\nFloatStorage\n" + pickled(tensor.key) +
                              pickled("cpu"s) + pickled(tensor.storage_numel) + "tQ";
  std::string dict = "\x80\2}("s;
  for (const std::string& name : names) {
    dict += pickled(name) + "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + pickled(tensor.offset) +
            pickled(tensor.sizes) + pickled(tensor.strides) + "\x89" + "ccollections\nOrderedDict\n)RtR";
  }
  return dict + "u.";
}

std::string torch_archive(const std::string& pickle, const std::string& storage) {
  std::string file, directory;
  const std::pair<std::string, std::string> entries[] = {
      {"a/data.pkl", pickle}, {"a/byteorder", "little"}, {"a/data/0", storage}, {"a/version", "3\n"}};
  for (const auto& [name, content] : entries) {
    const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
    const std::string head = little_endian(20, 2) + std::string(8, '\0') + little_endian(crc, 4) +
                             little_endian(content.size(), 4) + little_endian(content.size(), 4) +
                             little_endian(name.size(), 2);
    directory +=
        "PK\x01\x02" + little_endian(20, 2) + head + std::string(12, '\0') + little_endian(file.size(), 4) + name;
    file += "PK\x03\x04" + head + std::string(2, '\0') + name + content;
  }
  return file + directory + "PK\x05\x06\0\0\0\0"s + little_endian(4, 2) + little_endian(4, 2) +
         little_endian(directory.size(), 4) + little_endian(file.size(), 4) + std::string(2, '\0');
}

std::string legacy_torch_file(const std::string& pickle, const std::string& storage) {
  return "\x80\2\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."s + "\x80\2M\xe9\3."s + "\x80\2}" +
         pickled("little_endian"s) + "\x88s." + pickle + "\x80\2]" + pickled("0"s) + "a." +
         little_endian(storage.size() / 4, 8) + storage;
}

}  // namespace heddle::test
