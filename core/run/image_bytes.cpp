#include "heddle/core/run/image_bytes.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/contract/archive_binary.h"
#include "heddle/core/contract/archive_kernel.h"

namespace heddle {

template <>
inline constexpr int archived_values<GraphImage::Place::Kind> = 4;
template <>
inline constexpr int archived_values<GraphImage::Launch::Kind> = 5;
template <>
inline constexpr int archived_values<GraphImage::Output::Kind> = 2;
template <>
inline constexpr int archived_values<LoopPlaces::Slot::Kind> = 5;

namespace {

constexpr uint64_t magic = 0x34474d494c444548;  // "HEDLIMG4"

// ---- members of each type, for writing and for reading

template <class Archive>
void visit(Archive& a, GraphImage::Place& p) {
  a(p.kind, p.index, p.offset, p.bytes);
}

template <class Archive>
void visit(Archive& a, std::vector<GraphImage::Place>& places) {
  a.list(places, [&](GraphImage::Place& p) { visit(a, p); });
}

template <class Archive>
void visit(Archive& a, std::vector<std::string>& texts) {
  a.list(texts, [&](std::string& text) { a(text); });
}

template <class Archive>
void visit(Archive& a, KernelFacts& f) {
  a(f.name, f.ops, f.source, f.read_bytes, f.written_bytes, f.flops);
  visit(a, f.lines);
}

template <class Archive>
void visit(Archive& a, GraphImage::Launch& l) {
  a(l.kind, l.index);
  for (uint32_t& count : l.groups) a(count);
  visit(a, l.places);
  a.numbers(l.constants);
  a.list(l.joined, [&](GraphImage::JoinedRow& r) {
    visit(a, r.places);
    a.numbers(r.constants);
    a(r.groups);
  });
  a(l.workers, l.host_offset, l.loop_iterations);
  visit(a, l.facts);
}

template <class Archive>
void visit(Archive& a, std::vector<GraphImage::Launch>& launches) {
  a.list(launches, [&](GraphImage::Launch& l) { visit(a, l); });
}

template <class Archive>
void visit(Archive& a, LoopPlaces& l) {
  a(l.length, l.reverse, l.workspace);
  a.list(l.slots, [&](LoopPlaces::Slot& s) { a(s.kind, s.binding, s.source, s.row_shift, s.bytes, s.place); });
  a.list(l.fills, [&](LoopPlaces::Fill& f) { a(f.from, f.to, f.offset, f.bytes); });
}

template <class Archive>
void visit(Archive& a, View& view) {
  std::vector<int64_t> dims(view.shape.begin(), view.shape.end());
  a.numbers(dims);
  a(view.offset);
  if constexpr (Archive::reading) {
    try {
      view.shape = Shape(dims);
    } catch (const ShapeError&) {  // too many, negative, or too large together
      return a.fail();
    }
  }
  for (int d = 0; d < view.shape.rank(); ++d) a(view.strides[static_cast<size_t>(d)]);
}

// The signature stands in the source where there is one.
template <class Archive>
void visit(Archive& a, GraphImage::Kernel& k) {
  bool has_source = k.source.has_value();
  a(has_source);
  if (has_source) {
    if constexpr (Archive::reading) k.source.emplace();
    visit(a, *k.source);
    if constexpr (Archive::reading) k.binary.signature = signature_of(*k.source);
  } else {
    visit(a, k.binary.signature);
  }
  visit(a, k.binary);
}

// `depth`: of parts that are computed once; there is one level.
template <class Archive>
void visit(Archive& a, GraphImage& image, int depth = 0) {
  a(image.target, image.driver_hash, image.host_values, image.host_bytes);
  a.numbers(image.input_bytes);
  a.list(image.kernels, [&](GraphImage::Kernel& k) { visit(a, k); });
  a.list(image.loops, [&](GraphImage::Loop& l) {
    visit(a, l.places);
    visit(a, l.body);
  });
  visit(a, image.launches);
  a.numbers(image.cuts);
  a.list(image.copies, [&](GraphImage::CopyBack& c) {
    visit(a, c.from);
    a(c.slot);
  });
  a.list(image.outputs, [&](GraphImage::Output& o) {
    a(o.kind, o.index, o.element);
    visit(a, o.view);
  });
  a.numbers(image.assigned);
  a.numbers(image.own_bytes);
  a.numbers(image.arena_bytes);
  a.list(image.once, [&](GraphImage& once) {
    if (depth > 0) return a.fail();
    visit(a, once, depth + 1);
  });
  a.numbers(image.once_slots);
}

}  // namespace

std::vector<uint8_t> image_bytes(const GraphImage& image) {
  ArchiveWriter out;
  uint64_t head[] = {magic, 0};
  out(head[0], head[1]);
  visit(out, const_cast<GraphImage&>(image));  // a writer changes nothing
  head[1] = hash_bytes(out.bytes.data() + sizeof(head), out.bytes.size() - sizeof(head));
  std::memcpy(out.bytes.data(), head, sizeof(head));
  return std::move(out.bytes);
}

GraphImage image_from_bytes(std::span<const uint8_t> bytes) {
  uint64_t head[2];
  if (bytes.size() < sizeof(head)) throw IoError(fmt::format("[image] {} bytes are no image", bytes.size()));
  std::memcpy(head, bytes.data(), sizeof(head));
  if (head[0] != magic)
    throw IoError("[image] this is no image, or one of another version of Heddle: it does not begin with HEDLIMG4");
  const std::span<const uint8_t> body = bytes.subspan(sizeof(head));
  if (hash_bytes(body.data(), body.size()) != head[1])
    throw IoError("[image] the image is damaged: its checksum is another; make it again");
  GraphImage image;
  ArchiveReader in(body);
  visit(in, image);
  if (!in.whole()) throw IoError("[image] the image is damaged: it ends too early or holds a number that is none");
  if (const std::string fault = image_fault(image); !fault.empty())
    throw IoError("[image] the image is damaged: " + fault);
  return image;
}

}  // namespace heddle
