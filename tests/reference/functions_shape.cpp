// Shapes, windows and picking.
#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

Shape shape_of(const Arguments& a, const std::string& key) { return Shape(a.integers(key)); }

UnfoldOptions unfold_options(const Arguments& a) {
  UnfoldOptions o;
  if (a.has("dilation")) o.dilation = a.integers("dilation");
  if (a.has("padding")) o.padding = a.integers("padding");
  if (a.has("stride")) o.stride = a.integers("stride");
  return o;
}

}  // namespace

void add_shape(Functions& t) {
  t["roll"] = one([](Inputs in, const Arguments& a) { return roll(in[0], a.integers("shifts"), a.axes("axes")); });
  t["repeat"] = one([](Inputs in, const Arguments& a) { return repeat(in[0], a.integers("repeats")); });
  t["tile"] = one([](Inputs in, const Arguments& a) { return tile(in[0], a.integers("repeats")); });
  t["repeat_interleave"] = one([](Inputs in, const Arguments& a) {
    return repeat_interleave(in[0], a.integer("repeats"), a.maybe_axis("axis"));
  });
  t["stack"] = one([](Inputs in, const Arguments& a) { return stack(in, a.axis("axis", 0)); });
  t["unstack"] = [](Inputs in, const Arguments& a) { return unstack(in[0], a.axis("axis", 0)); };
  t["chunk"] = [](Inputs in, const Arguments& a) { return chunk(in[0], a.integer("chunks"), a.axis("axis", 0)); };
  t["hstack"] = one([](Inputs in, const Arguments&) { return hstack(in); });
  t["vstack"] = one([](Inputs in, const Arguments&) { return vstack(in); });
  t["dstack"] = one([](Inputs in, const Arguments&) { return dstack(in); });
  t["swapaxes"] = one([](Inputs in, const Arguments& a) { return swapaxes(in[0], a.axis("axis0"), a.axis("axis1")); });
  t["moveaxis"] =
      one([](Inputs in, const Arguments& a) { return moveaxis(in[0], a.axes("source"), a.axes("destination")); });
  t["flatten"] =
      one([](Inputs in, const Arguments& a) { return flatten(in[0], a.axis("start", 0), a.axis("end", -1)); });
  t["unflatten"] =
      one([](Inputs in, const Arguments& a) { return unflatten(in[0], a.axis("axis"), a.integers("sizes")); });
  t["ravel"] = one([](Inputs in, const Arguments&) { return ravel(in[0]); });
  t["broadcast_to"] = one([](Inputs in, const Arguments& a) { return broadcast_to(in[0], shape_of(a, "shape")); });
  t["broadcast_tensors"] = [](Inputs in, const Arguments&) { return broadcast_tensors(in); };
  t["atleast_1d"] = one([](Inputs in, const Arguments&) { return atleast_1d(in[0]); });
  t["atleast_2d"] = one([](Inputs in, const Arguments&) { return atleast_2d(in[0]); });
  t["atleast_3d"] = one([](Inputs in, const Arguments&) { return atleast_3d(in[0]); });
  t["meshgrid"] = [](Inputs in, const Arguments& a) {
    return meshgrid(in, a.text("indexing", "ij") == "xy" ? GridIndexing::xy : GridIndexing::ij);
  };
  t["rot90"] = one([](Inputs in, const Arguments& a) {
    return rot90(in[0], a.integer("k", 1), a.has("axes") ? a.axes("axes") : std::vector<int>{0, 1});
  });
  t["fliplr"] = one([](Inputs in, const Arguments&) { return fliplr(in[0]); });
  t["flipud"] = one([](Inputs in, const Arguments&) { return flipud(in[0]); });
  t["tril"] = one([](Inputs in, const Arguments& a) { return tril(in[0], a.integer("k")); });
  t["triu"] = one([](Inputs in, const Arguments& a) { return triu(in[0], a.integer("k")); });
  t["diagonal"] = one([](Inputs in, const Arguments& a) {
    return diagonal(in[0], a.integer("k"), a.axis("axis0", 0), a.axis("axis1", 1));
  });
  t["diag_embed"] = one([](Inputs in, const Arguments& a) {
    return diag_embed(in[0], a.integer("k"), a.axis("axis0", -2), a.axis("axis1", -1));
  });
  t["diag"] = one([](Inputs in, const Arguments& a) { return diag(in[0], a.integer("k")); });
  t["matrix_trace"] = one([](Inputs in, const Arguments&) { return matrix_trace(in[0]); });
  t["pixel_shuffle"] = one([](Inputs in, const Arguments& a) { return pixel_shuffle(in[0], a.integer("factor")); });
  t["pixel_unshuffle"] = one([](Inputs in, const Arguments& a) { return pixel_unshuffle(in[0], a.integer("factor")); });
  t["channel_shuffle"] = one([](Inputs in, const Arguments& a) { return channel_shuffle(in[0], a.integer("groups")); });
  t["sliding_window"] = one([](Inputs in, const Arguments& a) {
    return sliding_window(in[0], a.axis("axis"), a.integer("size"), a.integer("step", 1));
  });
  t["unfold"] =
      one([](Inputs in, const Arguments& a) { return unfold(in[0], a.integers("kernel"), unfold_options(a)); });
  t["fold"] = one([](Inputs in, const Arguments& a) {
    return fold(in[0], a.integers("size"), a.integers("kernel"), unfold_options(a));
  });
  t["index_select"] = one([](Inputs in, const Arguments& a) { return index_select(in[0], a.axis("axis"), in[1]); });
  t["take_along_axis"] =
      one([](Inputs in, const Arguments& a) { return take_along_axis(in[0], in[1], a.axis("axis")); });
  t["put_along_axis"] =
      one([](Inputs in, const Arguments& a) { return put_along_axis(in[0], in[1], in[2], a.axis("axis")); });
  t["scatter"] = one([](Inputs in, const Arguments& a) {
    return in.size() == 3 ? scatter(in[0], a.axis("axis"), in[1], in[2])
                          : scatter(in[0], a.axis("axis"), in[1], a.real("value"));
  });
  t["index_put"] =
      one([](Inputs in, const Arguments& a) { return index_put(in[0], in.subspan(2), in[1], a.flag("accumulate")); });
  t["index_fill"] =
      one([](Inputs in, const Arguments& a) { return index_fill(in[0], a.axis("axis"), in[1], a.real("value")); });
  t["masked_fill"] = one([](Inputs in, const Arguments& a) {
    return in.size() == 3 ? masked_fill(in[0], in[1], in[2]) : masked_fill(in[0], in[1], a.real("value"));
  });
  t["masked_select"] = one([](Inputs in, const Arguments&) { return masked_select(in[0], in[1]); });
  t["nonzero"] = one([](Inputs in, const Arguments&) { return nonzero(in[0]); });
  t["searchsorted"] = one([](Inputs in, const Arguments& a) { return searchsorted(in[0], in[1], a.flag("right")); });
  t["bucketize"] = one([](Inputs in, const Arguments& a) { return bucketize(in[0], in[1], a.flag("right")); });
  t["unique"] = [](Inputs in, const Arguments&) {
    const Unique u = unique(in[0]);
    return std::vector<Tensor>{u.values, u.inverse, u.counts};
  };
  t["isin"] = one([](Inputs in, const Arguments&) { return isin(in[0], in[1]); });
}

}  // namespace heddle::tests
