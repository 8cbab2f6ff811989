// DLPack tensors as inputs and outputs of LoadedModel.
#include <fmt/format.h>

#include <utility>

#include "heddle/core/device/adopted.h"
#include "heddle/core/device/storage.h"
#include "heddle/runtime/loaded_model.h"

namespace heddle {
namespace {

constexpr const char* unfit_address = "the device takes no memory there";

[[noreturn]] void fail_shared(const char* place, const char* what, const ModelImage::Port& port) {
  throw ValueError(fmt::format("[{}] the memory is also that of {} {}", place, what, port.name));
}

}  // namespace

// Whether an output that is written to memory of others lies where that output lies.
bool LoadedModel::shares_result(const Bucket& bucket, size_t index) {
  const GraphImage::Output& own = output_of(bucket, bucket.outputs[index]);
  for (size_t i = 0; i < bucket.outputs.size(); ++i) {
    const GraphImage::Output& other = output_of(bucket, bucket.outputs[i]);
    if (i != index && bucket.written[i].storage() && other.kind == own.kind && other.index == own.index) return true;
  }
  return false;
}

void LoadedModel::read_own(Bucket& bucket, size_t index) {
  bucket.bound->use_input(bucket.inputs[index].index, bucket.given[index]);
  bucket.find_results();
  bucket.read[index] = {};
}

const char* LoadedModel::take_input(size_t index, const OfferedArray& offer, DlCopy copy) {
  constexpr const char* place = "heddle_input_dlpack";
  Bucket& bucket = current();
  check_index(index, bucket.inputs.size(), "input");
  const ModelImage::Port& port = bucket.inputs[index];
  const DlArray& array = offer.array;
  check_fits(port, array, place);
  check_apart(bucket, array, bucket.outputs.size(), place);
  const char* reason = why_not_shared(array, *device_);
  if (port.index < 0 || array.numel() == 0) {  // nothing reads it
    bucket.has_values[index] = true;
    offer.give_back();
    return reason != nullptr ? reason : "the model does not read this input";
  }
  if (reason == nullptr && array.dtype == DType::boolean) reason = "bools are checked";
  if (reason == nullptr && !bucket.read[index].lies_at(array)) {
    SharedArray made(*device_, array, HostUse::read);
    if (made.storage()) {
      bucket.bound->use_input(port.index, made.storage());
      bucket.find_results();
      bucket.read[index] = std::move(made);
    } else {
      reason = unfit_address;
    }
  }
  if (reason == nullptr) {
    bucket.read[index].take(offer.give_back);
  } else {
    check_copy(reason, copy, place);
    const std::vector<uint8_t> values = dense_values(array);
    set_input(index, values.data(), values.size());
    offer.give_back();
  }
  bucket.has_values[index] = true;
  return reason;
}

// A run reads all of its inputs while it writes its outputs.
void LoadedModel::check_apart(const Bucket& bucket, const DlArray& array, size_t output, const char* place) {
  const bool written = output < bucket.outputs.size();
  for (size_t i = 0; i < bucket.read.size(); ++i) {
    if (written && bucket.read[i].overlaps(array)) fail_shared(place, "input", bucket.inputs[i]);
  }
  for (size_t i = 0; i < bucket.written.size(); ++i) {
    if (i != output && bucket.written[i].overlaps(array)) fail_shared(place, "output", bucket.outputs[i]);
  }
}

void LoadedModel::take_output(size_t index, const OfferedArray& offer) {
  constexpr const char* place = "heddle_output_into";
  Bucket& bucket = current();
  check_index(index, bucket.outputs.size(), "output");
  const DlArray& array = offer.array;
  check_fits(bucket.outputs[index], array, place);
  if (array.read_only) throw ValueError(fmt::format("[{}] the memory is read-only", place));
  check_apart(bucket, array, index, place);
  const GraphImage::Output& output = output_of(bucket, bucket.outputs[index]);
  const char* reason = why_not_shared(array, *device_);
  if (reason == nullptr && output.kind != GraphImage::Output::Kind::own)
    reason = "the output is an input or a constant";
  if (reason == nullptr && shares_result(bucket, index)) reason = "another output lies there";
  if (reason == nullptr && !bucket.results[index].dense) reason = "the model computes it in another order";
  const uint64_t bytes = array.span_bytes();  // kernels may write whole words
  if (reason == nullptr && (bytes % 4 != 0 || bytes < bucket.image->own_bytes[static_cast<size_t>(output.index)]))
    reason = "the model writes beyond its last element";
  if (reason == nullptr && !bucket.written[index].lies_at(array)) {
    SharedArray made(*device_, array, HostUse::write);
    if (made.storage()) {
      write_to(bucket, index, made.storage());
      bucket.written[index] = std::move(made);
    } else {
      reason = unfit_address;
    }
  }
  if (reason != nullptr) check_copy(reason, DlCopy::refused, place);
  bucket.written[index].take(offer.give_back);
}

void LoadedModel::take_output_back(size_t index) {
  Bucket& bucket = current();
  check_index(index, bucket.outputs.size(), "output");
  if (!bucket.written[index].storage()) return;
  const ModelImage::Port& port = bucket.outputs[index];
  const auto own = static_cast<size_t>(output_of(bucket, port).index);
  write_to(bucket, index, device_->allocate(bucket.image->own_bytes[own]));
  bucket.written[index] = {};
}

// What the latest run wrote is not there.
void LoadedModel::write_to(Bucket& bucket, size_t index, const StoragePtr& storage) {
  bucket.bound->use_result(output_of(bucket, bucket.outputs[index]).index, storage);
  bucket.find_results();
  bucket.ran = false;
}

void LoadedModel::Bucket::find_results() {
  for (size_t i = 0; i < results.size(); ++i) results[i].storage = bound->storage(output_of(*this, outputs[i]));
}

HandedArray LoadedModel::hand_output(size_t index, DlCopy copy, const char*& copied) {
  constexpr const char* place = "heddle_output_dlpack";
  const Bucket& bucket = current();
  check_index(index, bucket.outputs.size(), "output");
  check_ran(bucket.ran);
  wait(bucket.last);
  const ModelImage::Port& port = bucket.outputs[index];
  const Result& result = bucket.results[index];
  copied = port.bytes() == 0 ? "there are no elements" : nullptr;
  if (copied == nullptr) {
    if (void* const base = host_address(*result.storage)) {
      const int64_t skip = result.view.offset * static_cast<int64_t>(size_of(port.dtype));
      return {static_cast<char*>(base) + skip, result.view, port.dtype, result.storage};
    }
    copied = "the device's memory is not the host's";
    check_copy(copied, copy, place);
  }
  const std::shared_ptr<void> memory = dlpack_memory(port.bytes(), place);
  read_output(index, memory.get(), port.bytes());
  return {memory.get(), View::dense(Shape(port.shape)), port.dtype, memory, dl_read_only | dl_copied};
}

}  // namespace heddle
