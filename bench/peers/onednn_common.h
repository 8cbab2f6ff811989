// What the oneDNN peers share.
#pragma once

#include <unordered_map>

#include "bench/peers/onednn_version.h"
#include "bench/peers/peers.h"

namespace heddle::bench::onednn {

using Desc = dnnl::memory::desc;

// One engine and stream for all.
dnnl::engine& engine();
dnnl::stream& stream();
// nullopt for dtypes oneDNN lacks.
std::optional<dnnl::memory::data_type> data_type(DType dtype);
// oneDNN takes inputs as void*; it does not write them.
dnnl::memory memory_of(const Desc& desc, const Bytes& bytes);

// A primitive with its arguments; keeps the host arrays alive. `out` is the argument that holds the result.
struct Prepared {
  dnnl::primitive primitive;
  std::unordered_map<int, dnnl::memory> arguments;
  std::vector<Bytes> inputs;
  std::shared_ptr<std::vector<uint8_t>> out;
  DType dtype = DType::f32;
};
PeerCall call_of(Prepared prepared);

// Runs `make`; nullopt when oneDNN says that it has no such primitive.
template <class Make>
std::optional<PeerCall> if_implemented(Make make) {
  try {
    return make();
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
}

}  // namespace heddle::bench::onednn
