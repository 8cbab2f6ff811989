#include "heddle/data/numpy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/shortened.h"
#include "heddle/core/device/context.h"
#include "heddle/io/atomic_file.h"
#include "heddle/io/read_file.h"
#include "heddle/io/safetensors.h"
#include "heddle/io/zip.h"

namespace heddle::data {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr std::string_view magic = "\x93NUMPY";

struct DTypeName {
  std::string_view name;  // without the byte order
  DType dtype;
};
constexpr std::array<DTypeName, 8> dtypes = {{{"f2", DType::f16},
                                              {"f4", DType::f32},
                                              {"f8", DType::f64},
                                              {"i1", DType::i8},
                                              {"u1", DType::u8},
                                              {"i4", DType::i32},
                                              {"i8", DType::i64},
                                              {"b1", DType::boolean}}};

struct Header {
  DType dtype = DType::f32;
  bool swapped = false;  // big-endian
  bool fortran = false;
  Shape shape;
};

// One .npy, in a file or an archive.
class NpyReader {
 public:
  NpyReader(Bytes file, std::string where) : file_(file), where_(std::move(where)) {}

  Array read() {
    const Header header = parse(text());
    uint64_t bytes = size_of(header.dtype);
    for (const int64_t d : header.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(d), &bytes)) fail("the shape overflows");
    }
    if (bytes != file_.size())
      fail(fmt::format("{} {} needs {} bytes, found {}", header.shape.str(), name_of(header.dtype), bytes,
                       file_.size()));
    Array array{header.dtype, header.shape, std::vector<std::byte>(bytes)};
    std::copy(file_.begin(), file_.end(), reinterpret_cast<uint8_t*>(array.bytes.data()));
    if (header.swapped) swap_bytes(array);
    if (header.dtype == DType::boolean) {
      for (std::byte& b : array.bytes) b = b == std::byte{0} ? b : std::byte{1};
    }
    return header.fortran ? row_major(array) : array;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw IoError(fmt::format("[numpy] {}: {}", where_, shortened(what, 500)));
  }

  Bytes take(size_t bytes) {
    if (bytes > file_.size()) fail("truncated header");
    const Bytes front = file_.first(bytes);
    file_ = file_.subspan(bytes);
    return front;
  }

  std::string text() {
    const Bytes start = take(magic.size() + 2);
    if (!std::equal(magic.begin(), magic.end(), start.begin(),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; }))
      fail("not a .npy file");
    const int version = start[magic.size()];
    if (version < 1 || version > 3) fail(fmt::format("format version {} is not 1, 2 or 3", version));
    size_t length = 0;
    const Bytes little_endian = take(version == 1 ? 2 : 4);
    for (size_t i = little_endian.size(); i-- > 0;) length = length << 8 | little_endian[i];
    const Bytes header = take(length);
    return {header.begin(), header.end()};
  }

  // {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
  Header parse(const std::string& text) const {
    if (text.size() > 4096) fail("the header is too long");
    Header header;
    const std::string_view descr = quoted(value_of(text, "descr"));
    if (descr.size() < 2 || std::string_view("<>|=").find(descr[0]) == std::string_view::npos)
      fail("the header has no plain dtype; structured arrays are not read");
    const auto row =
        std::find_if(dtypes.begin(), dtypes.end(), [&](const DTypeName& d) { return d.name == descr.substr(1); });
    if (row == dtypes.end())
      fail(fmt::format("the dtype '{}' is none of f2, f4, f8, i1, u1, i4, i8, b1; convert it with astype",
                       shortened(descr)));
    header.dtype = row->dtype;
    header.swapped = descr[0] == '>';
    const std::string_view order = value_of(text, "fortran_order");
    header.fortran = order.starts_with("True");
    if (!header.fortran && !order.starts_with("False")) fail("the header does not say fortran_order");
    const std::string_view dims = value_of(text, "shape");
    const size_t close = dims.find(')');
    if (!dims.starts_with('(') || close == std::string_view::npos) fail("the header has no shape");
    try {
      header.shape = shape_of(dims.substr(1, close - 1));
    } catch (const ShapeError&) {
      fail("the shape overflows");
    }
    return header;
  }

  // What stands behind 'key': in the header, blanks left out; empty: no such key.
  static std::string_view value_of(std::string_view text, std::string_view key) {
    const std::string mark = fmt::format("'{}':", key);
    const size_t at = text.find(mark);
    const size_t from = at == std::string_view::npos ? at : text.find_first_not_of(" \t\n", at + mark.size());
    return from == std::string_view::npos ? std::string_view() : text.substr(from);
  }

  // The text between the quotes that the value begins with; empty: it begins with none.
  static std::string_view quoted(std::string_view value) {
    const size_t close = value.find('\'', 1);
    return value.starts_with('\'') && close != std::string_view::npos ? value.substr(1, close - 1) : std::string_view();
  }

  // Numbers between commas and blanks; NumPy of Python 2 wrote an L behind each.
  Shape shape_of(std::string_view text) const {
    Shape shape;
    constexpr std::string_view between = "L, ";
    for (size_t at = text.find_first_not_of(between); at != std::string_view::npos;
         at = text.find_first_not_of(between, at)) {
      const size_t end = std::min(text.find_first_of(between, at), text.size());
      const std::optional<int64_t> size = parse_number<int64_t>(text.substr(at, end - at));
      if (!size || *size < 0 || *size >= 1'000'000'000'000'000'000) fail("impossible dimension");
      if (shape.rank() == Shape::max_rank) fail(fmt::format("more than {} dimensions", Shape::max_rank));
      shape.push_back(*size);
      at = end;
    }
    return shape;
  }

  static void swap_bytes(Array& array) {
    const auto width = static_cast<std::ptrdiff_t>(size_of(array.dtype));
    for (auto at = array.bytes.begin(); at != array.bytes.end(); at += width) std::reverse(at, at + width);
  }

  static Array row_major(const Array& from) {
    Array to = from;
    const size_t width = size_of(from.dtype);
    std::vector<int64_t> at(static_cast<size_t>(from.shape.rank()), 0);
    for (size_t out = 0; out < to.bytes.size(); out += width) {
      int64_t in = 0;  // first dimension fastest
      for (int d = from.shape.rank(); d-- > 0;) in = in * from.shape[d] + at[static_cast<size_t>(d)];
      std::copy_n(from.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(in) * width), width,
                  to.bytes.begin() + static_cast<std::ptrdiff_t>(out));
      for (int d = from.shape.rank(); d-- > 0;) {
        if (++at[static_cast<size_t>(d)] < from.shape[d]) break;
        at[static_cast<size_t>(d)] = 0;
      }
    }
    return to;
  }

  Bytes file_;
  std::string where_;
};

