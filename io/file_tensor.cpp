#include "heddle/io/file_tensor.h"

#include <utility>

#include "heddle/core/base/integers.h"
#include "heddle/core/device/adopted.h"
#include "heddle/core/graph/node.h"

namespace heddle {
namespace {

constexpr uint64_t least_adopted = 4096;  // a smaller one shares memory with others
constexpr uint64_t alignment = 64;        // that drivers ask of adopted memory
constexpr uint64_t word = 4;              // bindings end at a multiple of it

// The memory from a place before the bytes on, so that the tensor is a view which is not assigned in place. None where
// the file has nothing before them.
std::span<const uint8_t> around(const FileBytes& file, std::span<const uint8_t> bytes) {
  const std::span<const uint8_t> all = file.bytes();
  const auto at = static_cast<uint64_t>(bytes.data() - all.data());
  if (!file.is_mapped() || bytes.size() < least_adopted || at == 0) return {};
  const uint64_t begin = (at - 1) / alignment * alignment;
  const uint64_t end = round_up(at + bytes.size(), word);  // a mapping has whole pages
  return {all.data() + begin, static_cast<size_t>(end - begin)};
}

}  // namespace

Tensor tensor_of_file(const std::shared_ptr<const FileBytes>& file, std::span<const uint8_t> bytes, DType dtype,
                      const Shape& shape, DeviceContext& device) {
  const auto count = static_cast<size_t>(shape.numel());
  const std::span<const uint8_t> memory = around(*file, bytes);
  const auto offset = static_cast<uint64_t>(bytes.data() - memory.data());
  if (!memory.empty() && offset % size_of(dtype) == 0) {
    if (StoragePtr storage = adopt_constant(device, memory.data(), memory.size(), [kept = file] {})) {
      View view = View::dense(shape);
      view.offset = static_cast<int64_t>(offset / size_of(dtype));
      return Tensor(make_leaf(std::move(storage), view, dtype));
    }
  }
  return Tensor::from_bytes(bytes.data(), count, dtype, shape, &device);
}

}  // namespace heddle
