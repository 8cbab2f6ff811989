// sort, scan and embedding: order of rows, running sums, and the gradient of a table of embeddings.
#include "bench/bench.h"
#include "heddle/core/functions/functions.h"

namespace heddle::bench {
namespace {

const std::vector<DType> f32_only = {DType::f32};

// argsort of each row; 8 bytes come out for each element.
Case parse_sort(const std::string& name, DType dtype) {
  const std::vector<int64_t> size = parse_sizes("sort", name, 2, "ROWSxCOLUMNS");
  Case c;
  c.tensor({size[0], size[1]}, dtype).tensor({size[0], size[1]}, DType::i64);
  c.bound = Bound::copy;
  c.tolerance = 0;
  c.make = [=](const Environment& env) {
    const Tensor x = random_tensor({size[0], size[1]}, dtype, 1, env.device);
    Workload w;
    w.run = [=] { return std::vector<Tensor>{argsort(x)}; };
    return w;
  };
  return c;
}

// cumsum of each row.
Case parse_scan(const std::string& name, DType dtype) {
  const std::vector<int64_t> size = parse_sizes("scan", name, 2, "ROWSxCOLUMNS");
  Case c;
  c.tensor({size[0], size[1]}, dtype).tensor({size[0], size[1]}, dtype);
  c.flops = static_cast<double>(size[0]) * static_cast<double>(size[1]);
  c.bound = Bound::copy;
  c.tolerance = 1e-4;
  c.make = [=](const Environment& env) {
    const Tensor x = random_tensor({size[0], size[1]}, dtype, 1, env.device);
    Workload w;
    w.run = [=] { return std::vector<Tensor>{cumsum(x, 1)}; };
    return w;
  };
  return c;
}

// INDICESxWIDTH@ROWS would read like gather's: the gradient writes ROWS x WIDTH from INDICES x WIDTH.
Case parse_embedding(const std::string& name, DType dtype) {
  const std::vector<int64_t> size = parse_sizes("embedding", name, 3, "ROWSxWIDTHxINDICES");
  Case c;
  c.tensor({size[0], size[1]}, dtype).tensor({size[2], size[1]}, dtype).tensor({size[2]}, DType::i32);
  c.bound = Bound::copy;
  c.make = [=](const Environment& env) {
    const Tensor at = Tensor::from_vector(random_indices(size[2], size[0], 2), {size[2]}, &env.device);
    const Tensor g = random_tensor({size[2], size[1]}, dtype, 1, env.device);
    DeviceContext* device = &env.device;
    Workload w;
    w.run = [=] { return std::vector<Tensor>{index_add(zeros({size[0], size[1]}, dtype, device), at, g)}; };
    return w;
  };
  return c;
}

}  // namespace

Family sort_family() { return {"sort", "ROWSxCOLUMNS", {"1x1048576", "256x4096"}, f32_only, {}, parse_sort}; }
Family scan_family() { return {"scan", "ROWSxCOLUMNS", {"1x16777216", "4096x1024"}, f32_only, {}, parse_scan}; }
Family embedding_family() {
  return {"embedding", "ROWSxWIDTHxINDICES", {"50000x512x8192"}, f32_only, {}, parse_embedding};
}

}  // namespace heddle::bench
