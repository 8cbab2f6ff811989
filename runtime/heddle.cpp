// From exceptions to a status and a line.
#include "heddle/runtime/heddle.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/of_this_thread.h"
#include "heddle/runtime/loaded_model.h"

namespace {

using heddle::LoadedModel;
using heddle::ModelImage;

static_assert(static_cast<int>(heddle::DType::f32) == HEDDLE_F32 &&
              static_cast<int>(heddle::DType::bf16) == HEDDLE_BF16);
static_assert(static_cast<int>(heddle::DType::i8) == HEDDLE_I8 && static_cast<int>(heddle::DType::i64) == HEDDLE_I64);
static_assert(static_cast<int>(heddle::DType::boolean) == HEDDLE_BOOL && heddle::dtype_count == 9);

// One line of text, cut where it is longer; it takes no memory when there is none.
struct Complaint {
  std::array<char, 1024> text{};
  void set(std::string_view line) noexcept {
    const size_t length = std::min(line.size(), text.size() - 1);
    std::copy_n(line.begin(), length, text.begin());
    text[length] = '\0';
  }
};
// Why heddle_open() failed.
struct OpenComplaint : Complaint {};
// This thread's; null: the host has no memory for it.
Complaint* open_complaint() noexcept {
  try {
    return &heddle::of_this_thread<OpenComplaint>();
  } catch (...) {
    return nullptr;
  }
}

// The status of the exception that is being handled.
heddle_status note(Complaint& complaint) noexcept {
  const auto told = [&](heddle_status status, const char* text) {
    complaint.set(text);
    return status;
  };
  try {
    throw;
  } catch (const heddle::ModelError& error) {
    return told(error.status(), error.what());
  } catch (const heddle::OutOfMemory& error) {
    return told(HEDDLE_OUT_OF_MEMORY, error.what());
  } catch (const heddle::DeviceLost& error) {
    return told(HEDDLE_DEVICE_LOST, error.what());
  } catch (const heddle::DeviceUnavailable& error) {
    return told(HEDDLE_NO_DEVICE, error.what());
  } catch (const heddle::DeviceError& error) {
    return told(HEDDLE_DEVICE_FAULT, error.what());
  } catch (const heddle::IoError& error) {
    return told(HEDDLE_BAD_FILE, error.what());
  } catch (const heddle::CopyNeeded& error) {
    return told(HEDDLE_WOULD_COPY, error.what());
  } catch (const heddle::UserError& error) {
    return told(HEDDLE_BAD_ARGUMENT, error.what());
  } catch (const std::bad_alloc&) {
    return told(HEDDLE_OUT_OF_MEMORY, "the host has no memory left for this");
  } catch (const std::exception& error) {
    return told(HEDDLE_INTERNAL, error.what());
  } catch (...) {
    return told(HEDDLE_INTERNAL, "something was thrown that is no exception");
  }
}

template <class F>
heddle_status answer(Complaint& complaint, const F& work) noexcept {
  try {
    work();
    return HEDDLE_OK;
  } catch (...) {
    return note(complaint);
  }
}

void fill(const ModelImage::Port& from, heddle_port& to) {
  to.name = from.name.c_str();
  to.type = static_cast<heddle_type>(from.dtype);
  to.rank = static_cast<int32_t>(from.shape.size());
  to.shape = from.shape.data();
  to.bytes = from.bytes();
}

void require(bool holds, const char* what) {
  if (!holds) throw heddle::ModelError(HEDDLE_BAD_ARGUMENT, what);
}

heddle_status port_of(Complaint& complaint, const std::vector<ModelImage::Port>& ports, uint32_t index,
                      heddle_port* port) {
  return answer(complaint, [&] {
    require(port != nullptr, "the port is null");
    require(index < ports.size(), "the model has no such input or output");
    fill(ports[index], *port);
  });
}

}  // namespace

struct heddle_model {
  heddle_model(const std::string& path, const heddle::LoadedModelOptions& options) : loaded(path, options) {}
  LoadedModel loaded;
  Complaint complaint;
  Complaint copied;
};

namespace {

heddle::DlCopy copy_of(unsigned flags) {
  require((flags & ~HEDDLE_NO_COPY) == 0, "unknown flags");
  return (flags & HEDDLE_NO_COPY) != 0 ? heddle::DlCopy::refused : heddle::DlCopy::allowed;
}

void say_copied(heddle_model* model, const char* reason) { model->copied.set(reason != nullptr ? reason : ""); }

// The library's structs are those of the specification's header.
enum class Kind : bool { old, versioned };

heddle::OfferedArray offered(void* tensor, Kind kind, const char* place) {
  return {tensor, kind == Kind::versioned, place};
}

heddle_status take_input(heddle_model* model, uint32_t index, void* tensor, Kind kind, unsigned flags) noexcept {
  if (model == nullptr) return HEDDLE_BAD_ARGUMENT;
  return answer(model->complaint, [&] {
    const heddle::DlCopy copy = copy_of(flags);
    say_copied(model, model->loaded.take_input(index, offered(tensor, kind, "heddle_input_dlpack"), copy));
  });
}

heddle_status take_output(heddle_model* model, uint32_t index, void* tensor, Kind kind) noexcept {
  if (model == nullptr) return HEDDLE_BAD_ARGUMENT;
  return answer(model->complaint, [&] {
    say_copied(model, nullptr);
    if (tensor == nullptr) return model->loaded.take_output_back(index);
    model->loaded.take_output(index, offered(tensor, kind, "heddle_output_into"));
  });
}

heddle_status hand_output(heddle_model* model, uint32_t index, unsigned flags, void** tensor, Kind kind) noexcept {
  if (tensor != nullptr) *tensor = nullptr;
  if (model == nullptr) return HEDDLE_BAD_ARGUMENT;
  return answer(model->complaint, [&] {
    require(tensor != nullptr, "the place for the tensor is null");
    const char* copied = nullptr;
    heddle::HandedArray array = model->loaded.hand_output(index, copy_of(flags), copied);
    say_copied(model, copied);
    *tensor = kind == Kind::versioned
                  ? static_cast<void*>(heddle::hand_out<heddle::DlManagedTensorVersioned>(std::move(array)))
                  : heddle::hand_out<heddle::DlManagedTensor>(std::move(array));
  });
}

}  // namespace

