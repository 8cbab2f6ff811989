// Tunables of the bodies of linear algebra (shaders/cholesky.hk, lu.hk, triangular.hk, blocks.hk, qr.hk, qr_apply.hk,
// jacobi.hk) by class of device, and how large their blocks may be.
//
// Purpose: one place for the defaults; tuned() has the last word. Iterations are those of the work item with the most,
// all loops together, as Caps::max_loop_iterations counts: decompositions choose their blocks by them. Invariants: what
// is returned passes the bodies' `require` rules; f64 takes schedules without shared arrays, which hold 32 bits. Thread
// safety: pure but for the tuning table.
#pragma once

#include "heddle/core/contract/device.h"
#include "heddle/core/dialect/kernel_file.h"

namespace heddle {

Bindings pick_cholesky(const Caps& caps, DType dtype, int64_t n);
int64_t cholesky_iterations(const Bindings& tunables, int64_t n);
Bindings pick_lu(const Caps& caps, DType dtype, int64_t m, int64_t n);
int64_t lu_iterations(const Bindings& tunables, int64_t m, int64_t n);
Bindings pick_triangular(const Caps& caps, DType dtype, int64_t n, int64_t k);
int64_t triangular_iterations(const Bindings& tunables, int64_t n, int64_t k);
Bindings pick_blocks(const Caps& caps, DType dtype, int64_t m, int64_t n);

Bindings pick_qr(const Caps& caps, DType dtype, int64_t m, int64_t n);
Bindings pick_qr_apply(const Caps& caps, DType dtype, int64_t m, int64_t columns);
Bindings pick_jacobi(const Caps& caps, DType dtype, int64_t n);
// Of a launch with that many reflections, or rotations.
int64_t qr_iterations(const Bindings& tunables, int64_t m, int64_t n, int64_t steps);
int64_t qr_apply_iterations(const Bindings& tunables, int64_t m, int64_t columns, int64_t steps);
int64_t jacobi_iterations(const Bindings& tunables, int64_t n, int64_t pairs);
// As many as one launch takes: what the driver's loops allow, on GPUs no more than a watchdog bears. Tuning keys
// "qr_steps" and "jacobi_pairs" may make it fewer.
int64_t qr_steps(const Caps& caps, DType dtype, int64_t m, int64_t n);
int64_t qr_apply_steps(const Caps& caps, DType dtype, int64_t m, int64_t columns);
int64_t jacobi_pairs(const Caps& caps, DType dtype, int64_t n);

// Columns of a block of an n x n matrix (for panels: of m rows) that one launch takes: at most 128, and no more than
// the driver's loops allow. The tuning key "linalg_block" may make it smaller.
int64_t cholesky_block(const Caps& caps, DType dtype, int64_t n);
int64_t lu_block(const Caps& caps, DType dtype, int64_t m, int64_t n);
int64_t triangular_block(const Caps& caps, DType dtype, int64_t n, int64_t k);

}  // namespace heddle
