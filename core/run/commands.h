// From an image to the commands of a recording: launches with their memory, over joined rows and iterations.
//
// Purpose: a launch of an image is one command, or a few over the joined rows of a table (core/run/joined_launch.h), or
// those of all iterations of a loop. Invariants: commands come in the order of the image; `launches` has one entry a
// command. Thread safety: a builder belongs to its thread, with the device locked.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/run/image.h"

namespace heddle {

// Memory that the places of an image lie in, by their index.
struct ImageMemory {
  std::vector<Binding> inputs, own, arena;
  Binding host;                          // host values
  BufferId host_block = BufferId::none;  // page-locked
  // Of a place outside of loops.
  Binding at(const GraphImage::Place& place) const;
};

// What a recording is made of: the table belongs to launches over many joined rows.
struct Bound {
  // Commands of one submission, and how many of them are kernels or transfers.
  struct Segment {
    size_t begin = 0, end = 0, launched = 0;
  };
  std::vector<Command> list;
  std::vector<Segment> segments;                    // one more than the image has cuts
  std::vector<const GraphImage::Launch*> launches;  // of each command; null: a copy
  std::vector<int32_t> rows;                        // of all tables
  StoragePtr table;
  // The rows that a joined launch reads, its last binding; none for others.
  std::span<const int32_t> table_of(size_t command) const;
};

// The commands of an image over that memory; `targets`: by input, where a copy at the end goes. `kernels`: by kernel of
// the image. Uploads the table. LimitError where a binding would be larger than the device's are.
Bound bind_image(DeviceContext& device, const GraphImage& image, std::span<const KernelId> kernels,
                 const ImageMemory& memory, std::span<const Binding> targets);

}  // namespace heddle
