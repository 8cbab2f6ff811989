#include "heddle/core/dialect/harness.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"

namespace heddle {
namespace {

constexpr uint64_t guard_bytes = 256;
constexpr uint8_t guard_value = 0xA5;

// One buffer of the kernel on the device: guard, data, guard. Freed with its owner.
class GuardedBuffer {
 public:
  enum class Guards : uint8_t { none, behind, around };
  GuardedBuffer(Device& device, const BufferParam& param, const KernelArray& array, Guards guards)
      : device_(device), param_(param), array_(array) {
    const uint64_t alignment = std::max<uint64_t>(device.caps().buffer_alignment, 1);
    if (guards == Guards::around) front_ = round_up(guard_bytes, alignment);
    bound_ = std::max<uint64_t>((array.bytes.size() + 3) / 4 * 4, 4);
    if (guards != Guards::none) bound_ += guard_bytes;
    buffer_ = device.alloc(front_ + bound_);
    restore();
  }
  ~GuardedBuffer() { device_.free(buffer_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  // The guard behind belongs to the binding: drivers that drop accesses outside of it would hide the fault.
  Binding binding() const { return {buffer_, front_, bound_}; }

  void restore() {
    std::vector<uint8_t> image(front_ + bound_, guard_value);
    std::copy(array_.bytes.begin(), array_.bytes.end(), image.begin() + static_cast<std::ptrdiff_t>(front_));
    device_.write(buffer_, 0, image.data(), image.size());
  }

  KernelArray read(const std::string& kernel) const {
    std::vector<uint8_t> image(front_ + bound_);
    device_.read(buffer_, 0, image.data(), image.size());
    const size_t end = front_ + array_.bytes.size();
    for (size_t i = front_; i-- > 0;) {
      if (image[i] != guard_value)
        fault(kernel, fmt::format("wrote {} bytes before the start of '{}'", front_ - i, param_.name));
    }
    for (size_t i = end; i < image.size(); ++i) {
      if (image[i] != guard_value)
        fault(kernel, fmt::format("wrote {} bytes behind the end of '{}'", i - end + 1, param_.name));
    }
    KernelArray result{
        array_.dtype,
        {image.begin() + static_cast<std::ptrdiff_t>(front_), image.begin() + static_cast<std::ptrdiff_t>(end)}};
    if (param_.access == Access::read && result.bytes != array_.bytes)
      fault(kernel, fmt::format("wrote to its input '{}'", param_.name));
    return result;
  }

 private:
  [[noreturn]] static void fault(const std::string& kernel, const std::string& what) {
    throw DeviceError(fmt::format("[kernel {}] {}", kernel, what));
  }

  Device& device_;
  const BufferParam& param_;
  const KernelArray& array_;
  BufferId buffer_ = BufferId::none;
  uint64_t front_ = 0;
  uint64_t bound_ = 0;
};

// For expressions; what is no number of 53 bits is refused with the constants (constant_bits()).
int64_t whole_number(double value) { return std::abs(value) < 0x1p53 ? static_cast<int64_t>(value) : 0; }

uint32_t constant_bits(const std::string& kernel, const ConstParam& c, double value) {
  if (c.type == ConstParam::Type::f32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  const bool is_signed = c.type == ConstParam::Type::i32;
  const double low = is_signed ? -2147483648.0 : 0.0;
  const double high = is_signed ? 2147483647.0 : 4294967295.0;
  if (!(value >= low && value <= high) || value != std::floor(value)) {
    throw ValueError(
        fmt::format("[kernel {}] constant {} = {} is no {}", kernel, c.name, value, is_signed ? "int" : "uint"));
  }
  return is_signed ? static_cast<uint32_t>(static_cast<int32_t>(value)) : static_cast<uint32_t>(value);
}

std::vector<uint32_t> constant_words(const KernelSource& source, const KernelConstants& values) {
  for (const auto& [key, value] : values) {
    const std::string& name = key;  // Clang 14 captures no structured binding
    if (std::none_of(source.constants.begin(), source.constants.end(), [&](const auto& c) { return c.name == name; })) {
      throw ValueError(fmt::format("[kernel {}] no constant '{}'", source.name, name));
    }
  }
  std::vector<uint32_t> words;
  for (const auto& c : source.constants) {
    const auto found = values.find(c.name);
    if (found == values.end())
      throw ValueError(fmt::format("[kernel {}] constant '{}' has no value", source.name, c.name));
    words.push_back(constant_bits(source.name, c, found->second));
  }
  return words;
}

void check_arrays(const KernelSource& source, const KernelArrays& arrays) {
  for (const auto& [key, array] : arrays) {
    const std::string& name = key;
    if (std::none_of(source.buffers.begin(), source.buffers.end(), [&](const auto& b) { return b.name == name; })) {
      throw ValueError(fmt::format("[kernel {}] no buffer '{}'", source.name, name));
    }
  }
  for (const auto& b : source.buffers) {
    const auto found = arrays.find(b.name);
    if (found == arrays.end())
      throw ValueError(fmt::format("[kernel {}] buffer '{}' has no array", source.name, b.name));
    if (found->second.dtype != b.dtype) {
      throw DTypeError(fmt::format("[kernel {}] buffer '{}' is {}, its array {}", source.name, b.name, name_of(b.dtype),
                                   name_of(found->second.dtype)));
    }
  }
}

// A kernel, which it takes over, and its recording, released with their owner.
class Prepared {
 public:
  Prepared(Device& device, KernelId kernel, const Dispatch& dispatch) : device_(device), kernel_(kernel) {
    try {
      Dispatch d = dispatch;
      d.kernel = kernel_;
      const Command command = d;
      recording_ = device_.record({&command, 1}, true);
    } catch (...) {
      device_.release(kernel_);
      throw;
    }
  }
  ~Prepared() {
    device_.release(recording_);
    device_.release(kernel_);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  double run() {
    std::vector<double> seconds;
    device_.wait(device_.submit(recording_), &seconds);
    return seconds.empty() ? 0.0 : seconds.front();
  }

 private:
  Device& device_;
  KernelId kernel_;
  RecordingId recording_ = RecordingId::none;
};

using Guards = GuardedBuffer::Guards;

// `declared`: name, buffers and constants; `compile` gives the kernel, and is called when the arguments fit.
template <class Compile>
KernelOutcome run_compiled(Device& device, const KernelSource& declared, const KernelRun& run, Guards guards,
                           Compile compile) {
  check_arrays(declared, run.arrays);
  if (!run.groups)
    throw ValueError(fmt::format("[kernel {}] a kernel without a file needs its number of groups", declared.name));
  KernelOutcome outcome;
  outcome.groups = *run.groups;
  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
  Dispatch dispatch;
  dispatch.constants = constant_words(declared, run.constants);
  for (const auto& b : declared.buffers) {
    buffers.push_back(std::make_unique<GuardedBuffer>(device, b, run.arrays.find(b.name)->second, guards));
    dispatch.bindings.push_back(buffers.back()->binding());
  }
  std::copy(outcome.groups.begin(), outcome.groups.end(), dispatch.groups);
  if (outcome.groups[0] > 0 && outcome.groups[1] > 0 && outcome.groups[2] > 0) {
    Prepared prepared(device, compile(), dispatch);
    for (int i = 0; i < run.timed; ++i) {
      const double seconds = prepared.run();
      outcome.seconds = i == 0 ? seconds : std::min(outcome.seconds, seconds);
    }
    if (run.timed > 0) {
      for (const auto& b : buffers) b->restore();
    }
    const double seconds = prepared.run();
    if (run.timed == 0) outcome.seconds = seconds;
  }
  for (size_t i = 0; i < buffers.size(); ++i)
    outcome.arrays[declared.buffers[i].name] = buffers[i]->read(declared.name);
  return outcome;
}

}  // namespace

KernelArray KernelArray::zeros(DType dtype, size_t count) {
  return {dtype, std::vector<uint8_t>(count * size_of(dtype))};
}

KernelArray KernelArray::of(DType dtype, const std::vector<double>& values) {
  KernelArray array = zeros(dtype, values.size());
  for (size_t i = 0; i < values.size(); ++i) store_element(array.bytes.data(), dtype, i, values[i]);
  return array;
}

std::vector<double> KernelArray::values() const {
  std::vector<double> result(size());
  for (size_t i = 0; i < result.size(); ++i) result[i] = (*this)[i];
  return result;
}

KernelOutcome run_kernel(Device& device, const KernelSource& source, const KernelRun& run) {
  return run_compiled(device, source, run, run.guards ? Guards::around : Guards::none,
                      [&] { return device.compile(source); });
}

KernelOutcome run_kernel(Device& device, const KernelText& text, const KernelRun& run) {
  KernelSource declared;
  declared.name = text.name;
  declared.buffers = text.buffers;
  declared.constants = text.constants;
  // OpenCL's parameters are whole buffers (core/dialect/kernel_text.h).
  const Guards guards = text.target() == Target::opencl ? Guards::behind : Guards::around;
  return run_compiled(device, declared, run, run.guards ? guards : Guards::none, [&] {
    const KernelBinary binary = compile_text(text, device.caps());
    const KernelBinary* const binaries[] = {&binary};
    return device.load_all(binaries).front();
  });
}

void check_bounds(const KernelFile& file, const Bindings& tunables, const Bindings& constants,
                  const KernelArrays& arrays) {
  for (const KernelBuffer& buffer : file.buffers) {
    const auto array = arrays.find(buffer.name);
    if (array == arrays.end()) continue;
    const auto [first, end] = file.bounds(buffer.name, tunables, constants);
    if (first >= 0 && end <= static_cast<int64_t>(array->second.size())) continue;
    throw ValueError(
        fmt::format("[kernel {}] these constants reach elements {} to {} of {}, which has {}; give it more elements, "
                    "or check sizes, offset and strides",
                    file.name, first, end > 0 ? end - 1 : end, buffer.name, array->second.size()));
  }
}

KernelOutcome run_kernel(Device& device, const KernelFile& file, const KernelFile::Options& options,
                         const KernelRun& run) {
  KernelRun complete = run;
  Bindings values;
  for (const auto& [name, value] : run.constants) values[name] = whole_number(value);
  if (!complete.groups) complete.groups = file.groups(options.tunables, values);
  check_bounds(file, options.tunables, values, run.arrays);
  return run_kernel(device, file.instantiate(options), complete);
}

}  // namespace heddle
