#include "heddle/core/inspect/kernel_facts.h"

namespace heddle {

bool KernelFacts::same_as(const KernelFacts& o) const {
  return source == o.source && name == o.name && read_bytes == o.read_bytes && written_bytes == o.written_bytes &&
         flops == o.flops && ops == o.ops && lines == o.lines;
}

}  // namespace heddle
