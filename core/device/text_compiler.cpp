#include "heddle/core/device/text_compiler.h"

#include "heddle/core/device/validate.h"
#include "heddle/core/dialect/printer.h"

namespace heddle {
namespace {

class TextCompiler final : public KernelCompiler {
 public:
  KernelBinary compile(const KernelSource& source, const Caps& caps) const override {
    check_kernel(source, caps);
    KernelBinary made;
    made.signature = signature_of(source);
    made.kind = KernelBinary::Kind::opencl_c;
    const std::string text = print(source, Target::opencl, print_options(caps));
    made.bytes.assign(text.begin(), text.end());
    return made;
  }
};

}  // namespace

const KernelCompiler& text_compiler() {
  static const TextCompiler compiler;
  return compiler;
}

}  // namespace heddle