extern "C" {

int heddle_abi(void) { return HEDDLE_ABI; }

heddle_status heddle_open(const char* path, const char* device, unsigned flags, heddle_model** model) {
  Complaint* const complaint = open_complaint();
  if (model != nullptr) *model = nullptr;
  if (complaint == nullptr) return HEDDLE_OUT_OF_MEMORY;
  return answer(*complaint, [&] {
    require(path != nullptr && model != nullptr, "heddle_open: the path or the model is null");
    require((flags & ~HEDDLE_TRUST_FILE) == 0, "heddle_open: unknown flags");
    *model = new heddle_model(path, {device != nullptr ? device : "", (flags & HEDDLE_TRUST_FILE) != 0});
  });
}

void heddle_close(heddle_model* model) { delete model; }

const char* heddle_device(const heddle_model* model) {
  return model != nullptr ? model->loaded.device_id().c_str() : nullptr;
}

const char* heddle_bucket(const heddle_model* model, uint32_t index) {
  if (model == nullptr || index >= model->loaded.bucket_count()) return nullptr;
  return model->loaded.bucket_name(index).c_str();
}

heddle_status heddle_use(heddle_model* model, const char* bucket) {
  if (model == nullptr) return HEDDLE_BAD_ARGUMENT;
  return answer(model->complaint, [&] {
    require(bucket != nullptr, "the bucket is null");
    model->loaded.use(bucket);
  });
}

heddle_status heddle_input_port(heddle_model* model, uint32_t index, heddle_port* port) {
  if (model == nullptr) return HEDDLE_BAD_ARGUMENT;
  return port_of(model->complaint, model->loaded.inputs(), index, port);
}

heddle_status heddle_output_port(heddle_model* model, uint32_t index, heddle_port* port) {
  if (model == nullptr) return HEDDLE_BAD_ARGUMENT;
  return port_of(model->complaint, model->loaded.outputs(), index, port);
}

heddle_status heddle_input(heddle_model* model, uint32_t index, const void* values, uint64_t bytes) {
  if (model == nullptr) return HEDDLE_BAD_ARGUMENT;
  return answer(model->complaint, [&] { model->loaded.set_input(index, values, bytes); });
}

heddle_status heddle_run(heddle_model* model) {
  if (model == nullptr) return HEDDLE_BAD_ARGUMENT;
  return answer(model->complaint, [&] { model->loaded.run(); });
}

heddle_status heddle_done(heddle_model* model, int* done) {
  if (model == nullptr) return HEDDLE_BAD_ARGUMENT;
  return answer(model->complaint, [&] {
    require(done != nullptr, "the place for the answer is null");
    *done = model->loaded.done() ? 1 : 0;
  });
}

heddle_status heddle_output(heddle_model* model, uint32_t index, void* values, uint64_t bytes) {
  if (model == nullptr) return HEDDLE_BAD_ARGUMENT;
  return answer(model->complaint, [&] { model->loaded.read_output(index, values, bytes); });
}

heddle_status heddle_input_dlpack(heddle_model* model, uint32_t index, DLManagedTensorVersioned* tensor,
                                  unsigned flags) {
  return take_input(model, index, tensor, Kind::versioned, flags);
}

heddle_status heddle_input_dlpack_unversioned(heddle_model* model, uint32_t index, DLManagedTensor* tensor,
                                              unsigned flags) {
  return take_input(model, index, tensor, Kind::old, flags);
}

heddle_status heddle_output_into(heddle_model* model, uint32_t index, DLManagedTensorVersioned* tensor) {
  return take_output(model, index, tensor, Kind::versioned);
}

heddle_status heddle_output_into_unversioned(heddle_model* model, uint32_t index, DLManagedTensor* tensor) {
  return take_output(model, index, tensor, Kind::old);
}

heddle_status heddle_output_dlpack(heddle_model* model, uint32_t index, unsigned flags,
                                   DLManagedTensorVersioned** tensor) {
  return hand_output(model, index, flags, reinterpret_cast<void**>(tensor), Kind::versioned);
}

heddle_status heddle_output_dlpack_unversioned(heddle_model* model, uint32_t index, unsigned flags,
                                               DLManagedTensor** tensor) {
  return hand_output(model, index, flags, reinterpret_cast<void**>(tensor), Kind::old);
}

const char* heddle_copied(const heddle_model* model) { return model != nullptr ? model->copied.text.data() : ""; }

const char* heddle_error(const heddle_model* model) {
  if (model != nullptr) return model->complaint.text.data();
  const Complaint* const complaint = open_complaint();
  return complaint != nullptr ? complaint->text.data() : "the host has no memory left";
}

}  // extern "C"