std::string without_ending(const std::string& name) {
  return name.size() > 4 && name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name;
}

}  // namespace

Array read_npy(const std::string& path) {
  const std::vector<uint8_t> file = read_file(path, "numpy");
  return NpyReader(file, path).read();
}

NamedArrays read_npz(const std::string& path) {
  NamedArrays arrays;
  for (const auto& [name, bytes] : read_zip(path, "numpy"))
    arrays.emplace(without_ending(name), NpyReader(bytes, fmt::format("{}: {}", path, shortened(name))).read());
  return arrays;
}

void write_npy(const std::string& path, const Array& array) {
  const auto row =
      std::find_if(dtypes.begin(), dtypes.end(), [&](const DTypeName& d) { return d.dtype == array.dtype; });
  if (row == dtypes.end())
    throw DTypeError(fmt::format("[numpy] {}: NumPy has no dtype {}", path, name_of(array.dtype)));
  array.require_whole("numpy");
  std::string dims;
  for (const int64_t d : array.shape) dims += fmt::format("{}, ", d);
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 size_of(array.dtype) == 1 ? '|' : '<', row->name, dims);
  constexpr size_t before = 10;                                              // magic, version, length
  text.resize((before + text.size() + 1 + 63) / 64 * 64 - before - 1, ' ');  // data begins at a multiple of 64
  text += '\n';
  const std::string start =
      std::string(magic) + '\x01' + '\0' + static_cast<char>(text.size() & 0xFF) + static_cast<char>(text.size() >> 8);
  const std::array<FilePart, 3> parts = {
      {{start.data(), start.size()}, {text.data(), text.size()}, {array.bytes.data(), array.bytes.size()}}};
  write_file_atomically(path, parts);
}

NamedArrays read_arrays(const std::string& path) {
  const std::string ending = fs::path(path).extension().string();
  if (ending == ".npy") return {{"data", read_npy(path)}};
  if (ending == ".npz") return read_npz(path);
  if (ending != ".safetensors")
    throw ValueError(fmt::format("[read_arrays] {}: expected a file that ends with .npy, .npz or .safetensors", path));
  NamedArrays arrays;
  for (const auto& [name, tensor] : load_safetensors(path, &device("reference:0")).tensors) {
    const std::vector<uint8_t> bytes = tensor.to_bytes();
    Array array{tensor.dtype(), tensor.shape(), std::vector<std::byte>(bytes.size())};
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<uint8_t*>(array.bytes.data()));
    arrays.emplace(name, std::move(array));
  }
  return arrays;
}

DatasetPtr arrays_dataset(const std::string& path, const std::vector<std::string>& names) {
  NamedArrays arrays = read_arrays(path);
  std::vector<std::string> known;
  for (const auto& item : arrays) known.push_back(item.first);
  Sample chosen;
  for (const std::string& name : names.empty() ? known : names) {
    const auto found = arrays.find(name);
    if (found == arrays.end())
      throw ValueError(
          fmt::format("[arrays_dataset] {} has no array '{}'; there are: {}", path, name, fmt::join(known, ", ")));
    chosen.push_back(found->second);
  }
  return from_arrays(std::move(chosen));
}

}  // namespace heddle::data
