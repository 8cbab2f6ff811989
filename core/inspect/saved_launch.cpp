#include "heddle/core/inspect/saved_launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/base/system/files.h"
#include "heddle/core/contract/archive_kernel.h"

namespace heddle {
namespace {

DiskCache launches() { return DiskCache("launch", 0); }

// Everything of a launch, one member after the other, for writing and for reading.
template <class Archive>
void visit(Archive& a, SavedLaunch& s) {
  visit(a, s.source);
  for (uint32_t& count : s.groups) a(count);
  a.numbers(s.constants);
  a.numbers(s.blocks);
  a.list(s.bindings, [&](SavedLaunch::Range& r) { a(r.block, r.offset, r.size); });
  a.numbers(s.table);
  a(s.ops, s.bytes, s.flops);
}

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
  ArchiveWriter writer;
  visit(writer, saved);
  const std::string id = hex64(hash_bytes(writer.bytes.data(), writer.bytes.size()));
  const DiskCache cache = launches();
  const std::string path = cache.path(id);
  if (path.empty()) return "";
  if (!os::is_readable(path)) cache.store(id, writer.bytes.data(), writer.bytes.size(), source.name);
  return id;
}

std::optional<SavedLaunch> load_launch(const std::string& id) {
  const std::optional<std::vector<uint8_t>> bytes = launches().load(id);
  if (!bytes) return std::nullopt;
  SavedLaunch saved;
  ArchiveReader reader(*bytes);
  visit(reader, saved);
  if (!reader.whole() || !fits_together(saved)) return std::nullopt;
  return saved;
}

std::string repeat_command(const std::string& id, const std::string& device) {
  return id.empty() ? "(cannot be repeated: there is no disk cache, or it was loaded without its text)"
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
