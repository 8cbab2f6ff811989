#include "core/inspect/saved_launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/base/cache_dir.h"
#include "core/base/hash.h"

namespace heddle {
namespace {

DiskCache launches() { return DiskCache("launch", 0); }

// Everything of a launch, one member after the other, for writing and for reading.
template <class Archive>
void visit(Archive& a, SavedLaunch& s) {
  a(s.source.name);
  a.list(s.source.buffers, [&](BufferParam& b) { a(b.name), a(b.dtype), a(b.access), a(b.may_alias), a(b.scattered); });
  a.list(s.source.constants, [&](ConstParam& c) { a(c.name), a(c.type); });
  a.list(s.source.shared, [&](SharedParam& p) { a(p.name), a(p.type), a(p.count); });
  for (uint32_t& lanes : s.source.group) a(lanes);
  a.list(s.source.defines, [&](std::pair<std::string, std::string>& d) { a(d.first), a(d.second); });
  a(s.source.body), a(s.source.helpers), a(s.source.origin), a(s.source.first_line);
  for (uint32_t& count : s.groups) a(count);
  a.list(s.constants, [&](uint32_t& c) { a(c); });
  a.list(s.blocks, [&](uint64_t& b) { a(b); });
  a.list(s.bindings, [&](SavedLaunch::Range& r) { a(r.block), a(r.offset), a(r.size); });
  a.list(s.table, [&](int32_t& t) { a(t); });
  a(s.ops), a(s.bytes), a(s.flops);
}

class Writer {
 public:
  template <class T>
  void operator()(T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    out.insert(out.end(), bytes, bytes + sizeof(value));
  }
  void operator()(std::string& text) {
    size(text.size());
    out.insert(out.end(), text.begin(), text.end());
  }
  template <class T, class F>
  void list(std::vector<T>& values, const F& each) {
    size(values.size());
    for (T& value : values) each(value);
  }
  std::vector<uint8_t> out;

 private:
  void size(size_t n) {
    auto count = static_cast<uint64_t>(n);
    (*this)(count);
  }
};

// The cache gives whole files or none, but a file may come from a pack: nothing in it is believed.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> in) : in_(in) {}
  template <class T>
  void operator()(T& value) {
    if (in_.size() < sizeof(value)) return fail();
    std::memcpy(&value, in_.data(), sizeof(value));
    in_ = in_.subspan(sizeof(value));
  }
  // A bool or an enum that holds another number than its own is undefined behaviour.
  void operator()(bool& value) { value = choice(2) != 0; }
  void operator()(DType& value) { value = static_cast<DType>(choice(dtype_count)); }
  void operator()(Access& value) { value = static_cast<Access>(choice(3)); }
  void operator()(ConstParam::Type& value) { value = static_cast<ConstParam::Type>(choice(3)); }
  void operator()(std::string& text) {
    const size_t n = size();
    text.assign(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(n));
    in_ = in_.subspan(n);
  }
  template <class T, class F>
  void list(std::vector<T>& values, const F& each) {
    values.resize(size());
    for (T& value : values) each(value);
  }
  bool whole() const { return !failed_ && in_.empty(); }

