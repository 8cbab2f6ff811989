// The public operations on tensors.
//
// Purpose: each function checks shapes and dtypes where the user wrote it and records nodes. Shapes broadcast as in
// NumPy; dtypes promote by promote() (core/base/dtype.h). Python-style numbers (double) take the tensor's dtype, except
// that a fractional number beside an integer tensor gives f32. All note the place of the call (core/base/caller.h).
// Errors: ShapeError, DTypeError, ValueError; the text names the op, the shapes and the likely cause. Thread safety:
// recording is per thread. The headers that stand here declare them; none of these includes this one.
#pragma once

#include "heddle/core/functions/linalg/einsum.h"
#include "heddle/core/functions/linalg/linalg.h"
#include "heddle/core/functions/linalg/matmul.h"
#include "heddle/core/functions/linalg/matrix.h"
#include "heddle/core/functions/math/activations.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/complex.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/fft.h"
#include "heddle/core/functions/math/math.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/math/sort.h"
#include "heddle/core/functions/math/special.h"
#include "heddle/core/functions/math/statistics.h"
#include "heddle/core/functions/nn/attention.h"
#include "heddle/core/functions/nn/bags.h"
#include "heddle/core/functions/nn/conv.h"
#include "heddle/core/functions/nn/image.h"
#include "heddle/core/functions/nn/loss.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/core/functions/nn/pool.h"
#include "heddle/core/functions/nn/softmax.h"
#include "heddle/core/functions/random/distributions.h"
#include "heddle/core/functions/random/generator.h"
#include "heddle/core/functions/random/random.h"
#include "heddle/core/functions/random/samples.h"
#include "heddle/core/functions/shape/arrange.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/diagonals.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/ordered_sets.h"
#include "heddle/core/functions/shape/padding.h"
#include "heddle/core/functions/shape/positions.h"
#include "heddle/core/functions/shape/scatter.h"
#include "heddle/core/functions/shape/shape.h"
#include "heddle/core/graph/tensor.h"
