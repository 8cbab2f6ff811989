#include "bench/peers/onednn_common.h"

namespace heddle::bench::onednn {

dnnl::engine& engine() {
  static dnnl::engine instance(dnnl::engine::kind::cpu, 0);
  return instance;
}

dnnl::stream& stream() {
  static dnnl::stream instance(engine());
  return instance;
}

std::optional<dnnl::memory::data_type> data_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return dnnl::memory::data_type::f32;
    case DType::bf16:
      return dnnl::memory::data_type::bf16;
    case DType::f16:
      return dnnl::memory::data_type::f16;
    default:
      return std::nullopt;
  }
}

dnnl::memory memory_of(const Desc& desc, const Bytes& bytes) {
  return dnnl::memory(desc, engine(), const_cast<uint8_t*>(bytes->data()));
}

PeerCall call_of(Prepared prepared) {
  auto kept = std::make_shared<Prepared>(std::move(prepared));
  return {"onednn",
          [kept] {
            kept->primitive.execute(stream(), kept->arguments);
            stream().wait();
          },
          [kept] { return floats_of(*kept->out, kept->dtype); }};
}

}  // namespace heddle::bench::onednn
