#include "heddle/runtime/model_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "heddle/core/base/archive.h"
#include "heddle/core/base/error.h"
#include "heddle/core/contract/archive_kernel.h"
#include "heddle/core/run/image_bytes.h"
#include "heddle/runtime/golden.h"

namespace heddle {

template <>
inline constexpr int archived_values<Machine> = 3;

namespace {

constexpr uint64_t magic = 0x31474d494d444548;  // "HEDMIMG1": the version is its last character
constexpr size_t most_dimensions = 64;

template <class Archive>
void visit(Archive& a, ImageNeeds& n) {
  a(n.machine, n.subgroup_size, n.shared_bytes, n.group_lanes, n.bindings, n.alignment, n.loop_iterations);
  a(n.texel_loads, n.texel_images, n.storage8, n.storage16, n.i64_arithmetic, n.f16_arithmetic, n.f64, n.i64);
  a(n.architecture, n.matrix_units);
}

template <class Archive>
void visit(Archive& a, std::vector<ModelImage::Port>& ports) {
  a.list(ports, [&](ModelImage::Port& p) {
    a(p.name, p.dtype);
    a.numbers(p.shape);
    a(p.index);
  });
}

template <class Archive>
void visit(Archive& a, ModelImage& m) {
  a(m.device, m.driver);
  visit(a, m.needs);
  visit(a, m.inputs);
  visit(a, m.outputs);
  a.list(m.weights, [&](ModelImage::Weight& w) { a(w.slot, w.part, w.offset, w.bytes); });
  a.numbers(m.host_words);
  a(m.value_bytes);
  a.list(m.programs, [&](std::vector<uint8_t>& bytes) { a.numbers(bytes); });
}

// Looks at one; the first fault stays.
class Inspection {
 public:
  explicit Inspection(const ModelImage& model) : model_(model), image_(model.image) {}

  std::string run() {
    whole_run(image_);
    for (const GraphImage& once : image_.once) whole_run(once);
    if (fault_.empty()) kernels();
    if (fault_.empty()) storages();
    if (fault_.empty()) outputs();
    return fault_;
  }

 private:
  template <class... Args>
  void fault(fmt::format_string<Args...> format, Args&&... args) {
    if (fault_.empty()) fault_ = fmt::format(format, std::forward<Args>(args)...);
  }

  // A model gives the same for the same inputs, in one submission.
  void whole_run(const GraphImage& image) {
    if (!image.cuts.empty()) fault("it waits for others between its launches");
    if (!image.assigned.empty() || !image.copies.empty()) fault("it overwrites what it reads");
  }

  void kernels() {
    const size_t count = kernels_of(image_).size();
    if (!model_.programs.empty() && model_.programs.size() != count)
      fault("it has {} programs for {} kernels", model_.programs.size(), count);
    if (model_.host_words.size() != 4 * static_cast<size_t>(image_.host_values))
      fault("it reads {} host values and has {} words for them", image_.host_values, model_.host_words.size());
  }

  void storages() {
    size_t computed = 0;
    for (const GraphImage& once : image_.once) {
      computed += once.outputs.size();
      if (once.host_values != 0) fault("what it computes once reads values of the host");
      if (once.input_bytes.size() > image_.input_bytes.size()) fault("what it computes once reads more than it does");
    }
    if (computed > image_.input_bytes.size()) return fault("it computes more once than it reads");
    given_.assign(image_.input_bytes.size() - computed, false);
    for (const ModelImage::Port& port : model_.inputs) {
      if (!sizes(port)) return;
      if (port.index != -1) give(port.index, port.bytes(), port.name);
    }
    for (const ModelImage::Weight& weight : model_.weights) give(weight.slot, weight.bytes, weight.part);
    if (std::find(given_.begin(), given_.end(), false) != given_.end()) fault("it reads a storage that nothing fills");
    for (const GraphImage& once : image_.once) once_slots(once);
  }

  // Values of an input would be those of the first run.
  void once_slots(const GraphImage& once) {
    for (const int32_t slot : image_.once_slots) {
      for (const ModelImage::Port& port : model_.inputs) {
        if (port.index == slot) fault("it computes once what depends on input '{}'", port.name);
      }
    }
    for (size_t slot = 0; slot < once.input_bytes.size(); ++slot) {
      if (once.input_bytes[slot] > 0 && slot >= given_.size()) fault("what it computes once reads what it computes");
    }
  }

  bool sizes(const ModelImage::Port& port) {
    if (port.shape.size() > most_dimensions || !dense_bytes(port.dtype, port.shape))
      fault("'{}' has a shape that there is not", port.name);
    return fault_.empty();
  }

  void give(int32_t slot, uint64_t bytes, const std::string& name) {
    if (slot < 0 || static_cast<size_t>(slot) >= given_.size())
      return fault("'{}' fills a storage that is not there", name);
    const auto at = static_cast<size_t>(slot);
    if (given_[at]) return fault("storage {} is filled twice", slot);
    given_[at] = true;
    if (bytes < image_.input_bytes[at])
      fault("'{}' has {} bytes of the {} that are read", name, bytes, image_.input_bytes[at]);
  }

  void outputs() {
    for (const ModelImage::Port& port : model_.outputs) {
      if (!sizes(port)) return;
      if (port.index < 0 || static_cast<size_t>(port.index) >= image_.outputs.size())
        return fault("output '{}' is not there", port.name);
      const View& view = image_.outputs[static_cast<size_t>(port.index)].view;
      if (!std::equal(port.shape.begin(), port.shape.end(), view.shape.begin(), view.shape.end()))
        fault("output '{}' has another shape than what is computed", port.name);
    }
  }

