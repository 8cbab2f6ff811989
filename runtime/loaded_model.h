// LoadedModel: a `.heddle` file on a device, ready to run: what stands behind the C interface (runtime/heddle.h).
//
// Purpose: finds the images for the device, lays the weights into memory once, binds every bucket, and compares golden
// vectors. Invariants: after the constructor nothing is allocated, on the device or the host; what a file says is
// checked before it is acted on. Errors: ModelError with the status of the C interface, and the typed errors of files
// and devices. Thread safety: one thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/view.h"
#include "heddle/core/device/context.h"
#include "heddle/io/model_parts.h"
#include "heddle/runtime/bound_image.h"
#include "heddle/runtime/golden.h"
#include "heddle/runtime/model_error.h"
#include "heddle/runtime/model_image.h"
#include "heddle/runtime/model_target.h"

namespace heddle {

struct LoadedModelOptions {
  std::string device;  // empty: the best that the file has images for
  bool trust = false;  // neither the weights' hashes nor golden vectors are checked
};

class LoadedModel {
 public:
  explicit LoadedModel(const std::string& path, const LoadedModelOptions& options = {});
  ~LoadedModel();
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const std::string& device_id() const { return device_->id(); }
  size_t bucket_count() const { return buckets_.size(); }
  const std::string& bucket_name(size_t b) const { return buckets_[b].name; }
  void use(std::string_view bucket);
  const std::vector<ModelImage::Port>& inputs() const { return current().inputs; }
  const std::vector<ModelImage::Port>& outputs() const { return current().outputs; }

  void set_input(size_t index, const void* values, uint64_t bytes);
  void run();
  bool done() const;
  void read_output(size_t index, void* values, uint64_t bytes);
  // Golden vectors that were compared.
  size_t compared() const { return compared_; }

 private:
  struct Result {
    StoragePtr storage;
    View view;
    bool dense = true;
  };
  struct Bucket {
    std::string name;
    std::vector<ModelImage::Port> inputs, outputs;
    std::vector<StoragePtr> given;  // by input; null: the image does not read it
    std::vector<bool> has_values;   // by input
    std::unique_ptr<BoundImage> bound;
    std::vector<Result> results;  // by output
    Ticket last = Ticket::none;
    bool ran = false;
  };

  Bucket& current() { return buckets_[current_]; }
  const Bucket& current() const { return buckets_[current_]; }
  void open(const LoadedModelOptions& options);
  StoragePtr weight(const ModelImage::Weight& weight);
  void bind(NamedImage& named);
  void compute_once(const GraphImage& once, std::span<const KernelId> kernels, std::vector<StoragePtr>& storages);
  void add_result(Bucket& bucket, const GraphImage::Output& output, const ModelImage::Port& port);
  void compare_golden();
  void compare(const Golden& golden);
  Ticket ahead() const;
  void wait(Ticket ticket) const;

  ModelParts parts_;  // weights may lie in it
  DeviceContext* device_ = nullptr;
  std::unique_ptr<ModelArena> arena_;
  std::map<std::pair<std::string, std::pair<uint64_t, uint64_t>>, StoragePtr> weights_;  // by part, offset and length
  std::vector<Bucket> buckets_;
  size_t current_ = 0, compared_ = 0;
  std::vector<uint8_t> scratch_;  // for outputs that are not dense
};

}  // namespace heddle
