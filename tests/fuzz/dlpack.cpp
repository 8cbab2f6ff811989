// DLPack tensors of others: the structs are the input's, the memory is the target's.
#include "heddle/core/base/dlpack.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/dlpack.h"
#include "tests/fuzz/seed_files.h"
#include "tests/fuzz/target.h"

namespace heddle::fuzz {
namespace {

__extension__ using Wide = __int128;
constexpr int64_t few_elements = 1 << 11;  // that are looked at

// What an input decides: this, then up to eight dimensions, then as many strides.
struct Claim {
  uint32_t absent = 0;  // 1: the struct, 2: memory, 4: dimensions, 8: strides, 16: the deleter; 32: memory is odd
  uint32_t major = 1;
  uint64_t flags = 0, byte_offset = 0;
  DlDevice device;
  int32_t ndim = 0;
  DlDataType dtype;
};

struct Producer {
  explicit Producer(Bytes input) : memory(1025) {
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<uint8_t>(i * 37 + i / 256);
    Claim claim;
    if (!input.empty()) std::memcpy(&claim, input.data(), std::min(sizeof claim, input.size()));
    input = input.subspan(std::min(sizeof claim, input.size()));
    const auto list = [&](uint32_t absence, std::vector<int64_t>& numbers) -> int64_t* {
      // Exactly as many as are read, so that one more would be seen.
      numbers.resize(claim.ndim >= 0 && claim.ndim <= Shape::max_rank ? static_cast<size_t>(claim.ndim) : 0);
      const size_t bytes = std::min(numbers.size() * sizeof(int64_t), input.size());
      if (bytes > 0) std::memcpy(numbers.data(), input.data(), bytes);
      input = input.subspan(bytes);
      return (claim.absent & absence) != 0 ? nullptr : numbers.data();
    };
    DlTensor& tensor = versioned.tensor;
    if ((claim.absent & 2) == 0) tensor.data = memory.data() + ((claim.absent & 32) != 0 ? 1 : 0);
    tensor.device = claim.device;
    tensor.ndim = claim.ndim;
    tensor.dtype = claim.dtype;
    tensor.shape = list(4, shape);
    tensor.strides = list(8, strides);
    tensor.byte_offset = claim.byte_offset;
    versioned.version.major = claim.major;
    versioned.flags = claim.flags;
    old.tensor = tensor;
    versioned.context = old.context = this;
    if ((claim.absent & 16) != 0) return;
    versioned.deleter = [](DlManagedTensorVersioned* m) { ++static_cast<Producer*>(m->context)->given_back; };
    old.deleter = [](DlManagedTensor* m) { ++static_cast<Producer*>(m->context)->given_back; };
  }
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;

  // Whether bytes lie in the memory that is there; who claims others is believed, so that they are not looked at.
  bool holds(Wide first, Wide bytes) const {
    const Wide begin = reinterpret_cast<uintptr_t>(memory.data());
    return first >= begin && first + bytes <= begin + static_cast<Wide>(memory.size());
  }

