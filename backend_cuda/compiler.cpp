// The compiler of the CUDA backend: KernelSource -> CUDA C++ -> PTX or a cubin, by NVRTC, with the cache on disk.
#include <fmt/format.h>

#include "heddle/backend_cuda/nvrtc.h"
#include "heddle/core/base/cache_dir.h"
#include "heddle/core/contract/kernel_compiler.h"
#include "heddle/core/device/validate.h"
#include "heddle/core/dialect/printer.h"

namespace heddle {
namespace {

class CudaCompiler final : public KernelCompiler {
 public:
  KernelBinary compile(const KernelSource& source, const Caps& caps) const override {
    check_kernel(source, caps);
    KernelBinary made;
    made.signature = signature_of(source);
    made.kind = KernelBinary::Kind::cuda;
    const uint64_t shared = shared_bytes(source);
    if (shared > static_shared_bytes) made.dynamic_shared = static_cast<uint32_t>(shared);
    made.text = print(source, Target::cuda, print_options(caps));
    made.bytes = compile_text(made.text, source.name, caps);
    return made;
  }

  std::vector<uint8_t> compile_text(const std::string& text, const std::string& name, const Caps& caps) const override {
    const auto sm = static_cast<int>(caps.architecture);
    const std::string identity = fmt::format("sm_{}, nvrtc {}, no contraction{}\n{}", cuda::architecture_name(sm),
                                             cuda::nvrtc_version(), cuda::with_lines() ? ", lines" : "", text);
    const DiskCache cache("cuda", caps.driver_hash);
    if (auto known = cache.load(identity); known && !known->empty()) return std::move(*known);
    const std::string code = cuda::compile_module(text, name, sm);
    cache.store(identity, code.data(), code.size(), name);
    return {code.begin(), code.end()};
  }

  std::string absent() const override {
    std::string reason;
    cuda::have_nvrtc(&reason);
    return reason;
  }
  std::string version() const override { return cuda::nvrtc_version(); }
  std::vector<uint32_t> architectures() const override { return cuda::nvrtc_architectures(); }
};

}  // namespace

const KernelCompiler& cuda_compiler() {
  static const CudaCompiler compiler;
  return compiler;
}

}  // namespace heddle
