// Disassembly -> Listing, one parser a vendor.
//
// Invariants: every line that is an instruction becomes one; what is not understood is Unit::vector and counts. Errors:
// ValueError for a text without instructions. Thread safety: pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "tools/certify/listing.h"

namespace heddle::tools::certify {

// nvdisasm's, of a cubin with one kernel; subgroups of 32 lanes.
Listing parse_sass(std::string_view text);
// The text of RADV's VK_KHR_pipeline_executable_properties: GCN and RDNA, in LLVM's spelling.
Listing parse_gcn(std::string_view text, uint32_t lanes);
// IGC's .asm (IGC_ShaderDumpEnable=1): Gen and Xe.
Listing parse_gen(std::string_view text);

}  // namespace heddle::tools::certify
