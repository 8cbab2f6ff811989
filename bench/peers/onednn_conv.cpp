// oneDNN's direct convolution and its two gradients, in the formats that it asks for; inputs are reordered here, once.
#include <unordered_map>

#include "bench/peers/onednn_common.h"

namespace heddle::bench::onednn {
namespace {

using dnnl::memory;

constexpr auto f32 = memory::data_type::f32;

Desc plain(const memory::dims& dims) {
  return Desc(dims, f32, dims.size() == 5 ? memory::format_tag::abcde : memory::format_tag::abcd);
}
Desc any(const memory::dims& dims) { return Desc(dims, f32, memory::format_tag::any); }

memory reordered(const Desc& to, const memory::dims& dims, const Bytes& bytes) {
  memory from = memory_of(plain(dims), bytes), result(to, engine());
  dnnl::reorder(from, result).execute(stream(), from, result);
  stream().wait();
  return result;
}

struct Call {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> arguments;
  memory out;
  memory::dims dims;  // of out
};

PeerCall call_of(Call call) {
  auto kept = std::make_shared<Call>(std::move(call));
  return {"onednn",
          [kept] {
            kept->primitive.execute(stream(), kept->arguments);
            stream().wait();
          },
          [kept] {
            memory dense(plain(kept->dims), engine());
            dnnl::reorder(kept->out, dense).execute(stream(), kept->out, dense);
            stream().wait();
            const auto* values = static_cast<const float*>(dense.get_data_handle());
            return std::vector<float>(values, values + dense.get_desc().get_size() / sizeof(float));
          }};
}

}  // namespace

std::optional<PeerCall> conv(const ConvShape& s, Bytes a, Bytes b) {
  return if_implemented([&]() -> PeerCall {
    const memory::dims x{s.n, s.c, s.h, s.w}, y{s.n, s.o, s.out_h(), s.out_w()};
    memory::dims w{s.o, s.c / s.groups, s.kernel, s.kernel};
    if (s.groups > 1) w = {s.groups, s.o / s.groups, s.c / s.groups, s.kernel, s.kernel};
    const memory::dims stride{s.stride, s.stride}, padding{s.padding, s.padding};
    const auto direct = dnnl::algorithm::convolution_direct;
    const auto forward = described<dnnl::convolution_forward>(engine(), dnnl::prop_kind::forward_training, direct,
                                                              any(x), any(w), any(y), stride, padding, padding);
    if (s.pass == 'x') {
      const auto pd = described_backward<dnnl::convolution_backward_data>(engine(), forward, direct, any(x), any(w),
                                                                          any(y), stride, padding, padding);
      const memory out(pd.diff_src_desc(), engine());
      return call_of({dnnl::convolution_backward_data(pd),
                      {{DNNL_ARG_DIFF_DST, reordered(pd.diff_dst_desc(), y, a)},
                       {DNNL_ARG_WEIGHTS, reordered(pd.weights_desc(), w, b)},
                       {DNNL_ARG_DIFF_SRC, out}},
                      out,
                      x});
    }
    if (s.pass == 'w') {
      const auto pd = described_backward<dnnl::convolution_backward_weights>(engine(), forward, direct, any(x), any(w),
                                                                             any(y), stride, padding, padding);
      const memory out(pd.diff_weights_desc(), engine());
      return call_of({dnnl::convolution_backward_weights(pd),
                      {{DNNL_ARG_SRC, reordered(pd.src_desc(), x, a)},
                       {DNNL_ARG_DIFF_DST, reordered(pd.diff_dst_desc(), y, b)},
                       {DNNL_ARG_DIFF_WEIGHTS, out}},
                      out,
                      w});
    }
    const memory out(forward.dst_desc(), engine());
    return call_of({dnnl::convolution_forward(forward),
                    {{DNNL_ARG_SRC, reordered(forward.src_desc(), x, a)},
                     {DNNL_ARG_WEIGHTS, reordered(forward.weights_desc(), w, b)},
                     {DNNL_ARG_DST, out}},
                    out,
                    y});
  });
}

}  // namespace heddle::bench::onednn
