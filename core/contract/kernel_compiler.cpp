#include "heddle/core/contract/kernel_compiler.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"

namespace heddle {

std::vector<uint8_t> KernelCompiler::compile_text(const std::string& text, const std::string&, const Caps&) const {
  return {text.begin(), text.end()};
}

KernelBinary compile_kernel(const KernelSource& source, const Caps& caps) {
  if (const KernelCompiler* compiler = builtin_compiler(caps.target)) return compiler->compile(source, caps);
  throw CompileError(
      fmt::format("[compile] kernel {}: this program has no compiler for kernels in {}; give it an image "
                  "that holds compiled kernels, or link libheddle",
                  source.name, name_of(caps.target)),
      "");
}

}  // namespace heddle
