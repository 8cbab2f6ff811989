#include "heddle/runtime/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/core/base/archive.h"
#include "heddle/core/base/error.h"
#include "heddle/core/contract/archive_kernel.h"

namespace heddle {
namespace {

constexpr uint64_t golden_magic = 0x31444c4f47444548;  // "HEDGOLD1": the version is its last character
constexpr size_t most_golden_dimensions = 64;

template <class Archive>
void visit(Archive& a, std::vector<Golden::Value>& values) {
  a.list(values, [&](Golden::Value& v) {
    a(v.name, v.dtype);
    a.numbers(v.shape);
    a.numbers(v.bytes);
  });
}

template <class Archive>
void visit(Archive& a, Golden& g) {
  a(g.device, g.seed);
  visit(a, g.inputs);
  visit(a, g.outputs);
}

bool fits(const Golden::Value& value) {
  return value.shape.size() <= most_golden_dimensions && dense_bytes(value.dtype, value.shape) == value.bytes.size();
}

bool is_exact(DType dtype) { return !is_float(dtype); }

// load_element() gives doubles, which do not tell large integers apart.
bool same_bits(const void* a, const void* b, DType dtype, size_t i) {
  const size_t size = size_of(dtype);
  const auto* left = static_cast<const uint8_t*>(a) + i * size;
  return std::equal(left, left + size, static_cast<const uint8_t*>(b) + i * size);
}

double largest_of(const Golden::Value& value, size_t count) {
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const double x = std::abs(load_element(value.bytes.data(), value.dtype, i));
    if (std::isfinite(x)) largest = std::max(largest, x);
  }
  return largest;
}

// Both may be NaN, or the same infinity.
bool agree(double wanted, double found, double allowed) {
  if (std::isnan(wanted) || std::isnan(found)) return std::isnan(wanted) && std::isnan(found);
  if (!std::isfinite(wanted) || !std::isfinite(found)) return wanted == found;
  return std::abs(wanted - found) <= allowed;
}

std::string position(const std::vector<int64_t>& shape, size_t flat) {
  std::string text;
  for (size_t d = shape.size(); d-- > 0;) {
    const auto size = static_cast<size_t>(shape[d]);
    text = fmt::format("{}{}{}", flat % size, text.empty() ? "" : ", ", text);
    flat /= size;
  }
  return text;
}

}  // namespace

std::optional<uint64_t> dense_bytes(DType dtype, std::span<const int64_t> shape) {
  uint64_t bytes = size_of(dtype);
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) bytes = 0;
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (bytes > 0 && static_cast<uint64_t>(size) > (uint64_t{1} << 62) / bytes) return std::nullopt;
    bytes *= static_cast<uint64_t>(size);
  }
  return bytes;
}

std::vector<uint8_t> golden_bytes(const Golden& golden) {
  ArchiveWriter out;
  uint64_t head = golden_magic;
  out(head);
  visit(out, const_cast<Golden&>(golden));  // a writer changes nothing
  return std::move(out.bytes);
}

Golden golden_from_bytes(std::span<const uint8_t> bytes) {
  ArchiveReader in(bytes);
  uint64_t head = 0;
  in(head);
  if (head != golden_magic) throw IoError("[golden] these are no golden vectors, or of another version");
  Golden golden;
  visit(in, golden);
  const bool whole = in.whole() && std::all_of(golden.inputs.begin(), golden.inputs.end(), fits) &&
                     std::all_of(golden.outputs.begin(), golden.outputs.end(), fits);
  if (!whole) throw IoError("[golden] they are damaged: sizes and values do not fit each other");
  return golden;
}

// A network of a hundred layers loses two to three digits of its type.
double golden_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::f64:  // computed in f32 where a device has nothing better
      return 1e-3;
    case DType::f16:
      return 2e-2;
    case DType::bf16:
      return 1e-1;
    default:
      return 0;
  }
}

std::string golden_difference(const Golden& golden, const Golden::Value& wanted, std::span<const uint8_t> values) {
  if (values.size() != wanted.bytes.size())
    return fmt::format("output {} has {} bytes, {} gave {}", wanted.name, values.size(), golden.device,
                       wanted.bytes.size());
  const size_t count = values.size() / size_of(wanted.dtype);
  const double tolerance = golden_tolerance(wanted.dtype), largest = largest_of(wanted, count);
  for (size_t i = 0; i < count; ++i) {
    if (same_bits(wanted.bytes.data(), values.data(), wanted.dtype, i)) continue;
    const double want = load_element(wanted.bytes.data(), wanted.dtype, i);
    const double found = load_element(values.data(), wanted.dtype, i);
    if (!is_exact(wanted.dtype) && agree(want, found, tolerance * std::max(std::abs(want), largest))) continue;
    return fmt::format("output {}[{}] is {}, {} gave {} (allowed: {} of {})", wanted.name, position(wanted.shape, i),
                       found, golden.device, want, tolerance, std::max(std::abs(want), largest));
  }
  return "";
}

}  // namespace heddle
