// Kernel files and what is kept of kernels: tuning tables, launches, images, caches.
#include <cstdlib>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/cache_files.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/dialect/builtin_files.h"
#include "heddle/core/functions/control/control.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/inspect/saved_launch.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/run/compiled_graph.h"
#include "heddle/core/run/image_binaries.h"
#include "heddle/core/run/image_bytes.h"
#include "tests/fuzz/seed_files.h"
#include "tests/fuzz/target.h"

namespace heddle::fuzz {

using namespace std::string_literals;  // texts with NULs in them

Seeds kernel_file_seeds() {
  Seeds seeds = {
      "/*\ndoc     y = x\ntype    T f32 f16\nin      x T\nout     y T\nconst   uint N\ntune    TM 1 [1 2 4] tile\nfact "
      "   F 0 [any]\nlet     W TM * 2\nshared  float s W\nhook    H(v) = v\ngroup   64, 1\n"
      "grid    linear ceildiv(N, 64 * TM)\nbounds  x 0, N\nrequire TM < 8 && \\\n W > 0 : too large\n*/\nfloat f(float "
      "v) { return v; }\nKERNEL\nSTORE(y, 0, H(f(LOAD(x, 0))));\n"};
  for (const BuiltinFile& file : builtin_files()) {
    if (file.name == "copy.hk" || file.name == "scan.hk" || file.name == "matmul.hk") seeds.emplace_back(file.text);
  }
  return seeds;
}

Seeds expression_seeds() {
  return {"min(M, 4) + ceildiv(M, 2) * 3 - -N", "cond(M > 3 && N == 0, 1, 2) % 7", "((M)) || least <= most", "------7"};
}

Seeds user_text_seeds() {
  return {"x * exp(-z) + 1.5e-3", "T s = 0; for (int i = 0; i < 4; ++i) { s = s + x; } y = s > 1. ? s : 0x1F;",
          "if (isnan(x)) { y = INFINITY; } else if (z > 2) y = 1; else y = T(3); // end", "f:12: u_x u_y"};
}

Seeds einsum_seeds() {
  return {"ij,jk->ik\0\2\2"s, "...ij,...jk->...ik\0\3\3"s, "ii->i\0\2"s, "i,i,i\0\1\1\1"s, "A b -> bA\0\2"s};
}

Seeds tuning_seeds() {
  Seeds seeds = {
      R"({"heddle_tuning": 1, "devices": [{"name": "n", "driver": "d", "driver_hash": "0x12", "target": "opencl", "class": "cpu", "vendor": "0x8086", "entries": [)"
      R"({"body": "matmul", "variant": "nn f32", "sizes": [1, 768], "tunables": {"MR": 6}, "seconds": 1e-4, "default_seconds": 1.2e-4}]}]})",
      R"({"heddle_tuning": 1, "devices": []})"};
  return seeds;
}

Seeds launch_seeds() {
  KernelSource source;
  source.name = "copy";
  source.buffers = {{"x", DType::f32, Access::read, false}, {"y", DType::f32, Access::write, true}};
  source.constants = {{"n", ConstParam::Type::u32}};
  source.shared = {{"s", "float", 4}};
  source.defines = {{"A", "1"}};
  source.body = "STORE(y, 0, LOAD(x, 0));";
  Dispatch dispatch;
  dispatch.bindings = {{BufferId{1}, 0, 16}, {BufferId{2}, 0, 16}};
  dispatch.constants = {4};
  ::setenv("HEDDLE_CACHE_DIR", (scratch_folder() + "/cache").c_str(), 1);
  const DiskCache cache("launch", 0);
  const std::string id = save_launch(source, dispatch, {}, {});
  const auto payload = cache.load(id);
  return {payload ? std::string(payload->begin(), payload->end()) : std::string(), read_back(cache.path(id))};
}

// Behind the head: a graph with a loop, its kernels as text, and compiled.
Seeds image_seeds() {
  DeviceContext& null = device("null:0");
  const Tensor xs = Tensor::from_vector(std::vector<float>(15, 0.5f), {3, 5}, &null);
  const Scanned loop = scan(
      [](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
        const Tensor next = tanh(carry[0] + x[0]);
        return Scanned{{next}, {next * 2.0}};
      },
      {zeros({5}, DType::f32, &null)}, {xs});
  const Tensor sums = sum(loop.ys[0], {1}), products = matmul(xs, transpose(xs)) + 1.0;
  GraphImage image = CompiledGraph::compile(null, capture(held_pending()), true, {})->image();
  Seeds seeds;
  const auto add = [&] {
    const std::vector<uint8_t> bytes = image_bytes(image);
    seeds.emplace_back(bytes.begin() + 16, bytes.end());
  };
  add();
  add_binaries(image, null.caps());
  add();
  eval_pending();
  return seeds;
}

Seeds pack_seeds() {
  launch_seeds();  // fills the cache
  const std::string pack = scratch("seed.pack");
  pack_cache(scratch_folder() + "/cache", pack);
  const std::string file = read_back(pack);
  return {file, file.substr(40)};
}

}  // namespace heddle::fuzz
