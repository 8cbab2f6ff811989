// AMD's machine code as RADV prints it: "v_fmac_f32_e32 v1, v2, v3 ; 5602...", labels "BB12:", branches "s_cbranch_scc1
// BB12". One line may hold two instructions that issue together (RDNA 3): "v_dual_fmac_f32 ... :: v_dual_fmac_f32 ...".
#include <array>

#include "tools/certify/isa.h"
#include "tools/certify/lines.h"

namespace heddle::tools::certify {
namespace {

// Multiply-adds of a lane: 0 where the opcode is none. Integer multiply-adds compute addresses.
double multiply_adds(std::string_view opcode) {
  if (begins(opcode, "v_pk_fma")) return 2;
  if (begins(opcode, "v_dot2")) return 2;
  if (begins(opcode, "v_dot4")) return 4;
  if (begins(opcode, "v_dot8")) return 8;
  for (const std::string_view name : {"v_fma", "v_fmac", "v_fmaak", "v_fmamk", "v_mac", "v_mad", "v_dual_fma"}) {
    if (begins(opcode, name) && (contains(opcode, "_f32") || contains(opcode, "_f16") || contains(opcode, "_f64")))
      return 1;
  }
  return 0;
}

double gcn_bytes(std::string_view opcode) {
  constexpr std::array<std::pair<std::string_view, double>, 12> widths = {{{"b128", 16},
                                                                           {"b96", 12},
                                                                           {"b64", 8},
                                                                           {"x4", 16},
                                                                           {"x3", 12},
                                                                           {"x2", 8},
                                                                           {"xyzw", 16},
                                                                           {"ubyte", 1},
                                                                           {"_u8", 1},
                                                                           {"byte", 1},
                                                                           {"short", 2},
                                                                           {"16", 2}}};
  for (const auto& [name, bytes] : widths) {
    if (contains(opcode, name)) return bytes * (begins(opcode, "ds_") && contains(opcode, "2_b") ? 2 : 1);
  }
  return begins(opcode, "ds_") && contains(opcode, "2_b") ? 8 : 4;
}

Instruction classify(std::string_view opcode, std::string_view operands, double lanes) {
  Instruction i{Unit::vector, std::string(opcode), lanes, {}};
  const auto set = [&](Unit unit, double amount) {
    i.unit = unit;
    i.amount = amount;
    return i;
  };
  if (begins(opcode, "v_wmma")) return set(Unit::matrix, 16 * 16 * 16);
  if (const double each = multiply_adds(opcode); each > 0) {
    const size_t pair = operands.find("::");
    if (pair == std::string_view::npos) return set(Unit::fma, each * lanes);
    std::string_view second = operands.substr(pair + 2);
    return set(Unit::fma, (each + multiply_adds(take_word(second))) * lanes);
  }
  if (const size_t pair = operands.find("::"); pair != std::string_view::npos) {
    std::string_view second = operands.substr(pair + 2);
    if (const double each = multiply_adds(take_word(second)); each > 0) return set(Unit::fma, each * lanes);
  }
  if (begins(opcode, "v_")) return i;
  if (begins(opcode, "ds_")) return set(Unit::shared, lanes * gcn_bytes(opcode));
  if (begins(opcode, "scratch_")) return set(Unit::scratch, lanes * gcn_bytes(opcode));
  for (const std::string_view name : {"buffer_", "global_", "flat_", "tbuffer_", "image_"}) {
    if (begins(opcode, name)) return set(Unit::memory, lanes * gcn_bytes(opcode));
  }
  if (begins(opcode, "s_barrier")) return set(Unit::barrier, 0);
  if (begins(opcode, "s_branch") || begins(opcode, "s_cbranch") || begins(opcode, "s_endpgm"))
    return set(Unit::branch, 0);
  for (const std::string_view name :
       {"s_waitcnt", "s_nop", "s_clause", "s_delay_alu", "s_inst_prefetch", "s_code_end", "s_sleep"}) {
    if (begins(opcode, name)) return set(Unit::none, 0);
  }
  return set(Unit::scalar, 0);
}

}  // namespace

Listing parse_gcn(std::string_view text, uint32_t lanes) {
  Listing listing;
  Labels labels;
  for_each_line(text, [&](std::string_view line) {
    if (begins(line, "BB") && line.ends_with(":"))
      return labels.define(line.substr(0, line.size() - 1), listing.size());
    line = trim(line.substr(0, line.find(';')));
    if (line.empty() || line[0] < 'a' || line[0] > 'z' || !contains(line.substr(0, line.find(' ')), "_")) return;
    std::string_view operands = line;
    const std::string_view opcode = take_word(operands);
    listing.push_back(classify(opcode, operands, lanes));
    operands = trim(operands);
    if (listing.back().unit == Unit::branch && begins(operands, "BB")) labels.use(operands, listing.size() - 1);
  });
  labels.resolve(listing);
  require_instructions(listing, "RADV");
  return listing;
}

}  // namespace heddle::tools::certify
