#include "heddle/runtime/loaded_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "heddle/core/base/host_array.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/runtime/place_weight.h"

namespace heddle {
namespace {

FileBytes mapped(const std::string& path) {
  try {
    return FileBytes::map(path, "heddle_open");
  } catch (const IoError& error) {
    throw ModelError(HEDDLE_NO_FILE, error.what());
  }
}

bool same_ports(const std::vector<ModelImage::Port>& ports, const std::vector<Golden::Value>& values) {
  return std::equal(ports.begin(), ports.end(), values.begin(), values.end(), [](const auto& port, const auto& value) {
    return port.name == value.name && port.dtype == value.dtype && port.shape == value.shape;
  });
}

// What launches need stays.
void drop_code(GraphImage& image) {
  image.once.clear();
  for (GraphImage::Kernel& kernel : image.kernels) {
    kernel.source.reset();
    kernel.binary.bytes = {};
    kernel.binary.text = {};
  }
}

void check_bytes(const ModelImage::Port& port, const void* values, uint64_t bytes, const char* what) {
  if (bytes != port.bytes())
    throw ModelError(HEDDLE_BAD_ARGUMENT,
                     fmt::format("{} {} has {} bytes, and the call says {}", what, port.name, port.bytes(), bytes));
  if (values == nullptr && bytes > 0)
    throw ModelError(HEDDLE_BAD_ARGUMENT, fmt::format("{} {}: the pointer is null", what, port.name));
}

}  // namespace

void LoadedModel::check_index(size_t index, size_t count, const char* what) {
  if (index >= count)
    throw ModelError(HEDDLE_BAD_ARGUMENT, fmt::format("there is no {} {}: the model has {}", what, index, count));
}

void LoadedModel::check_ran(bool ran) {
  if (!ran) throw ModelError(HEDDLE_BAD_ARGUMENT, "the model has not run yet in this bucket");
}

const GraphImage::Output& LoadedModel::output_of(const Bucket& bucket, const ModelImage::Port& port) {
  return bucket.image->outputs[static_cast<size_t>(port.index)];
}

LoadedModel::LoadedModel(const std::string& path, const LoadedModelOptions& options)
    : parts_(ModelParts::of(mapped(path), path)) {
  if (!options.trust) parts_.verify();
  const std::string id = options.device.empty() ? best_device(parts_) : options.device;
  device_ = &device(id);
  open(options);
}

LoadedModel::~LoadedModel() {
  try {
    for (const Bucket& bucket : buckets_) wait(bucket.last);
  } catch (const DeviceError&) {  // what is lost runs no more
  }
}

void LoadedModel::open(const LoadedModelOptions& options) {
  std::vector<NamedImage> images = images_for(parts_, *device_);
  arena_ = std::make_unique<ModelArena>(*device_);
  for (const NamedImage& named : images) {
    arena_->need(named.image.image);
    for (const GraphImage& once : named.image.image.once) arena_->need(once);
  }
  arena_->make();
  for (NamedImage& named : images) bind(named);
  if (!options.trust) compare_golden();
}

StoragePtr LoadedModel::weight(const ModelImage::Weight& weight) {
  const auto [at, fresh] = weights_.try_emplace({weight.part, {weight.offset, weight.bytes}});
  if (fresh) at->second = place_weight(*device_, parts_, weight);
  return at->second;
}

void LoadedModel::bind(NamedImage& named) {
  ModelImage& image = named.image;
  const std::vector<KernelId> kernels = load_kernels(*device_, image);
  Bucket bucket;
  bucket.name = std::move(named.bucket);
  std::vector<StoragePtr> storages(image.image.input_bytes.size());
  for (const ModelImage::Weight& each : image.weights) storages[static_cast<size_t>(each.slot)] = weight(each);
  for (const ModelImage::Port& port : image.inputs) {
    bucket.given.push_back(port.index < 0 ? nullptr : device_->allocate(port.bytes()));
    if (port.index >= 0) storages[static_cast<size_t>(port.index)] = bucket.given.back();
  }
  size_t next = image.image.kernels.size();
  for (const GraphImage& once : image.image.once) {
    compute_once(once, std::span(kernels).subspan(next), storages);
    next += once.kernels.size();
  }
  bucket.image = std::make_unique<GraphImage>(std::move(image.image));
  drop_code(*bucket.image);
  bucket.bound =
      std::make_unique<BoundImage>(*device_, *bucket.image, std::span(kernels).first(bucket.image->kernels.size()),
                                   std::move(storages), image.host_words, *arena_);
  for (const ModelImage::Port& port : image.outputs) add_result(bucket, output_of(bucket, port), port);
  bucket.read.resize(image.inputs.size());
  bucket.written.resize(image.outputs.size());
  bucket.has_values.assign(image.inputs.size(), false);
  bucket.inputs = std::move(image.inputs);
  bucket.outputs = std::move(image.outputs);
  buckets_.push_back(std::move(bucket));
}

// What depends on weights alone: its outputs are the last storages that the image reads.
void LoadedModel::compute_once(const GraphImage& once, std::span<const KernelId> kernels,
                               std::vector<StoragePtr>& storages) {
  const size_t first = storages.size() - once.outputs.size();
  std::vector<StoragePtr> read(storages.begin(), storages.begin() + static_cast<std::ptrdiff_t>(first));
  for (StoragePtr& storage : read) {
    if (!storage) storage = device_->allocate(0);  // an input of the model, which it does not read
  }
  BoundImage bound(*device_, once, kernels.first(once.kernels.size()), std::move(read), {}, *arena_);
  bound.submit();
  device_->synchronize();
  for (size_t i = 0; i < once.outputs.size(); ++i) storages[first + i] = bound.storage(once.outputs[i]);
}

void LoadedModel::add_result(Bucket& bucket, const GraphImage::Output& output, const ModelImage::Port& port) {
  Result result{bucket.bound->storage(output), output.view, output.view.is_dense()};
  const auto [least, most] = output.view.extent();
  const uint64_t size = size_of(port.dtype);
  if (least < 0 || static_cast<uint64_t>(most + 1) > result.storage->bytes() / size)
    throw IoError(fmt::format("[model_image] output {} lies outside of its storage", port.name));
  if (!result.dense) scratch_.resize(std::max<size_t>(scratch_.size(), static_cast<size_t>(most + 1) * size));
  bucket.results.push_back(std::move(result));
}

void LoadedModel::use(std::string_view bucket) {
  const auto found = std::find_if(buckets_.begin(), buckets_.end(), [&](const Bucket& b) { return b.name == bucket; });
  if (found == buckets_.end())
    throw ModelError(HEDDLE_BAD_ARGUMENT, fmt::format("the model has no bucket '{}'", bucket));
  current_ = static_cast<size_t>(found - buckets_.begin());
}

void LoadedModel::set_input(size_t index, const void* values, uint64_t bytes) {
  Bucket& bucket = current();
  check_index(index, bucket.inputs.size(), "input");
  check_bytes(bucket.inputs[index], values, bytes, "input");
  if (bucket.read[index].storage()) read_own(bucket, index);
  if (bucket.given[index]) device_->write(*bucket.given[index], 0, values, bytes);
  bucket.has_values[index] = true;
}

void LoadedModel::run() {
  Bucket& bucket = current();
  for (size_t i = 0; i < bucket.inputs.size(); ++i) {
    if (!bucket.has_values[i])
      throw ModelError(HEDDLE_BAD_ARGUMENT, fmt::format("input {} was not given", bucket.inputs[i].name));
  }
  for (Ticket behind; (behind = ahead()) != Ticket::none;) wait(behind);
  bucket.last = bucket.bound->submit();
  bucket.ran = true;
}

Ticket LoadedModel::ahead() const {
  const auto locked = device_->lock();
  return device_->too_far_ahead();
}

bool LoadedModel::done() const { return current().last == Ticket::none || device_->done(current().last); }

// Looks from time to time, as seldom as the wait is long: blocking in a driver would take memory for what blocks
// (Waiter), and waiting under the device's lock would keep other models from it.
void LoadedModel::wait(Ticket ticket) const {
  using Clock = std::chrono::steady_clock;
  if (ticket == Ticket::none) return;
  const Clock::time_point begin = Clock::now();
  while (!device_->done(ticket)) {
    const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
    if (waited < std::chrono::microseconds(50))
      std::this_thread::yield();
    else if (waited > std::chrono::seconds(1))
      return device_->wait(ticket);  // which also knows HEDDLE_TIMEOUT
    else
      std::this_thread::sleep_for(std::min(waited / 16, std::chrono::microseconds(500)));
  }
}

void LoadedModel::read_output(size_t index, void* values, uint64_t bytes) {
  const Bucket& bucket = current();
  check_index(index, bucket.outputs.size(), "output");
  const ModelImage::Port& port = bucket.outputs[index];
  check_bytes(port, values, bytes, "output");
  check_ran(bucket.ran);
  if (bytes == 0) return;
  wait(bucket.last);
  const Result& result = bucket.results[index];
  const Binding from = result.storage->binding();
  const uint64_t size = size_of(port.dtype);
  auto locked = device_->lock();
  locked.counters.bytes_read += bytes;
  if (result.dense) return locked.device.read(from.buffer, from.offset, values, bytes);
  const auto count = static_cast<uint64_t>(result.view.extent().second + 1) * size;
  locked.device.read(from.buffer, from.offset, scratch_.data(), count);
  gather(scratch_.data(), result.view, 0, size, static_cast<uint8_t*>(values));
}

void LoadedModel::compare_golden() {
  for (const PartEntry& entry : parts_.entries()) {
    if (entry.kind != PartKind::golden) continue;
    const Golden golden = golden_from_bytes(parts_.bytes(entry));
    for (size_t b = 0; b < buckets_.size(); ++b) {
      if (!same_ports(buckets_[b].inputs, golden.inputs)) continue;
      current_ = b;
      compare(golden);
      buckets_[b].has_values.assign(buckets_[b].inputs.size(), false);
      buckets_[b].ran = false;
      ++compared_;
    }
  }
  current_ = 0;
}

void LoadedModel::compare(const Golden& golden) {
  Bucket& bucket = current();
  for (size_t i = 0; i < golden.inputs.size(); ++i)
    set_input(i, golden.inputs[i].bytes.data(), golden.inputs[i].bytes.size());
  run();
  std::vector<uint8_t> values;
  for (const Golden::Value& wanted : golden.outputs) {
    const auto port = std::find_if(bucket.outputs.begin(), bucket.outputs.end(), [&](const ModelImage::Port& p) {
      return p.name == wanted.name && p.dtype == wanted.dtype && p.shape == wanted.shape;
    });
    if (port == bucket.outputs.end())
      throw ModelError(HEDDLE_BAD_FILE, fmt::format("[golden] the model has no output {} of that shape", wanted.name));
    values.resize(wanted.bytes.size());
    read_output(static_cast<size_t>(port - bucket.outputs.begin()), values.data(), values.size());
    if (const std::string difference = golden_difference(golden, wanted, values); !difference.empty())
      throw ModelError(HEDDLE_MISMATCH, fmt::format("[golden] {}: {}", device_->id(), difference));
  }
}

}  // namespace heddle