  std::vector<uint8_t> memory;
  std::vector<int64_t> shape, strides;
  DlManagedTensorVersioned versioned;
  DlManagedTensor old;
  int given_back = 0;
};

// Where the elements lie, by the specification's formula, in numbers that do not overflow.
struct Stretch {
  Wide first = 0, low = 0, high = 0;  // the address of element 0; elements before and behind it
};

Stretch stretch_of(const Producer& made, int size) {
  const DlTensor& tensor = made.versioned.tensor;
  Stretch s{static_cast<Wide>(reinterpret_cast<uintptr_t>(tensor.data)) + tensor.byte_offset, 0, 0};
  Wide dense = 1;
  for (size_t i = made.shape.size(); i-- > 0;) {
    const Wide stride = tensor.strides != nullptr ? Wide{made.strides[i]} : dense;
    const Wide reach = (made.shape[i] - 1) * stride;
    (reach < 0 ? s.low : s.high) += reach;
    dense *= made.shape[i];
  }
  s.low *= size;
  s.high = (s.high + 1) * size;
  return s;
}

// The elements one by one.
std::vector<uint8_t> expected(const Producer& made, const DlArray& array) {
  const auto size = static_cast<size_t>(size_of(array.dtype));
  std::vector<uint8_t> values;
  std::vector<int64_t> at(made.shape.size(), 0);
  for (uint64_t n = 0; n < array.numel(); ++n) {
    int64_t element = 0, dense = 1;
    for (size_t i = at.size(); i-- > 0; dense *= made.shape[i])
      element += at[i] * (made.versioned.tensor.strides != nullptr ? made.strides[i] : dense);
    const uint8_t* const from = array.first + element * static_cast<int64_t>(size);
    for (size_t b = 0; b < size; ++b)
      values.push_back(array.dtype == DType::boolean ? static_cast<uint8_t>(from[b] != 0) : from[b]);
    for (size_t i = at.size(); i-- > 0 && ++at[i] == made.shape[i];) at[i] = 0;
  }
  return values;
}

// Taken to a device, the values are those; handed out, they are again.
template <class Managed>
void take(Producer& made, Managed& managed, const char* target, const DlArray& array) {
  const bool few = array.view.shape.numel() <= few_elements;
  const bool large = array.view.shape.numel() >= int64_t{1} << 50;  // of which no copy may be tried
  const bool counted = managed.deleter != nullptr;
  std::string copied;
  for (const DlCopy copy : {DlCopy::refused, DlCopy::allowed}) {
    if (copy == DlCopy::allowed && !few && !large) continue;
    made.given_back = 0;
    try {
      const Tensor x = from_dlpack(&managed, &device(target), &copied, copy);
      if (!few) continue;
      const std::vector<uint8_t> values = expected(made, array);
      require(x.shape() == array.view.shape && x.dtype() == array.dtype, "dlpack: another tensor");
      if (std::string_view(target) == "null:0") continue;
      require(x.to_bytes() == values, "dlpack: a value differs");
      DlManagedTensorVersioned* const out = to_dlpack(x);
      require(dense_values(read_dlpack(out, "to_dlpack")) == values, "dlpack: what is handed out differs");
      give_back(out);
    } catch (const Error&) {
      require(made.given_back == 0, "dlpack: what was refused was given back");
      continue;
    }
    require(made.given_back == (counted ? 1 : 0), "dlpack: not given back once");
  }
}

template <class Managed>
void read_one(Producer& made, Managed* managed) {
  const DlArray array = read_dlpack(managed, "fuzz");
  require(std::equal(made.shape.begin(), made.shape.end(), array.view.shape.begin(), array.view.shape.end()),
          "dlpack: another shape");
  if (array.numel() > 0) {
    const int size = size_of(array.dtype);
    const Stretch s = stretch_of(made, size);
    const Wide lowest = reinterpret_cast<uintptr_t>(array.lowest());
    require(s.first + s.low == lowest && s.first + s.low >= 0, "dlpack: elements lie elsewhere");
    require(s.high - s.low == static_cast<Wide>(array.span_bytes()), "dlpack: elements take other room");
    require(s.first + s.high <= Wide{UINTPTR_MAX / 2}, "dlpack: elements behind all addresses");
    if (!made.holds(lowest, s.high - s.low)) return;
    if (array.view.shape.numel() <= few_elements)
      require(dense_values(array) == expected(made, array), "dlpack: a value differs");
  }
  for (const char* const target : {"reference:0", "null:0"}) take(made, *managed, target, array);
}

void dlpack(Bytes input) {
  Producer made(input);
  const bool absent = !input.empty() && (input[0] & 1) != 0;
  try {
    read_one(made, absent ? nullptr : &made.versioned);
  } catch (const UserError&) {
    require(made.given_back == 0, "dlpack: what was refused was given back");
  }
  read_one(made, absent ? nullptr : &made.old);
}

std::string seed(Claim claim, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  claim.ndim = static_cast<int32_t>(shape.size());
  if (strides.empty()) claim.absent |= 8;
  std::string bytes(reinterpret_cast<const char*>(&claim), sizeof claim);
  for (const auto* list : {&shape, &strides}) {
    if (!list->empty()) bytes.append(reinterpret_cast<const char*>(list->data()), list->size() * sizeof(int64_t));
  }
  return bytes;
}

Seeds dlpack_seeds() {
  Claim read_only, turned, odd, doubles, flags;
  read_only.flags = dl_read_only;
  turned.byte_offset = 80;
  odd.absent = 32;
  doubles.dtype = {2, 64, 1};
  flags.dtype = {6, 8, 1};
  return {seed({}, {2, 3}, {}),
          seed(read_only, {3, 2}, {1, 3}),
          seed(turned, {2, 2}, {-4, 1}),
          seed(odd, {4}, {2}),
          seed(doubles, {5, 1, 2}, {0, 9, -1}),
          seed(flags, {7}, {}),
          seed({}, {int64_t{1} << 55}, {0}),
          seed(doubles, {int64_t{1} << 61}, {0}),
          seed({}, {3, 0, 2}, {}),
          seed({}, {}, {})};
}

}  // namespace

std::vector<Target> dlpack_targets() {
  static constexpr char full[] = "\xff\xff\xff\xff\xff\xff\xff\x7f", low[] = "\0\0\0\0\0\0\0\x80",
                        turned[] = "\0\0\0\0\0\0\0\x20", minus[] = "\xff\xff\xff\xff\xff\xff\xff\xff";
  constexpr size_t eight = 8;
  return {{"dlpack", dlpack, dlpack_seeds, {{full, eight}, {low, eight}, {turned, eight}, {minus, eight}}}};
}

}  // namespace heddle::fuzz
