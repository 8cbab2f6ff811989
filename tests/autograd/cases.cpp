#include "tests/autograd/cases.h"

#include <map>
#include <numeric>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/functions/nn/norms.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/philox.h"
#include "heddle/core/op/op.h"

namespace heddle::tests {
namespace {

struct Domain {
  double low, high;
  double first_offset = 0;
};

// Where the rows that are not smooth (or not defined) on the default interval are checked; for mod, where the quotient
// stays 2.
Domain domain_of(const std::string& name) {
  static const std::map<std::string, Domain> special = {
      {"log", {0.3, 2}},        {"sqrt", {0.3, 2}},    {"rsqrt", {0.3, 2}},  {"reciprocal", {0.4, 2}},
      {"pow", {0.4, 2}},        {"tan", {-1.1, 1.1}},  {"log1p", {-0.5, 2}}, {"div", {0.4, 2}},
      {"mod", {1.1, 1.3, 1.6}}, {"atan2", {0.3, 1.5}}, {"log2", {0.3, 2}},   {"log10", {0.3, 2}},
      {"asin", {-0.8, 0.8}},    {"acos", {-0.8, 0.8}}, {"acosh", {1.3, 3}},  {"atanh", {-0.8, 0.8}},
      {"erfinv", {-0.8, 0.8}},  {"lgamma", {0.6, 3}}};
  const auto found = special.find(name);
  return found == special.end() ? Domain{-1.5, 1.5} : found->second;
}

Tensor indices(Inputs in, const std::vector<int32_t>& values, const Shape& shape) {
  return Tensor::from_vector(values, shape, &in[0].device());
}

void add_elementwise_functions(std::vector<GradientCase>& t) {
  t.push_back(one("clamp", {11}, [](const Tensor& x) { return square(clamp(x, -0.7, 0.6)); }));
  t.push_back(one("pow 2", {5}, [](const Tensor& x) { return pow(x, 2); }));
  t.push_back(one("pow 3", {5}, [](const Tensor& x) { return pow(x, 3); }));
  t.push_back(one(
      "pow 0.5", {5}, [](const Tensor& x) { return pow(x, 0.5); }, 0.4, 2));
  t.push_back(one("number to the power", {5}, [](const Tensor& x) { return pow(1.7, x); }));
  t.push_back(two("where", {4, 3}, {3}, [](const Tensor& x, const Tensor& y) { return where(x > 0.1, x * y, y * y); }));
  t.push_back(
      two("broadcast", {4, 1, 3}, {2, 1}, [](const Tensor& x, const Tensor& y) { return x * y + y / (x * x + 1); }));
  t.push_back(one("reuse", {4}, [](const Tensor& x) {
    const Tensor y = tanh(x);
    return y * y + x * exp(y);
  }));
}

void add_reductions(std::vector<GradientCase>& t) {
  t.push_back(one("sum all", {3, 4}, [](const Tensor& x) { return square(sum(x)); }));
  t.push_back(one("sum axis", {3, 4, 2}, [](const Tensor& x) { return square(sum(x, {1})); }));
  t.push_back(one("sum axes keepdim", {3, 4, 2}, [](const Tensor& x) { return square(sum(x, {0, -1}, true)); }));
  t.push_back(one("mean", {3, 5}, [](const Tensor& x) { return exp(mean(x, {0})); }));
  t.push_back(one("max", {3, 5}, [](const Tensor& x) { return square(max(x, {1})); }));
  t.push_back(one("min all", {3, 5}, [](const Tensor& x) { return square(min(x)); }));
  t.push_back(one("prod", {3, 4}, [](const Tensor& x) { return prod(x, {1}); }));
  t.push_back(one("prod of axes", {2, 3, 2}, [](const Tensor& x) { return prod(x, {0, 2}, true); }));
  t.push_back(one("var", {3, 4}, [](const Tensor& x) { return var(x, {1}); }));
  t.push_back(one("var population", {3, 4}, [](const Tensor& x) { return var(x, {}, false, 0); }));
  t.push_back(one("logsumexp", {3, 5}, [](const Tensor& x) { return logsumexp(x, {1}); }));
  t.push_back(one("logsumexp axes", {3, 2, 2}, [](const Tensor& x) { return logsumexp(x, {0, 2}, true); }));
}

void add_movements(std::vector<GradientCase>& t) {
  t.push_back(one("reshape", {3, 4}, [](const Tensor& x) { return square(reshape(x, Shape{2, 6})); }));
  t.push_back(one("permute", {2, 3, 4}, [](const Tensor& x) { return square(permute(x, {2, 0, 1})); }));
  t.push_back(one("transpose", {2, 3}, [](const Tensor& x) { return square(transpose(x)); }));
  t.push_back(one("expand", {3, 1}, [](const Tensor& x) { return square(expand(x, Shape{2, 3, 4})); }));
  t.push_back(one("squeeze", {3, 1, 2}, [](const Tensor& x) { return square(squeeze(x, 1)); }));
  t.push_back(one("unsqueeze", {3, 2}, [](const Tensor& x) { return square(unsqueeze(x, -1)); }));
  t.push_back(one("slice", {5, 4}, [](const Tensor& x) { return square(slice(x, 0, {1, 4, 1})); }));
  t.push_back(one("slice step 3", {3, 8}, [](const Tensor& x) { return square(slice(x, 1, {1, {}, 3})); }));
  t.push_back(one("slice step -1", {5}, [](const Tensor& x) { return square(slice(x, 0, {{}, {}, -1})); }));
  t.push_back(one("slice step -2", {2, 7, 2}, [](const Tensor& x) { return square(slice(x, 1, {5, 0, -2})); }));
  t.push_back(one("slice axes", {6, 5}, [](const Tensor& x) {
    const std::vector<Slice> ranges = {{{}, {}, -2}, {1, 5, 2}};
    return square(slice(x, ranges));
  }));
  t.push_back(one("flip", {3, 4}, [](const Tensor& x) { return x * flip(x, {0, 1}); }));
  t.push_back(one("pad", {2, 3}, [](const Tensor& x) { return square(pad(x, {{1, 0}, {2, 1}}, 0.5)); }));
  t.push_back(two("concat", {2, 3}, {2, 2}, [](const Tensor& x, const Tensor& y) {
    return square(concat({x, y, x}, 1));
  }));
  t.push_back(one("split", {2, 5}, [](const Tensor& x) {
    const std::vector<Tensor> parts = split(x, {2, 3}, 1);
    return concat({parts[1] * 2, square(parts[0])}, 1);
  }));
}

void add_indexing(std::vector<GradientCase>& t) {
  t.push_back({"take rows", {{4, 3}}, [](Inputs in) {
                 return square(take(in[0], indices(in, {2, 0, 2, -1, 3}, {5})));
               }});
  t.push_back({"take inner", {{2, 5, 3}}, [](Inputs in) {
                 return square(take(in[0], indices(in, {4, 1, 1, 0}, {2, 2}), 1));
               }});
  t.push_back({"take clamped", {{3, 2}}, [](Inputs in) { return square(take(in[0], indices(in, {7, -9, 1}, {3}))); }});
  t.push_back({"gather", {{3, 4}}, [](Inputs in) {
                 return square(gather(in[0], 1, indices(in, {0, 3, 3, 1, -1, 2}, {3, 2})));
               }});
  t.push_back({"gather axis 0", {{3, 2}}, [](Inputs in) {
                 return square(gather(in[0], 0, indices(in, {2, 2, 0, 1, 2, 0}, {3, 2})));
               }});
  t.push_back({"embedding", {{5, 3}}, [](Inputs in) {
                 return square(embedding(in[0], indices(in, {1, 1, 4, 0}, {2, 2})));
               }});
  t.push_back({"scatter_add", {{3, 4}, {3, 2}}, [](Inputs in) {
                 return square(scatter_add(in[0], 1, indices(in, {0, 3, 1, 1, 2, 0}, {3, 2}), in[1]));
               }});
  t.push_back({"index_add", {{4, 3}, {3, 3}}, [](Inputs in) {
                 return square(index_add(in[0], indices(in, {2, 0, 2}, {3}), in[1]));
               }});
  t.push_back({"index_add outside", {{2, 3}, {3, 3}}, [](Inputs in) {
                 return square(index_add(in[0], indices(in, {1, 5, -1}, {3}), in[1]));
               }});
}

void add_order(std::vector<GradientCase>& t) {
  t.push_back(one("cumsum", {3, 5}, [](const Tensor& x) { return square(cumsum(x, 1)); }));
  t.push_back(
      one("cumsum exclusive reverse", {4, 3}, [](const Tensor& x) { return square(cumsum(x, 0, true, true)); }));
  t.push_back(one(
      "cumprod", {3, 5}, [](const Tensor& x) { return cumprod(x, 1); }, 0.5, 1.5));
  t.push_back(one(
      "cumprod exclusive reverse", {4, 3}, [](const Tensor& x) { return cumprod(x, 0, true, true); }, 0.5, 1.5));
  t.push_back(one(
      "cumprod past a zero", {2, 5},
      [](const Tensor& x) {
        // Row 0 has no zero, row 1 one, exactly.
        const Tensor less =
            Tensor::from_vector(std::vector<float>{0, 0, 0, 0, 0, 0, 0, 0.5f, 0, 0}, {2, 5}, &x.device());
        return cumprod(x - cast(less, x.dtype()), 1);
      },
      0.5, 0.5));
  t.push_back(two("layer_norm", {3, 5}, {5},
                  [](const Tensor& x, const Tensor& w) { return square(layer_norm(x, {5}, w, w)); }));
  t.push_back(two("rms_norm", {3, 5}, {5}, [](const Tensor& x, const Tensor& w) { return rms_norm(x, w); }));
  t.push_back(
      two("group_norm", {2, 4, 3}, {4}, [](const Tensor& x, const Tensor& w) { return square(group_norm(x, 2, w)); }));
  t.push_back(two("batch_norm", {4, 3, 2}, {3},
                  [](const Tensor& x, const Tensor& w) { return square(batch_norm(x, {}, {}, w, w)); }));
  t.push_back(one("sort", {3, 7}, [](const Tensor& x) {
    const Tensor weight = arange(0, 7, 1, x.dtype(), &x.device());
    return square(sort(x).values) * weight;
  }));
  t.push_back(one("topk axis 0", {6, 2}, [](const Tensor& x) { return square(topk(x, 3, 0).values); }));
}

void add_contractions(std::vector<GradientCase>& t) {
  const auto product = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
  t.push_back(two("matmul", {3, 4}, {4, 2}, product));
  t.push_back(
      two("matmul nt", {3, 4}, {2, 4}, [](const Tensor& a, const Tensor& b) { return matmul(a, transpose(b)); }));
  t.push_back(
      two("matmul tn", {4, 3}, {4, 2}, [](const Tensor& a, const Tensor& b) { return matmul(transpose(a), b); }));
  t.push_back(two("matmul tt", {4, 3}, {2, 4},
                  [](const Tensor& a, const Tensor& b) { return matmul(transpose(a), transpose(b)); }));
  t.push_back(two("dot", {5}, {5}, product));
  t.push_back(two("matrix vector", {3, 5}, {5}, product));
  t.push_back(two("vector matrix", {5}, {5, 3}, product));
  t.push_back(two("matmul batches", {2, 3, 4}, {2, 4, 2}, product));
  t.push_back(two("matmul broadcast", {2, 1, 3, 4}, {5, 4, 2}, product));
  t.push_back(two("matmul batch by matrix", {2, 3, 4}, {4, 2}, product));
  t.push_back(one("gram", {3, 4}, [](const Tensor& x) { return matmul(x, transpose(x)); }));
}

void add_losses(std::vector<GradientCase>& t) {
  t.push_back(one("softmax", {3, 5}, [](const Tensor& x) { return softmax(x); }));
  t.push_back(one("softmax axis 0", {3, 5}, [](const Tensor& x) { return softmax(x, 0); }));
  t.push_back(one("log_softmax", {3, 5}, [](const Tensor& x) { return log_softmax(x, -1); }));
  for (const Reduction r : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const std::string how = r == Reduction::mean ? " mean" : r == Reduction::sum ? " sum" : " none";
    t.push_back({"cross_entropy" + how, {{3, 5}}, [r](Inputs in) {
                   return cross_entropy(in[0], indices(in, {4, 0, 2}, {3}), r);
                 }});
    t.push_back({"nll" + how, {{3, 5}}, [r](Inputs in) {
                   return nll_loss(square(in[0]), indices(in, {4, 0, 2}, {3}), r);
                 }});
    t.push_back(two("mse" + how, {3, 4}, {3, 4}, [r](const Tensor& x, const Tensor& y) { return mse_loss(x, y, r); }));
  }
  t.push_back(two("l1", {3, 4}, {3, 4}, [](const Tensor& x, const Tensor& y) { return l1_loss(x, y); }));
  t.push_back(two("bce_with_logits", {3, 4}, {3, 4},
                  [](const Tensor& x, const Tensor& y) { return bce_with_logits(x, sigmoid(y)); }));
  t.push_back(two("huber", {3, 4}, {3, 4}, [](const Tensor& x, const Tensor& y) { return huber_loss(x, y, 0.6); }));
  t.push_back(two(
      "kl_div", {3, 4}, {3, 4}, [](const Tensor& x, const Tensor& y) { return kl_div(x, y); }, 0.2, 1));
  t.push_back(one("dropout", {4, 5}, [](const Tensor& x) {
    Generator generator{7, 0};
    return square(dropout(x, 0.4, true, &generator));
  }));
}

void add_convolutions(std::vector<GradientCase>& t) {
  t.push_back(two("conv2d", {2, 2, 4, 5}, {3, 2, 2, 3}, [](const Tensor& x, const Tensor& w) {
    return conv2d(x, w, {{2, 1}, {1, 0, 1, 2}, {1, 2}, 1, {}, {}});
  }));
  t.push_back(two("conv1d grouped", {2, 4, 6}, {4, 2, 3}, [](const Tensor& x, const Tensor& w) {
    return conv1d(x, w, {{2}, {1}, {}, 2, {}, {}});
  }));
  t.push_back(
      two("conv3d", {1, 2, 3, 2, 3}, {2, 2, 2, 1, 2}, [](const Tensor& x, const Tensor& w) { return conv3d(x, w); }));
  t.push_back({"conv2d channels last with bias", {{1, 4, 3, 2}, {3, 2, 2, 2}, {3}}, [](Inputs in) {
                 return conv2d(in[0], in[1], in[2], {{}, {1}, {}, 1, ConvLayout::channels_last, {}});
               }});
  t.push_back(two("conv_transpose2d", {2, 2, 3, 2}, {2, 3, 3, 2}, [](const Tensor& x, const Tensor& w) {
    return conv_transpose2d(x, w, {{2}, {1, 0}, {}, 1, {}, {1, 0}});
  }));
  t.push_back(two("depthwise conv2d", {1, 3, 4, 4}, {3, 1, 3, 3}, [](const Tensor& x, const Tensor& w) {
    return conv2d(x, w, {{}, {1}, {}, 3, {}, {}});
  }));
}

}  // namespace

std::vector<GradientCase> elementwise_cases() {
  std::vector<GradientCase> t;
  for (const OpDef* row : all_ops()) {
    if (row->kind != OpKind::elementwise || row->rule == DTypeRule::any || gradient_status(*row) != "yes") continue;
    const std::string name(row->name);
    const Domain d = domain_of(name);
    const size_t arity = static_cast<size_t>(row->arity);
    t.push_back({name, std::vector<Shape>(arity, Shape{3, 5}),
                 [row](Inputs in) {
                   std::vector<NodePtr> nodes;
                   for (const Tensor& x : in) nodes.push_back(x.node());
                   return Tensor(make_node(*row, nodes, {}, in[0].shape(), in[0].dtype()));
                 },
                 d.low, d.high, d.first_offset});
  }
  return t;
}

std::vector<GradientCase> function_cases() {
  std::vector<GradientCase> t;
  add_elementwise_functions(t);
  add_reductions(t);
  add_movements(t);
  add_indexing(t);
  add_order(t);
  add_contractions(t);
  add_convolutions(t);
  add_losses(t);
  for (GradientCase& c : attention_cases()) t.push_back(std::move(c));
  for (GradientCase& c : linalg_cases()) t.push_back(std::move(c));
  for (GradientCase& c : control_cases()) t.push_back(std::move(c));
  return t;
}

std::vector<GradientCase> transform_cases(bool rows) {
  std::vector<GradientCase> cases = rows ? elementwise_cases() : std::vector<GradientCase>{};
  for (GradientCase& c : function_cases()) cases.push_back(std::move(c));
  return cases;
}

std::vector<Tensor> make_inputs(const GradientCase& c, DType dtype, DeviceContext& device) {
  std::vector<Tensor> made;
  for (size_t i = 0; i < c.shapes.size(); ++i) {
    const uint64_t seed = hash_string(c.name);
    const std::array<uint32_t, 4> key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                                      static_cast<uint32_t>(i), 0};
    std::vector<double> values(static_cast<size_t>(c.shapes[i].numel()));
    for (size_t j = 0; j < values.size(); ++j)
      values[j] = c.low + (c.high - c.low) * philox_uniform(key, j) + (i == 0 ? c.first_offset : 0);
    if (dtype == DType::f64) {
      made.push_back(Tensor::from_vector(values, c.shapes[i], &device));
    } else {
      const std::vector<float> narrow(values.begin(), values.end());  // not every device has f64
      made.push_back(cast(Tensor::from_vector(narrow, c.shapes[i], &device), dtype));
    }
    made.back().set_requires_grad();
  }
  return made;
}

}  // namespace heddle::tests
