// Tunables of the bodies of linear algebra (shaders/cholesky.hk, lu.hk, triangular.hk, blocks.hk, qr.hk,
// tridiagonal.hk, bidiagonal.hk, their sweeps, rotate_rows.hk, jacobi.hk) by class of device, and how large their
// blocks may be.
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

// A panel of n columns and m rows, and the columns that its kernel has for them.
Bindings pick_qr(const Caps& caps, DType dtype, int64_t m, int64_t n);
int64_t qr_width(int64_t n);
int64_t qr_iterations(const Bindings& tunables, int64_t m, int64_t n);

// To tridiagonal, or with `both` sides to bidiagonal form; of a launch with that many columns, and as many as one
// takes: what the driver's loops allow (the tuning key "condensing_steps" may make it fewer). Rows lie
// condensing_pitch() apart.
Bindings pick_condensing(const Caps& caps, DType dtype, int64_t n, bool both);
int64_t condensing_pitch(int64_t n);
int64_t condensing_iterations(const Bindings& tunables, int64_t n, bool both, int64_t steps);
int64_t condensing_steps(const Caps& caps, DType dtype, int64_t n, bool both);

// Sweeps that a launch keeps at most, rotations that it has room for, and how many launches there are: the driver's
// loops again (tuning key "sweeps_of_a_launch").
struct SweepLaunches {
  int64_t sweeps, room, launches;
};
SweepLaunches sweep_launches(const Caps& caps, DType dtype, int64_t n);
Bindings pick_sweeps(const Caps& caps, DType dtype, int64_t n);
Bindings pick_rotate_rows(const Caps& caps, DType dtype, int64_t n);
int64_t sweeps_iterations(int64_t n, int64_t sweeps, int64_t room);
int64_t rotate_rows_iterations(const Bindings& tunables, int64_t n, int64_t sweeps, int64_t room);

// Whether spectra come from tridiagonal (bidiagonal) forms; small matrices, and what the kernels above cannot take, are
// rotated to diagonal ones. Tuning key "condensed", LEAST.
bool condenses(const Caps& caps, DType dtype, int64_t n, bool both);

Bindings pick_jacobi(const Caps& caps, DType dtype, int64_t n);
// Of a launch with that many rotations; and as many as one launch takes, on GPUs no more than a watchdog bears (tuning
// key "jacobi_pairs").
int64_t jacobi_iterations(const Bindings& tunables, int64_t n, int64_t pairs);
int64_t jacobi_pairs(const Caps& caps, DType dtype, int64_t n);

// Columns of a block of an n x n matrix (for panels: of m rows) that one launch takes: at most 128, and no more than
// the driver's loops allow. The tuning key "linalg_block" may make it smaller.
int64_t cholesky_block(const Caps& caps, DType dtype, int64_t n);
int64_t lu_block(const Caps& caps, DType dtype, int64_t m, int64_t n);
int64_t qr_block(const Caps& caps, DType dtype, int64_t m, int64_t n);  // at most 64
int64_t triangular_block(const Caps& caps, DType dtype, int64_t n, int64_t k);

}  // namespace heddle
