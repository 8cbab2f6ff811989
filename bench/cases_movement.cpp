// transpose, gather, movement (concat, pad, slice, flip) and copy: nothing is computed, so bandwidth is all.
#include "bench/bench.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"

namespace heddle::bench {
namespace {

const std::vector<DType> types = {DType::f32, DType::f16, DType::bf16, DType::i32, DType::i8};

// A matrix (or a batch of them), transposed in memory.
Case parse_transpose(const std::string& name, DType dtype) {
  constexpr std::string_view form = "[BATCH*]ROWSxCOLUMNS";
  const size_t star = name.find('*');
  const int64_t batch = star == std::string::npos ? 1 : parse_sizes("transpose", name.substr(0, star), 1, form)[0];
  const std::vector<int64_t> size =
      parse_sizes("transpose", star == std::string::npos ? name : name.substr(star + 1), 2, form);
  Case c;
  c.tensor({batch, size[0], size[1]}, dtype, 2);
  c.flops =
      static_cast<double>(batch * size[0]) * static_cast<double>(size[1]);  // an element moved counts as an operation
  c.bound = Bound::copy;
  c.tolerance = 0;
  c.make = [=](const Environment& env) {
    const Tensor x = random_tensor({batch, size[0], size[1]}, dtype, 1, env.device);
    // The negation makes it a kernel: a transpose alone is a view. It costs nothing beside memory.
    Workload w;
    w.run = [=] { return std::vector<Tensor>{-transpose(x)}; };
    return w;
  };
  return c;
}

// INDICESxWIDTH@ROWS: rows of a table of ROWS x WIDTH, as an embedding reads them.
Case parse_gather(const std::string& name, DType dtype) {
  constexpr std::string_view form = "INDICESxWIDTH@ROWS";
  const size_t at = name.find('@');
  if (at == std::string::npos)
    throw ValueError("[bench] gather case '" + name + "' is not of the form " + std::string(form));
  const std::vector<int64_t> size = parse_sizes("gather", name.substr(0, at), 2, form);
  const int64_t rows = parse_sizes("gather", name.substr(at + 1), 1, form)[0];
  Case c;
  c.flops = static_cast<double>(size[0]) * static_cast<double>(size[1]);
  c.tensor({rows, size[1]}, dtype, 0).tensor({size[0], size[1]}, dtype, 2).tensor({size[0]}, DType::i32);
  c.bound = Bound::copy;
  c.tolerance = 0;
  c.make = [=](const Environment& env) {
    const Tensor table = random_tensor({rows, size[1]}, dtype, 1, env.device),
                 indices = Tensor::from_vector(random_indices(size[0], rows, 2), {size[0]}, &env.device);
    Workload w;
    w.run = [=] { return std::vector<Tensor>{take(table, indices)}; };
    return w;
  };
  return c;
}

// OP:ROWSxCOLUMNS; what only changes a view is negated, which makes it a kernel.
Case parse_movement(const std::string& name, DType dtype) {
  constexpr std::string_view form = "concat|pad|slice|flip:ROWSxCOLUMNS";
  const size_t colon = name.find(':');
  const std::string op = name.substr(0, colon);
  if (colon == std::string::npos || (op != "concat" && op != "pad" && op != "slice" && op != "flip")) {
    throw ValueError("[bench] movement case '" + name + "' is not of the form " + std::string(form));
  }
  const std::vector<int64_t> size = parse_sizes("movement", name.substr(colon + 1), 2, form);
  const int64_t rows = size[0], columns = size[1];
  if (op == "slice" && columns < 3)
    throw ValueError("[bench] movement case '" + name + "': a slice leaves out the first and the last column");
  Case c;
  if (op == "concat") {
    c.tensor({2, rows, columns}, dtype).tensor({rows, 2 * columns}, dtype);
  } else if (op == "pad") {
    c.tensor({rows, columns}, dtype).tensor({rows + 2, columns + 2}, dtype);
  } else {
    c.tensor({rows, op == "slice" ? columns - 2 : columns}, dtype, 2);
  }
  c.flops = static_cast<double>(rows) * static_cast<double>(columns);
  c.bound = Bound::copy;
  c.tolerance = 0;
  c.make = [=](const Environment& env) {
    const Tensor x = random_tensor({rows, columns}, dtype, 1, env.device),
                 y = op == "concat" ? random_tensor({rows, columns}, dtype, 2, env.device) : x;
    Workload w;
    w.run = [=]() -> std::vector<Tensor> {
      if (op == "concat") return {concat({x, y}, 1)};
      if (op == "pad") return {pad(x, {{1, 1}, {1, 1}})};
      return {op == "slice" ? -slice(x, 1, {1, columns - 1}) : -flip(x, {1})};
    };
    return w;
  };
  return c;
}

// y = -x: the least that a kernel does to every element.
Case parse_copy(const std::string& name, DType dtype) {
  const int64_t n = parse_sizes("copy", name, 1, "N")[0];
  Case c;
  c.tensor({n}, dtype, 2);
  c.flops = static_cast<double>(n);
  c.bound = Bound::copy;
  c.tolerance = 0;
  c.make = [=](const Environment& env) {
    const Tensor x = random_tensor({n}, dtype, 1, env.device);
    Workload w;
    w.run = [=] { return std::vector<Tensor>{-x}; };
    return w;
  };
  return c;
}

}  // namespace

Family transpose_family() {
  return {"transpose",
          "[BATCH*]ROWSxCOLUMNS",
          {"4096x4096", "1000x1003", "4099x4093", "48*512x64", "16*64x3136", "16*3136x64"},
          types,
          {},
          parse_transpose};
}
Family gather_family() {
  return {"gather", "INDICESxWIDTH@ROWS", {"16384x256@50000", "65536x64@32000"}, types, {}, parse_gather};
}
Family movement_family() {
  return {"movement",
          "concat|pad|slice|flip:ROWSxCOLUMNS",
          {"concat:4096x2048", "concat:4096x1001", "pad:4096x4096", "slice:4096x4096", "flip:4096x4096"},
          types,
          {},
          parse_movement};
}
Family copy_family() { return {"copy", "N (y = -x)", {"16777216", "65536"}, types, {}, parse_copy}; }

}  // namespace heddle::bench
