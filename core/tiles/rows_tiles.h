// Tunables of the sort, scan and segment bodies (shaders/sort_blocks.hk, sort_merge.hk, scan.hk, segment_add.hk) by
// class of device and shape.
//
// Purpose: one place for the defaults; tuned() has the last word. Invariants: what is returned passes the bodies'
// `require` rules, and chunk and block sizes do not depend on tuning: the graph of a long sort or scan is built on
// them. Thread safety: pure but for the tuning table.
#pragma once

#include "heddle/core/contract/device.h"
#include "heddle/core/dialect/kernel_file.h"

namespace heddle {

// Elements that one group or lane orders by itself.
int64_t sort_block(const Caps& caps);
Bindings pick_sort_blocks(const Caps& caps, DType dtype, int64_t rows, int64_t length, int64_t block);
Bindings pick_sort_merge(const Caps& caps, DType dtype, int64_t rows, int64_t kept);

// Elements of a row that one work item or group goes through; `length` when the row is not cut.
int64_t scan_chunk(const Caps& caps, int64_t outer, int64_t length, int64_t inner);
Bindings pick_scan(const Caps& caps, DType dtype, int64_t outer, int64_t chunks, int64_t inner);

// Of the work item with the most, all loops together: `count` picks of one row.
int64_t segment_iterations(const Bindings& tunables, int64_t columns, int64_t count);
// A tuned schedule whose lanes would loop more than the driver allows gives way to one lane an element.
Bindings pick_segment_add(const Caps& caps, DType dtype, int64_t rows, int64_t columns, int64_t count);

}  // namespace heddle
