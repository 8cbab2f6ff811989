// Collate functions and steps on whole batches: padding, packing, mixup, cutmix.
//
//   data::Loader loader(set, sampler, {.batch = 32, .collate = data::padded({.multiple = 8, .values = {0, -100}})});
//
// Errors: ShapeError and ValueError for examples that do not fit, as stack(). Thread safety: pure functions; called by
// a loader's workers.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/data/dataset.h"
#include "heddle/data/loader.h"

namespace heddle::data {

struct PadOptions {
  int64_t multiple = 1;        // the common length is a multiple: few lengths, few plans
  int64_t least = 0;           // and at least this
  std::vector<double> values;  // what array i is filled up with; 0 behind the list's end
};
// Arrays whose first dimensions differ from example to example, filled up to the longest (scalars are stacked as they
// are); behind them the lengths of the first array, (N) i32.
Collate padded(PadOptions options = {});

// Token sequences side by side in rows of `block`, so that little is padding: examples are (tokens (length) i32),
// batches (tokens, segment, position), each (rows, block) i32. Each sequence goes to the first row with room, the
// longest first. Segments count from 1 within a row, 0 is padding: attention must not leave its segment. ValueError for
// a sequence that is longer than a row.
Collate packed(int64_t block, int32_t pad = 0);

// Mixing two examples: Zhang et al. 2018, "mixup"; Yun et al. 2019, "CutMix". Each is mixed with its opposite in the
// batch, which a shuffled order makes a random one; one share for the batch.
struct Mixture {
  float share = 1;                                   // of the example's own label
  int32_t top = 0, bottom = 0, left = 0, right = 0;  // what cutmix replaces, in pixels; empty: mixup
};
// share ~ Beta(alpha, alpha). ValueError unless alpha > 0.
Mixture draw_mixup(double alpha, Random& random);
// A box of the share 1 - lambda of the image around a random pixel, cut at the borders; share is what is left.
Mixture draw_cutmix(double alpha, int64_t height, int64_t width, Random& random);
struct Mixed {
  Tensor images;   // as given
  Tensor targets;  // (N, classes) f32, rows sum to 1: for cross entropy with probabilities
};
// On the images' device: images (N, channels, height, width) floating, labels (N) i32 or i64. The numbers of the
// mixture change no plan.
Mixed mix(const Tensor& images, const Tensor& labels, int64_t classes, const Mixture& mixture,
          Caller caller = Caller::current());
// Mixup with shares on the device, one for all or one for each example: rank 0 or (N), f32.
Mixed mixup(const Tensor& images, const Tensor& labels, int64_t classes, const Tensor& share,
            Caller caller = Caller::current());
// Puts the share of mixup behind an example's arrays, f32 rank 0: chance then belongs to the example's place in the
// epoch, as that of other transforms. ValueError unless alpha > 0.
Transform append_mixup_share(double alpha);

}  // namespace heddle::data
