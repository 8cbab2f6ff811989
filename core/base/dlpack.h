// The structs of the DLPack specification (0.8 and 1.0), what of them a value of Heddle can be, and values as theirs.
//
// Purpose: arrays of other libraries in the library (core/graph/dlpack.h) and in the runtime (runtime/heddle.h). A
// pointer to these structs may be cast from and to that of the specification's own header. Invariants: nothing of a
// DlTensor is acted on before read_dlpack() has looked at all of it; what is handed out keeps its owner until its
// deleter is called, once, from any thread. Errors: ValueError, DTypeError, ShapeError "[place] ...". Thread safety:
// plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "heddle/core/base/dtype.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/view.h"

namespace heddle {

struct DlDevice {
  int32_t type = 1, id = 0;  // 1: the CPU
};
struct DlDataType {
  uint8_t code = 2, bits = 32;  // code 0: signed, 1: unsigned, 2: float, 4: bfloat, 6: bool
  uint16_t lanes = 1;
};
struct DlTensor {
  void* data = nullptr;
  DlDevice device;
  int32_t ndim = 0;
  DlDataType dtype;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;  // in elements; null: row-major
  uint64_t byte_offset = 0;
};
struct DlManagedTensor {
  DlTensor tensor;
  void* context = nullptr;
  void (*deleter)(DlManagedTensor*) = nullptr;
};
struct DlVersion {
  uint32_t major = 1, minor = 0;
};
struct DlManagedTensorVersioned {
  DlVersion version;
  void* context = nullptr;
  void (*deleter)(DlManagedTensorVersioned*) = nullptr;
  uint64_t flags = 0;
  DlTensor tensor;
};
inline constexpr uint64_t dl_read_only = 1, dl_copied = 2;
// That the specification asks of memory that is handed out.
inline constexpr uint64_t dl_alignment = 256;

// What was to go without a copy cannot: the reason.
class CopyNeeded : public ValueError {
 public:
  using ValueError::ValueError;
};
enum class DlCopy : uint8_t { allowed, refused };

// Where the elements of a tensor lie in the host's memory, and what they are.
struct DlArray {
  DType dtype = DType::f32;
  View view;                 // of `first`; strides may be negative or zero
  uint8_t* first = nullptr;  // element 0; null where there are no elements
  bool read_only = false;

  uint64_t numel() const { return static_cast<uint64_t>(view.shape.numel()); }
  bool is_aligned() const { return reinterpret_cast<uintptr_t>(first) % size_of(dtype) == 0; }
  // The stretch that the elements lie in.
  uint8_t* lowest() const { return first + view.extent().first * static_cast<int64_t>(size_of(dtype)); }
  uint64_t span_bytes() const;
};
// ValueError also for memory of a device that is not the host's, for another major version, and for null.
DlArray read_dlpack(const DlManagedTensorVersioned* tensor, const char* place);
DlArray read_dlpack(const DlManagedTensor* tensor, const char* place);
// The elements row-major, bools as 0 and 1.
std::vector<uint8_t> dense_values(const DlArray& array);

// Calls the deleter, if there is one.
void give_back(DlManagedTensorVersioned* tensor);
void give_back(DlManagedTensor* tensor);

// Elements in the host's memory that others are to see, as one of the two structs; the older one has no flags.
struct HandedArray {
  void* first = nullptr;  // element of the view at index 0 of each axis
  View view;              // its offset is not looked at
  DType dtype = DType::f32;
  std::shared_ptr<const void> owner;  // kept until the deleter is called
  uint64_t flags = dl_read_only;
};
template <class Managed>
Managed* hand_out(HandedArray array);
template <>
DlManagedTensorVersioned* hand_out(HandedArray array);
template <>
DlManagedTensor* hand_out(HandedArray array);

// New memory at a multiple of dl_alignment. OutOfMemory.
std::shared_ptr<void> dlpack_memory(uint64_t bytes, const char* place);

}  // namespace heddle
