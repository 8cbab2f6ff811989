// cuBLAS's gemm on the first CUDA device, with data on the device: NVIDIA's own peer. Both libraries are opened when a
// benchmark asks for the peer, so that no build needs them; the few declarations used here are copied from their
// headers. (cuBLAS is no candidate of Heddle's own matmul: a device takes kernels in the dialect and nothing else, so a
// library call could neither be recorded with other commands nor take an epilogue.)
#include "bench/peers/peers.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/system/library.h"

namespace heddle::bench::cublas {
namespace {

using Handle = void*;
constexpr int op_n = 0, op_t = 1, gemm_default = -1, compute_f32 = 68, type_f32 = 0, type_f16 = 2, type_bf16 = 14;
using Memory = unsigned long long;

struct Api {
  int (*init)(unsigned) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*retain)(void**, int) = nullptr;
  int (*activate)(void*) = nullptr;
  int (*synchronize)() = nullptr;
  int (*alloc)(Memory*, size_t) = nullptr;
  int (*free)(Memory) = nullptr;
  int (*upload)(Memory, const void*, size_t) = nullptr;
  int (*download)(void*, Memory, size_t) = nullptr;
  int (*create)(Handle*) = nullptr;
  int (*gemm)(Handle, int, int, int, int, int, const void*, const void*, int, int, long long, const void*, int, int,
              long long, const void*, void*, int, int, long long, int, int, int) = nullptr;
  void* context = nullptr;
  Handle handle = nullptr;
};

template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(os::find_symbol(library, name));
  return function != nullptr;
}

// By the system's own search, or in a toolkit's folder.
void* open_cublas() {
  void* blas = os::open_library(os::Vendor::cublas);
  for (const std::string& folder : os::toolkit_folders()) {
    for (const os::LibraryName& name : os::names_of(os::Vendor::cublas)) {
      if (blas == nullptr) blas = os::open_library(folder + name.name);
    }
  }
  return blas;
}

// Null where a library or a device is missing.
const Api* api() {
  static const Api* const instance = []() -> const Api* {
    void* driver = os::open_library(os::Vendor::cuda);
    void* blas = driver != nullptr ? open_cublas() : nullptr;
    if (blas == nullptr) return nullptr;
    static Api a;
    const bool found = find(driver, "cuInit", a.init) && find(driver, "cuDeviceGet", a.device) &&
                       find(driver, "cuDevicePrimaryCtxRetain", a.retain) &&
                       find(driver, "cuCtxSetCurrent", a.activate) && find(driver, "cuCtxSynchronize", a.synchronize) &&
                       find(driver, "cuMemAlloc_v2", a.alloc) && find(driver, "cuMemFree_v2", a.free) &&
                       find(driver, "cuMemcpyHtoD_v2", a.upload) && find(driver, "cuMemcpyDtoH_v2", a.download) &&
                       find(blas, "cublasCreate_v2", a.create) && find(blas, "cublasGemmStridedBatchedEx", a.gemm);
    int device = 0;
    if (!found || a.init(0) != 0 || a.device(&device, 0) != 0 || a.retain(&a.context, device) != 0 ||
        a.activate(a.context) != 0)
      return nullptr;
    return a.create(&a.handle) == 0 ? &a : nullptr;
  }();
  return instance;
}

void check(int code, const char* what) {
  if (code != 0)
    throw DeviceError(std::string("[bench] cublas: ") + what + " failed with code " + std::to_string(code));
}

class CudaBuffer {
 public:
  CudaBuffer(const Api& a, size_t bytes, const void* data) : api_(a) {
    check(api_.activate(api_.context), "cuCtxSetCurrent");
    check(api_.alloc(&memory_, bytes), "cuMemAlloc");
    if (data != nullptr) check(api_.upload(memory_, data, bytes), "cuMemcpyHtoD");
  }
  ~CudaBuffer() {
    api_.activate(api_.context);
    api_.free(memory_);
  }
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;
  Memory address() const { return memory_; }
  void* get() const { return reinterpret_cast<void*>(memory_); }

 private:
  const Api& api_;
  Memory memory_ = 0;
};

}  // namespace

std::optional<PeerCall> matmul(const MatmulShape& s, Bytes a, Bytes b) {
  const Api* lib = api();
  const int type = s.dtype == DType::f32    ? type_f32
                   : s.dtype == DType::f16  ? type_f16
                   : s.dtype == DType::bf16 ? type_bf16
                                            : -1;
  if (lib == nullptr || type < 0) return std::nullopt;
  const size_t count = static_cast<size_t>(s.batch * s.m * s.n);
  auto da = std::make_shared<CudaBuffer>(*lib, a->size(), a->data()),
       db = std::make_shared<CudaBuffer>(*lib, b->size(), b->data()),
       dc = std::make_shared<CudaBuffer>(*lib, count * size_of(s.dtype), nullptr);
  const auto call = [=] {
    // Column-major: c^T = op(b)^T op(a)^T.
    const float one = 1, zero = 0;
    const int m = static_cast<int>(s.m), n = static_cast<int>(s.n), k = static_cast<int>(s.k);
    check(lib->activate(lib->context), "cuCtxSetCurrent");
    check(lib->gemm(lib->handle, s.transpose_b ? op_t : op_n, s.transpose_a ? op_t : op_n, n, m, k, &one, db->get(),
                    type, s.transpose_b ? k : n, static_cast<long long>(s.k * s.n), da->get(), type,
                    s.transpose_a ? m : k, static_cast<long long>(s.m * s.k), &zero, dc->get(), type, n,
                    static_cast<long long>(s.m * s.n), static_cast<int>(s.batch), compute_f32, gemm_default),
          "cublasGemmStridedBatchedEx");
    check(lib->synchronize(), "cuCtxSynchronize");
  };
  return PeerCall{"cublas", call, [=] {
                    std::vector<uint8_t> bytes(count * size_of(s.dtype));
                    check(lib->download(bytes.data(), dc->address(), bytes.size()), "cuMemcpyDtoH");
                    return floats_of(bytes, s.dtype);
                  }};
}

}  // namespace heddle::bench::cublas