  const ModelImage& model_;
  const GraphImage& image_;
  std::vector<bool> given_;  // by storage that is no value computed once
  std::string fault_;
};

}  // namespace

ImageNeeds needs_of(const Caps& caps) {
  ImageNeeds needs;
  needs.machine = caps.machine();
  needs.subgroup_size = caps.subgroup_size;
  needs.shared_bytes = caps.shared_bytes;
  needs.group_lanes = caps.max_group_lanes;
  needs.bindings = caps.max_bindings;
  needs.alignment = caps.buffer_alignment;
  needs.loop_iterations = caps.max_loop_iterations;
  needs.texel_loads = caps.texel_loads;
  needs.texel_images = caps.texel_images;
  needs.storage8 = caps.storage8;
  needs.storage16 = caps.storage16;
  needs.i64_arithmetic = caps.i64_arithmetic;
  needs.f16_arithmetic = caps.f16_arithmetic;
  needs.f64 = caps.f64;
  needs.i64 = caps.i64;
  needs.architecture = caps.architecture;
  needs.matrix_units = caps.matrix_units;
  return needs;
}

std::string needs_complaint(const ImageNeeds& needs, const Caps& caps) {
  const ImageNeeds here = needs_of(caps);
  const auto other = [](std::string_view what, const auto& wanted, const auto& found) {
    return fmt::format("it was planned for {} {}, the device has {}", what, wanted, found);
  };
  if (needs.machine != here.machine) return other("lanes as", name_of(needs.machine), name_of(here.machine));
  if (needs.subgroup_size != here.subgroup_size) return other("subgroups of", needs.subgroup_size, here.subgroup_size);
  if (needs.shared_bytes > here.shared_bytes) return other("shared bytes", needs.shared_bytes, here.shared_bytes);
  if (needs.group_lanes > here.group_lanes) return other("lanes a group", needs.group_lanes, here.group_lanes);
  if (needs.bindings > here.bindings) return other("buffers a kernel", needs.bindings, here.bindings);
  if (needs.alignment % here.alignment != 0) return other("an alignment of", needs.alignment, here.alignment);
  if (needs.loop_iterations > here.loop_iterations)
    return other("loop iterations", needs.loop_iterations, here.loop_iterations);
  if (needs.texel_loads != here.texel_loads || needs.texel_images != here.texel_images)
    return other("texel loads", needs.texel_loads, here.texel_loads);
  const std::pair<bool, std::string_view> lacking[] = {
      {needs.storage8 && !here.storage8, "8-bit storage"},
      {needs.storage16 && !here.storage16, "16-bit storage"},
      {needs.i64_arithmetic && !here.i64_arithmetic, "64-bit integers"},
      {needs.f16_arithmetic && !here.f16_arithmetic, "f16 arithmetic"},
      {needs.f64 && !here.f64, "f64"},
      {needs.i64 && !here.i64, "i64"}};
  for (const auto& [lacks, what] : lacking) {
    if (lacks) return fmt::format("it was planned for {}, which the device lacks", what);
  }
  if (needs.architecture > here.architecture || needs.architecture / 10 != here.architecture / 10)
    return other("compute capability", needs.architecture, here.architecture);
  // CPUs' units are needed only where kernels use them.
  const bool unused = needs.machine == Machine::cpu_loops && needs.matrix_units.empty();
  if (!unused && needs.matrix_units != here.matrix_units)
    return other("matrix units", needs.matrix_units, here.matrix_units);
  return "";
}

std::vector<const GraphImage::Kernel*> kernels_of(const GraphImage& image) {
  std::vector<const GraphImage::Kernel*> kernels;
  for (const GraphImage::Kernel& kernel : image.kernels) kernels.push_back(&kernel);
  for (const GraphImage& once : image.once) {
    for (const GraphImage::Kernel& kernel : once.kernels) kernels.push_back(&kernel);
  }
  return kernels;
}

uint64_t ModelImage::Port::bytes() const { return dense_bytes(dtype, shape).value_or(0); }

std::string model_image_fault(const ModelImage& image) { return Inspection(image).run(); }

std::vector<uint8_t> model_image_bytes(const ModelImage& image) {
  ArchiveWriter out;
  uint64_t head = magic;
  out(head);
  visit(out, const_cast<ModelImage&>(image));  // a writer changes nothing
  std::vector<uint8_t> plan = image_bytes(image.image);
  out.numbers(plan);
  return std::move(out.bytes);
}

ModelImage model_image_from_bytes(std::span<const uint8_t> bytes) {
  ArchiveReader in(bytes);
  uint64_t head = 0;
  in(head);
  if (head != magic)
    throw IoError("[model_image] this is no image of a model, or one of another version: run heddle compile again");
  ModelImage image;
  std::vector<uint8_t> plan;
  visit(in, image);
  in.numbers(plan);
  if (!in.whole()) throw IoError("[model_image] it is damaged: it ends too early or holds a number that is none");
  image.image = image_from_bytes(plan);
  if (const std::string fault = model_image_fault(image); !fault.empty())
    throw IoError("[model_image] it is damaged: " + fault);
  return image;
}

}  // namespace heddle
