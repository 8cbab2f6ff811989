// Whether processes that follow each other count as one where sizes and kernels are concerned (`heddle run`).
//
// Purpose: a model that is run on a picture a process meets new sizes as a loop within one process would. While it is
// on, sets of sizes are kept in the user's cache folder (core/ir/dynamic_sizes.h), and so are marks of kernels that
// this machine has compiled: a kernel of a mark is found in the driver's or Heddle's cache, and counted as known. Sets
// of sizes are those of one subject: another model of the same structure, whose constants differ, is not another size.
// Off in the beginning: a process that means one size should not meet what others ran. Thread safety: any thread.
#pragma once

#include <cstdint>

namespace heddle::across_runs {

bool on();
// `subject`: what this process runs, as a hash.
void set(bool on, uint64_t subject = 0);
uint64_t subject();
// Of the kernels that this process compiled while it was on, those with a mark.
uint64_t known_kernels();
void count_known_kernel();

}  // namespace heddle::across_runs
