// NVIDIA's machine code as nvdisasm prints it: "/*0010*/ @!P0 FFMA R1, R2, R3, R1 ;", labels ".L_x_1:", branches to
// "`(.L_x_1)".
#include <array>

#include "tools/certify/isa.h"
#include "tools/certify/lines.h"

namespace heddle::tools::certify {
namespace {

constexpr double lanes = 32;

// "HGMMA.64x256x16.F32" -> a quarter of 64 * 256 * 16, since four warps issue one; 0 where it is no such instruction.
double warpgroup_amount(std::string_view opcode) {
  const size_t at = opcode.find(".64x");
  if (at == std::string_view::npos) return 0;
  double n = 0, k = 0;
  size_t i = at + 4;
  for (; i < opcode.size() && opcode[i] >= '0' && opcode[i] <= '9'; ++i) n = 10 * n + (opcode[i] - '0');
  for (++i; i < opcode.size() && opcode[i] >= '0' && opcode[i] <= '9'; ++i) k = 10 * k + (opcode[i] - '0');
  return 16 * n * k;
}

// "HMMA.16816.F32" -> 16 * 8 * 16 multiply-adds; 0 where the shape has another form.
double matrix_amount(std::string_view opcode) {
  struct Shape {
    std::string_view name;
    double amount;
  };
  constexpr std::array shapes = {Shape{".16816", 16 * 8 * 16}, Shape{".16832", 16 * 8 * 32}, Shape{".1688", 16 * 8 * 8},
                                 Shape{".1684", 16 * 8 * 4},   Shape{".8816", 8 * 8 * 16},   Shape{".884", 8 * 8 * 4}};
  for (const Shape& shape : shapes) {
    if (opcode.find(shape.name) != std::string_view::npos) return shape.amount;
  }
  return warpgroup_amount(opcode);
}

// Bytes that a lane loads or stores: 4 unless the opcode says another width.
double sass_bytes(std::string_view opcode) {
  constexpr std::array<std::pair<std::string_view, double>, 6> widths = {
      {{".128", 16}, {".64", 8}, {".U8", 1}, {".S8", 1}, {".U16", 2}, {".S16", 2}}};
  for (const auto& [name, bytes] : widths) {
    if (opcode.find(name) != std::string_view::npos) return bytes;
  }
  return 4;
}

// Constants are made by multiply-adds of zeros: "HFMA2.MMA R4, -RZ, RZ, 0, 0".
bool makes_constant(std::string_view operands) { return operands.find("RZ, RZ") != std::string_view::npos; }

Instruction classify(std::string_view opcode, std::string_view operands) {
  Instruction i{Unit::vector, std::string(opcode), lanes, {}};
  const auto is = [&](std::string_view name) { return begins(opcode, name); };
  const auto set = [&](Unit unit, double amount) {
    i.unit = unit;
    i.amount = amount;
    return i;
  };
  if (is("HMMA") || is("HGMMA") || is("IMMA") || is("IGMMA") || is("DMMA") || is("QGMMA") || is("QMMA"))
    return set(Unit::matrix, matrix_amount(opcode));
  if (is("FFMA2")) return set(Unit::fma, 2 * lanes);
  if (is("FFMA") || is("DFMA")) return makes_constant(operands) ? i : set(Unit::fma, lanes);
  if (is("HFMA2")) return makes_constant(operands) ? i : set(Unit::fma, 2 * lanes);
  if (is("IDP")) return set(Unit::fma, 4 * lanes);
  if (is("LDSM")) return set(Unit::shared, lanes * (opcode.ends_with(".4") ? 16 : opcode.ends_with(".2") ? 8 : 4));
  if (is("LDS") || is("STS") || is("ATOMS")) return set(Unit::shared, lanes * sass_bytes(opcode));
  if (is("LDL") || is("STL")) return set(Unit::scratch, lanes * sass_bytes(opcode));
  if (is("LDG") || is("STG") || is("LD.") || is("ST.") || is("ATOM") || is("RED") || is("UTMA"))
    return set(Unit::memory, lanes * sass_bytes(opcode));
  if (is("LDGDEPBAR") || is("DEPBAR") || is("NOP")) return set(Unit::none, 0);
  if (is("BAR") || is("WARPSYNC") || is("MEMBAR")) return set(Unit::barrier, 0);
  if (is("BRA") || is("EXIT") || is("BRX") || is("CALL") || is("RET") || is("JMP")) return set(Unit::branch, 0);
  if (opcode[0] == 'U' && opcode != "UNDEF") return set(Unit::scalar, 0);
  return i;
}

// "/*0010*/" and predicates go; false where nothing is left of the line that is an instruction.
bool take_prefix(std::string_view& line) {
  if (!begins(line, "/*")) return false;
  const size_t end = line.find("*/");
  if (end == std::string_view::npos || end < 6) return false;
  line = trim(line.substr(end + 2));
  if (begins(line, "{")) line = trim(line.substr(1));
  if (begins(line, "@")) take_word(line);
  line = trim(line);
  return !line.empty() && !begins(line, "/*") && line[0] >= 'A' && line[0] <= 'Z';
}

}  // namespace

Listing parse_sass(std::string_view text) {
  Listing listing;
  Labels labels;
  for_each_line(text, [&](std::string_view line) {
    if (begins(line, ".L_") && line.ends_with(":"))
      return labels.define(line.substr(0, line.size() - 1), listing.size());
    if (!take_prefix(line)) return;
    const std::string_view whole = line.substr(0, line.find(';'));
    std::string_view operands = whole;
    const std::string_view opcode = take_word(operands);
    listing.push_back(classify(opcode, operands));
    if (const size_t at = operands.find("`("); begins(opcode, "BRA") && at != std::string_view::npos)
      labels.use(operands.substr(at + 2, operands.find(')', at) - at - 2), listing.size() - 1);
  });
  labels.resolve(listing);
  require_instructions(listing, "nvdisasm");
  // The list ends with padding: NOPs behind a branch to itself.
  while (!listing.empty() && listing.back().opcode == "NOP") listing.pop_back();
  return listing;
}

}  // namespace heddle::tools::certify
