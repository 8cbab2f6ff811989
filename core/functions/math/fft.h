// Discrete Fourier transforms, and what goes with them: windows, short-time transforms.
//
// Purpose: torch.fft without complex dtypes. Complex numbers are pairs (complex.h); axes of transforms count the
// others, so that axis -1 is the last one before the pair. Integers are cast to f32; f16 and bf16 are computed in f32.
// How: in f32 on devices with kernels, Stockham's algorithm for lengths whose prime factors are at most 31 (one launch,
// or two for long ones), Bluestein's convolution for others, half the work for reals of an even length that fits one
// launch (fft_transform.h); in f64 and on the reference device, products with matrices of roots of unity
// (fft_products.h). Gradients of any order, vmap and forward mode are those of transforms. Roots are exact to half a
// unit of the tensor's last place; the error grows as log n (tests/reference). Errors: ShapeError, DTypeError,
// ValueError. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle {

// ---- transforms. forward: sum over j of x[j] exp(-2 pi i j k / n). The factor 1 / n is on the inverse (backward, the
// default), on the forward one (forward), or its root on both (ortho).
enum class FftNorm { backward, ortho, forward };
struct FftOptions {
  std::optional<int64_t>
      n;  // length: the axis is cut or padded with zeros; of irfft and hfft that of the result, 2 (m - 1) by default
  int axis = -1;
  FftNorm norm = FftNorm::backward;
};
Tensor fft(const Tensor& z, const FftOptions& options = {},
           Caller caller = Caller::current());  // (..., n, 2) to (..., n, 2)
Tensor ifft(const Tensor& z, const FftOptions& options = {}, Caller caller = Caller::current());
Tensor rfft(const Tensor& x, const FftOptions& options = {},
            Caller caller = Caller::current());  // real (..., n) to (..., n / 2 + 1, 2)
Tensor irfft(const Tensor& z, const FftOptions& options = {},
             Caller caller =
                 Caller::current());  // back; the imaginary parts of the first and (n even) last element do not count
Tensor hfft(const Tensor& z, const FftOptions& options = {},
            Caller caller = Caller::current());  // of a signal that is Hermitian in time: real
Tensor ihfft(const Tensor& x, const FftOptions& options = {}, Caller caller = Caller::current());

struct FftNOptions {
  std::vector<int64_t> sizes;  // one for each axis; empty: as they are
  std::vector<int>
      axes;  // empty: the last two (fft2 and its kind), all (fftn and its kind) or as many last ones as there are sizes
  FftNorm norm = FftNorm::backward;
};
Tensor fft2(const Tensor& z, const FftNOptions& options = {}, Caller caller = Caller::current());
Tensor ifft2(const Tensor& z, const FftNOptions& options = {}, Caller caller = Caller::current());
Tensor rfft2(const Tensor& x, const FftNOptions& options = {},
             Caller caller = Caller::current());  // the last of the axes is halved
Tensor irfft2(const Tensor& z, const FftNOptions& options = {}, Caller caller = Caller::current());
Tensor fftn(const Tensor& z, const FftNOptions& options = {}, Caller caller = Caller::current());
Tensor ifftn(const Tensor& z, const FftNOptions& options = {}, Caller caller = Caller::current());
Tensor rfftn(const Tensor& x, const FftNOptions& options = {}, Caller caller = Caller::current());
Tensor irfftn(const Tensor& z, const FftNOptions& options = {}, Caller caller = Caller::current());

Tensor fftfreq(int64_t n, double spacing = 1, DeviceContext* device = nullptr,
               Caller caller = Caller::current());  // f32: 0, 1, ..., -2, -1 over n spacing
Tensor rfftfreq(int64_t n, double spacing = 1, DeviceContext* device = nullptr,
                Caller caller = Caller::current());  // 0, 1, ..., n / 2 over n spacing
// Frequency 0 to the middle, and back. Axes count those of x as it is; empty: all (so name the axes of a complex
// tensor).
Tensor fftshift(const Tensor& x, std::vector<int> axes = {}, Caller caller = Caller::current());
Tensor ifftshift(const Tensor& x, std::vector<int> axes = {}, Caller caller = Caller::current());

// ---- windows, f32 (n). Periodic (for spectra) or symmetric (for filters).
Tensor hann_window(int64_t n, bool periodic = true, DeviceContext* device = nullptr, Caller caller = Caller::current());
Tensor hamming_window(int64_t n, bool periodic = true, DeviceContext* device = nullptr,
                      Caller caller = Caller::current());
Tensor blackman_window(int64_t n, bool periodic = true, DeviceContext* device = nullptr,
                       Caller caller = Caller::current());
Tensor bartlett_window(int64_t n, bool periodic = true, DeviceContext* device = nullptr,
                       Caller caller = Caller::current());

struct StftOptions {
  std::optional<int64_t> hop;     // n / 4
  std::optional<int64_t> length;  // of the window, n by default; shorter ones are centred
  Tensor window;                  // (length); undefined: ones
  bool center = true;             // the signal is reflected by n / 2 at both ends
  bool normalized = false;        // divided by sqrt(n)
  bool onesided = true;           // n / 2 + 1 frequencies
};
// Spectra of windows of n samples: (T) or (B, T) real to (..., frequencies, frames, 2). torch.stft.
Tensor stft(const Tensor& x, int64_t n, const StftOptions& options = {}, Caller caller = Caller::current());
// The signal of least squares: windowed inverse transforms, added up and divided by the sum of squared windows.
// `samples`: of the result. torch.istft. Griffin and Lim, 1984.
Tensor istft(const Tensor& z, int64_t n, const StftOptions& options = {}, std::optional<int64_t> samples = {},
             Caller caller = Caller::current());

}  // namespace heddle
