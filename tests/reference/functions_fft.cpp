// Fourier transforms and complex pairs.
#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

FftNorm norm(const Arguments& a) {
  const std::string name = a.text("norm", "backward");
  return name == "ortho" ? FftNorm::ortho : name == "forward" ? FftNorm::forward : FftNorm::backward;
}

template <class F>
Function transform(F f) {
  return one([f](Inputs in, const Arguments& a) {
    return f(in[0], FftOptions{.n = a.maybe_integer("n"), .axis = a.axis("axis"), .norm = norm(a)});
  });
}
template <class F>
Function transforms(F f) {
  return one([f](Inputs in, const Arguments& a) {
    return f(in[0], FftNOptions{.sizes = a.integers("sizes"), .axes = a.axes("axes"), .norm = norm(a)});
  });
}

StftOptions short_time(Inputs in, const Arguments& a) {
  StftOptions how{.hop = a.maybe_integer("hop"),
                  .length = a.maybe_integer("length"),
                  .window = {},
                  .center = a.flag("center", true),
                  .normalized = a.flag("normalized"),
                  .onesided = a.flag("onesided", true)};
  if (in.size() > 1) how.window = in[1];
  return how;
}

}  // namespace

void add_fft(Functions& t) {
#define HEDDLE_ADD(name) t[#name] = transform([](auto&&... a) { return name(a...); })
  HEDDLE_ADD(fft);
  HEDDLE_ADD(ifft);
  HEDDLE_ADD(rfft);
  HEDDLE_ADD(irfft);
  HEDDLE_ADD(hfft);
  HEDDLE_ADD(ihfft);
#undef HEDDLE_ADD
#define HEDDLE_ADD(name) t[#name] = transforms([](auto&&... a) { return name(a...); })
  HEDDLE_ADD(fft2);
  HEDDLE_ADD(ifft2);
  HEDDLE_ADD(rfft2);
  HEDDLE_ADD(irfft2);
  HEDDLE_ADD(fftn);
  HEDDLE_ADD(ifftn);
  HEDDLE_ADD(rfftn);
  HEDDLE_ADD(irfftn);
#undef HEDDLE_ADD
  t["fftshift"] = one([](Inputs in, const Arguments& a) { return fftshift(in[0], a.axes("axes")); });
  t["ifftshift"] = one([](Inputs in, const Arguments& a) { return ifftshift(in[0], a.axes("axes")); });
  t["complex_pair"] = one([](Inputs in, const Arguments&) { return complex_pair(in[0], in[1]); });
  t["complex_mul"] = one([](Inputs in, const Arguments&) { return complex_mul(in[0], in[1]); });
  t["polar"] = one([](Inputs in, const Arguments&) { return polar(in[0], in[1]); });
  t["real_part"] = one([](Inputs in, const Arguments&) { return real_part(in[0]); });
  t["imaginary_part"] = one([](Inputs in, const Arguments&) { return imaginary_part(in[0]); });
  t["complex_conj"] = one([](Inputs in, const Arguments&) { return complex_conj(in[0]); });
  t["complex_abs"] = one([](Inputs in, const Arguments&) { return complex_abs(in[0]); });
  t["complex_angle"] = one([](Inputs in, const Arguments&) { return complex_angle(in[0]); });
  t["stft"] = one([](Inputs in, const Arguments& a) { return stft(in[0], a.integer("n"), short_time(in, a)); });
  t["istft"] = one([](Inputs in, const Arguments& a) {
    return istft(in[0], a.integer("n"), short_time(in, a), a.maybe_integer("samples"));
  });
}

}  // namespace heddle::tests
