// LoadedModel: a `.heddle` file on a device, ready to run: what stands behind the C interface (runtime/heddle.h).
//
// Purpose: finds the images for the device, lays the weights into memory once, binds every bucket, and compares golden
// vectors. Invariants: after the constructor nothing is allocated, on the device or the host, but for arrays of others
// (take_input(), take_output(), hand_output()); what a file says is checked before it is acted on. Errors: ModelError
// with the status of the C interface, and the typed errors of files and devices. Thread safety: one thread at a time.
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
#include "heddle/runtime/shared_arrays.h"

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
  // Later runs read an input from, or write an output to, that array. The array is taken: given back by the model, or
  // before the call returns where its values are copied; not after an exception. The reason for a copy; null: none.
  const char* take_input(size_t index, const OfferedArray& offer, DlCopy copy);
  void take_output(size_t index, const OfferedArray& offer);
  // To the model's own memory, as at first.
  void take_output_back(size_t index);
  // The output of the latest run; waits for it. `copied`: as above.
  HandedArray hand_output(size_t index, DlCopy copy, const char*& copied);
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
    std::vector<StoragePtr> given;           // by input; null: the image does not read it
    std::vector<bool> has_values;            // by input
    std::vector<SharedArray> read, written;  // arrays of others, by input and by output; without a storage: none
    std::unique_ptr<GraphImage> image;       // without code
    std::unique_ptr<BoundImage> bound;
    std::vector<Result> results;  // by output
    Ticket last = Ticket::none;
    bool ran = false;
    // Where the outputs lie, by what is bound.
    void find_results();
  };

  Bucket& current() { return buckets_[current_]; }
  const Bucket& current() const { return buckets_[current_]; }
  void open(const LoadedModelOptions& options);
  StoragePtr weight(const ModelImage::Weight& weight);
  void bind(NamedImage& named);
  void compute_once(const GraphImage& once, std::span<const KernelId> kernels, std::vector<StoragePtr>& storages);
  void read_own(Bucket& bucket, size_t index);
  void write_to(Bucket& bucket, size_t index, const StoragePtr& storage);
  // ValueError where the array shares memory with what a run uses otherwise; `output`: its own number, or none.
  static void check_apart(const Bucket& bucket, const DlArray& array, size_t output, const char* place);
  static bool shares_result(const Bucket& bucket, size_t index);
  static void check_index(size_t index, size_t count, const char* what);
  static void check_ran(bool ran);
  static const GraphImage::Output& output_of(const Bucket& bucket, const ModelImage::Port& port);
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
