// CLBlast's gemm on the first OpenCL device, with data on the device: the portable peer.
#define CL_TARGET_OPENCL_VERSION 120
#include <clblast_c.h>

#include "bench/peers/peers.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/driver_probe.h"

namespace heddle::bench::clblast {
namespace {

struct Queue {
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
};

// Null when there is no device.
Queue* queue() {
  static Queue instance = [] {
    Queue q;
    cl_platform_id platform = nullptr;
    cl_device_id device = nullptr;
    cl_int error = CL_SUCCESS;
    if (!driver_fault("opencl").empty()) return q;
    if (clGetPlatformIDs(1, &platform, nullptr) != CL_SUCCESS) return q;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) != CL_SUCCESS) return q;
    q.context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
    if (error == CL_SUCCESS) q.queue = clCreateCommandQueue(q.context, device, 0, &error);
    return q;
  }();
  return instance.queue == nullptr ? nullptr : &instance;
}

void check(cl_int code, const char* what) {
  if (code != CL_SUCCESS)
    throw DeviceError(std::string("[bench] clblast: ") + what + " failed with code " + std::to_string(code));
}

class ClBuffer {
 public:
  ClBuffer(Queue& q, size_t bytes, const void* data) {
    cl_int error = CL_SUCCESS;
    memory_ = clCreateBuffer(q.context, CL_MEM_READ_WRITE | (data != nullptr ? CL_MEM_COPY_HOST_PTR : 0), bytes,
                             const_cast<void*>(data), &error);
    check(error, "clCreateBuffer");
  }
  ~ClBuffer() {
    if (memory_ != nullptr) clReleaseMemObject(memory_);
  }
  ClBuffer(const ClBuffer&) = delete;
  ClBuffer& operator=(const ClBuffer&) = delete;
  cl_mem get() const { return memory_; }

 private:
  cl_mem memory_ = nullptr;
};

}  // namespace

std::optional<PeerCall> matmul(const MatmulShape& s, Bytes a, Bytes b) {
  Queue* q = queue();
  if (q == nullptr || s.dtype != DType::f32) return std::nullopt;
  const size_t count = static_cast<size_t>(s.batch * s.m * s.n);
  auto da = std::make_shared<ClBuffer>(*q, a->size(), a->data()),
       db = std::make_shared<ClBuffer>(*q, b->size(), b->data()),
       dc = std::make_shared<ClBuffer>(*q, count * sizeof(float), nullptr);
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  const auto call = [=] {
    const CLBlastTranspose ta = s.transpose_a ? CLBlastTransposeYes : CLBlastTransposeNo,
                           tb = s.transpose_b ? CLBlastTransposeYes : CLBlastTransposeNo;
    const size_t lda = size(s.transpose_a ? s.m : s.k), ldb = size(s.transpose_b ? s.k : s.n), ldc = size(s.n);
    CLBlastStatusCode code;
    if (s.batch == 1) {
      code = CLBlastSgemm(CLBlastLayoutRowMajor, ta, tb, size(s.m), size(s.n), size(s.k), 1.0f, da->get(), 0, lda,
                          db->get(), 0, ldb, 0.0f, dc->get(), 0, ldc, &q->queue, nullptr);
    } else {
      code = CLBlastSgemmStridedBatched(CLBlastLayoutRowMajor, ta, tb, size(s.m), size(s.n), size(s.k), 1.0f, da->get(),
                                        0, lda, size(s.m * s.k), db->get(), 0, ldb, size(s.k * s.n), 0.0f, dc->get(), 0,
                                        ldc, size(s.m * s.n), size(s.batch), &q->queue, nullptr);
    }
    check(code, "gemm");
    check(clFinish(q->queue), "clFinish");
  };
  return PeerCall{"clblast", call, [=] {
                    std::vector<float> values(count);
                    check(clEnqueueReadBuffer(q->queue, dc->get(), CL_TRUE, 0, count * sizeof(float), values.data(), 0,
                                              nullptr, nullptr),
                          "clEnqueueReadBuffer");
                    return values;
                  }};
}

}  // namespace heddle::bench::clblast