 private:
  void fail() {
    failed_ = true;
    in_ = {};
  }
  // One byte below `count`.
  uint8_t choice(int count) {
    uint8_t value = 0;
    (*this)(value);
    if (value >= count) fail();
    return failed_ ? 0 : value;
  }
  size_t size() {
    uint64_t count = 0;
    (*this)(count);
    if (count > in_.size()) fail();  // every element takes a byte or more
    return failed_ ? 0 : static_cast<size_t>(count);
  }
  std::span<const uint8_t> in_;
  bool failed_ = false;
};

// Ranges of one buffer that touch become one block.
void place(const Dispatch& dispatch, SavedLaunch& saved) {
  std::vector<size_t> order(dispatch.bindings.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](size_t i) { return std::pair(dispatch.bindings[i].buffer, dispatch.bindings[i].offset); };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  saved.bindings.resize(order.size());
  uint64_t start = 0, end = 0;
  BufferId buffer = BufferId::none;
  for (const size_t i : order) {
    const Binding& b = dispatch.bindings[i];
    if (b.buffer != buffer || b.offset >= end) {
      buffer = b.buffer;
      start = end = b.offset;
      saved.blocks.push_back(0);
    }
    end = std::max(end, b.offset + b.size);
    saved.blocks.back() = end - start;
    saved.bindings[i] = {saved.blocks.size() - 1, b.offset - start, b.size};
  }
}

// Bindings lie inside their blocks, one for each buffer.
bool fits_together(const SavedLaunch& saved) {
  const auto inside = [&](const SavedLaunch::Range& r) {
    return r.block < saved.blocks.size() && r.offset <= saved.blocks[r.block] &&
           r.size <= saved.blocks[r.block] - r.offset;
  };
  const bool numbers = saved.constants.size() <= KernelSource::max_constants &&
                       saved.source.constants.size() <= KernelSource::max_constants;
  const bool table = saved.table.empty() || !saved.bindings.empty();
  return numbers && table && saved.bindings.size() == saved.source.buffers.size() &&
         std::all_of(saved.bindings.begin(), saved.bindings.end(), inside);
}

uint32_t next_random(uint32_t& state) { return state = state * 1664525u + 1013904223u; }

// Numbers of +-[0.25, 1), or zeros for what may be an index.
std::vector<uint8_t> contents(DType dtype, uint64_t bytes) {
  std::vector<uint8_t> data((bytes + 7) / 8 * 8);
  uint32_t state = 1;
  const auto fill = [&]<class Word>(Word base, Word bits) {
    for (size_t at = 0; at + sizeof(Word) <= data.size(); at += sizeof(Word)) {
      const auto random = static_cast<Word>(next_random(state) >> 7);
      const Word sign = static_cast<Word>(random & 1) << (8 * sizeof(Word) - 1);
      const auto word = static_cast<Word>(base | sign | (random & bits));
      std::memcpy(data.data() + at, &word, sizeof(word));
    }
  };
  if (dtype == DType::f32) fill(uint32_t{0x3e800000}, uint32_t{0x00ffffff});
  if (dtype == DType::f16) fill(uint16_t{0x3400}, uint16_t{0x07ff});
  if (dtype == DType::bf16) fill(uint16_t{0x3e80}, uint16_t{0x00ff});
  if (dtype == DType::f64) fill(uint64_t{0x3fd0000000000000}, uint64_t{0x000fffff00000000});
  return data;
}

}  // namespace

std::string save_launch(const KernelSource& source, const Dispatch& dispatch, std::span<const int32_t> table,
                        const KernelFacts& facts) {
  SavedLaunch saved;
  saved.source = source;
  std::copy(std::begin(dispatch.groups), std::end(dispatch.groups), saved.groups);
  saved.constants = dispatch.constants;
  saved.table.assign(table.begin(), table.end());
  saved.ops = facts.ops;
  saved.bytes = facts.bytes();
  saved.flops = facts.flops;
  place(dispatch, saved);
  Writer writer;
  visit(writer, saved);
  const std::string id = hex64(hash_bytes(writer.out.data(), writer.out.size()));
  const DiskCache cache = launches();
  const std::string path = cache.path(id);
  if (path.empty()) return "";
  if (::access(path.c_str(), R_OK) != 0) cache.store(id, writer.out.data(), writer.out.size(), source.name);
  return id;
}

std::optional<SavedLaunch> load_launch(const std::string& id) {
  const std::optional<std::vector<uint8_t>> bytes = launches().load(id);
  if (!bytes) return std::nullopt;
  SavedLaunch saved;
  Reader reader(*bytes);
  visit(reader, saved);
  if (!reader.whole() || !fits_together(saved)) return std::nullopt;
  return saved;
}

std::string repeat_command(const std::string& id, const std::string& device) {
  return id.empty() ? "(cannot be repeated: there is no disk cache)"
                    : fmt::format("heddle bench kernel --cases {} --device {}", id, device);
}

RestoredLaunch restore_launch(const SavedLaunch& saved, DeviceContext& device) {
  RestoredLaunch restored;
  for (const uint64_t bytes : saved.blocks) restored.memory.push_back(device.allocate(bytes));
  std::vector<bool> filled(saved.blocks.size());
  for (size_t i = 0; i < saved.bindings.size(); ++i) {
    const SavedLaunch::Range& range = saved.bindings[i];
    const Binding block = restored.memory.at(range.block)->binding();
    restored.dispatch.bindings.push_back({block.buffer, block.offset + range.offset, range.size});
    if (filled[range.block]) continue;
    filled[range.block] = true;
    const std::vector<uint8_t> data = contents(saved.source.buffers.at(i).dtype, block.size);
    device.write(*restored.memory[range.block], 0, data.data(), block.size);
  }
  if (!saved.table.empty()) {
    const SavedLaunch::Range& range = saved.bindings.back();
    device.write(*restored.memory[range.block], range.offset, saved.table.data(),
                 std::min<uint64_t>(range.size, saved.table.size() * sizeof(int32_t)));
  }
  restored.dispatch.kernel = device.kernel(saved.source);
  std::copy(std::begin(saved.groups), std::end(saved.groups), restored.dispatch.groups);
  restored.dispatch.constants = saved.constants;
  return restored;
}

}  // namespace heddle
