// A graph for another process: its image, what it reads, and which bytes of its outputs count.
// tests/conformance/programs/image_run.cpp runs it. Thread safety: plain values; files as any.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "heddle/core/base/archive.h"
#include "heddle/core/device/context.h"
#include "heddle/core/run/graph_result.h"

namespace heddle::test {

struct ImageJob {
  struct Input {
    std::vector<uint8_t> bytes;  // of the whole storage
    uint64_t base = 0;
  };
  // Bytes of an output's storage.
  struct Range {
    uint64_t begin = 0, size = 0;
  };
  std::vector<uint8_t> image;
  std::vector<Input> inputs;
  std::vector<uint32_t> host_words;  // four a host value
  std::vector<std::vector<Range>> outputs;
};
using ImageResults = std::vector<std::vector<uint8_t>>;  // by output

template <class Archive>
void visit(Archive& a, ImageJob& job) {
  a.numbers(job.image);
  a.list(job.inputs, [&](ImageJob::Input& input) {
    a.numbers(input.bytes);
    a(input.base);
  });
  a.numbers(job.host_words);
  a.list(job.outputs, [&](std::vector<ImageJob::Range>& ranges) {
    a.list(ranges, [&](ImageJob::Range& range) { a(range.begin, range.size); });
  });
}
template <class Archive>
void visit(Archive& a, ImageResults& results) {
  a.list(results, [&](std::vector<uint8_t>& bytes) { a.numbers(bytes); });
}

template <class T>
void write_archive(const std::string& path, T value) {
  ArchiveWriter out;
  visit(out, value);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(out.bytes.data()), static_cast<std::streamsize>(out.bytes.size()));
}
template <class T>
T read_archive(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  ArchiveReader in(bytes);
  T value;
  visit(in, value);
  if (!in.whole()) throw std::runtime_error(path + " is damaged");
  return value;
}

inline std::vector<uint8_t> bytes_of(DeviceContext& device, Storage& storage, uint64_t begin, uint64_t size) {
  std::vector<uint8_t> bytes(size);
  if (size > 0) device.read(storage, begin, bytes.data(), size);
  return bytes;
}
inline ImageResults read_results(DeviceContext& device, const GraphResult& result,
                                 const std::vector<std::vector<ImageJob::Range>>& outputs) {
  ImageResults all;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Storage& storage = *result.outputs.at(i).storage;
    const std::vector<uint8_t> whole = bytes_of(device, storage, 0, storage.bytes());
    all.emplace_back();
    for (const ImageJob::Range& range : outputs[i])
      all.back().insert(all.back().end(), whole.begin() + static_cast<std::ptrdiff_t>(range.begin),
                        whole.begin() + static_cast<std::ptrdiff_t>(range.begin + range.size));
  }
  return all;
}

}  // namespace heddle::test
