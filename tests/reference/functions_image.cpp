// Resampling, grids, local response norm, embedding bags.
#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

Interpolation mode_of(const Arguments& a, const char* fallback) {
  const std::string name = a.text("mode", fallback);
  return name == "cubic" ? Interpolation::cubic : name == "linear" ? Interpolation::linear : Interpolation::nearest;
}

}  // namespace

void add_image(Functions& t) {
  t["interpolate"] = one([](Inputs in, const Arguments& a) {
    InterpolateOptions how;
    if (a.has("size")) how.size = a.integers("size");
    if (a.has("scale")) how.scale = a.reals("scale");
    how.mode = mode_of(a, "nearest");
    how.align_corners = a.flag("align_corners");
    return interpolate(in[0], how);
  });
  t["affine_grid"] = one(
      [](Inputs in, const Arguments& a) { return affine_grid(in[0], a.integers("size"), a.flag("align_corners")); });
  t["grid_sample"] = one([](Inputs in, const Arguments& a) {
    const std::string name = a.text("padding");
    const GridPadding padding = name == "border"       ? GridPadding::border
                                : name == "reflection" ? GridPadding::reflection
                                                       : GridPadding::zeros;
    return grid_sample(in[0], in[1],
                       {.mode = mode_of(a, "linear"), .padding = padding, .align_corners = a.flag("align_corners")});
  });
  t["local_response_norm"] = one([](Inputs in, const Arguments& a) {
    return local_response_norm(in[0], a.integer("size"), a.real("alpha", 1e-4), a.real("beta", 0.75), a.real("k", 1));
  });
  t["embedding_bag"] = one([](Inputs in, const Arguments& a) {
    const std::string mode = a.text("mode");
    return embedding_bag(in[0], in[1], mode == "sum" ? BagMode::sum : mode == "max" ? BagMode::max : BagMode::mean);
  });
}

}  // namespace heddle::tests
