// Intel's machine code as IGC dumps it: "(W&f0.0) mad (16|M0) r3.0<1>:f r3.0<8;1>:f r5.0<8;1>:f r7.0<0>:f {A@1} // $9",
// labels "_0_056:" and "L2048:", branches "while (16|M0) _0_056", "goto (16|M0) _0_093 _0_093", "jmpi _0_069".
#include <algorithm>

#include "heddle/core/base/parse_number.h"
#include "tools/certify/isa.h"
#include "tools/certify/lines.h"

namespace heddle::tools::certify {
namespace {

// "(16|M0)" -> 16; 1 where the instruction says no width.
double lanes_of(std::string_view operands) {
  const size_t open = operands.find('('), bar = operands.find("|M");
  if (open == std::string_view::npos || bar == std::string_view::npos || bar < open) return 1;
  const auto lanes = parse_number<int>(std::string(trim(operands.substr(open + 1, bar - open - 1))));
  return lanes ? *lanes : 1;
}

// The type of the destination: the first word that ends with ":f" and its like.
bool floating(std::string_view operands) {
  const size_t colon = operands.find(">:");
  if (colon == std::string_view::npos) return false;
  std::string_view type = operands.substr(colon + 2);
  type = type.substr(0, type.find_first_of(" \t"));
  return type == "f" || type == "hf" || type == "df" || type == "bf";
}

// "dpas.8x8": depth of the systolic array and repeats, of two f16 each.
double systolic_amount(std::string_view opcode, double lanes) {
  const size_t dot = opcode.find('.'), times = opcode.find('x', dot);
  if (dot == std::string_view::npos || times == std::string_view::npos) return lanes * 128;
  const auto depth = parse_number<int>(std::string(opcode.substr(dot + 1, times - dot - 1)));
  const auto repeat = parse_number<int>(std::string(opcode.substr(times + 1)));
  return depth && repeat ? lanes * 2 * *depth * *repeat : lanes * 128;
}

// Bytes of a lane: ".d32x4", ".d64", or of older messages a letter for each word, "surface read with xyzw"; 4 where the
// message does not say.
double message_bytes(std::string_view opcode, std::string_view line) {
  const size_t at = opcode.find(".d");
  if (at == std::string_view::npos) {
    const size_t with = line.find(" with ");
    if (with == std::string_view::npos) return 4;
    const std::string_view channels = line.substr(with + 6);
    return 4.0 *
           static_cast<double>(std::max<size_t>(1, std::min(channels.find_first_not_of("xyzw"), channels.size())));
  }
  std::string_view text = opcode.substr(at + 2);
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto bits = parse_number<int>(std::string(text.substr(0, end)));
  double count = 1;
  if (end < text.size() && text[end] == 'x') {
    const std::string_view times = text.substr(end + 1);
    const auto value = parse_number<int>(std::string(times.substr(0, times.find_first_not_of("0123456789"))));
    if (value) count = *value;
  }
  return bits ? *bits / 8.0 * count : 4;
}

// The binding table's entry of shared memory stands in the descriptor of older messages: 0x02026EFE.
bool names_shared_memory(std::string_view line) {
  const size_t comment = line.find("//");
  const std::string_view code = trim(line.substr(0, comment));
  const std::string_view last = code.substr(code.find_last_of(" \t") + 1);
  return contains(line, "surface") && last.ends_with("FE");
}

// What a message is for stands in its name (lsc), in its descriptor or in the comment behind it.
Unit message_unit(std::string_view opcode, std::string_view line) {
  if (contains(line, "barrier") || contains(line, "fence")) return Unit::barrier;
  if (contains(line, "end of thread") || contains(line, "EOT")) return Unit::branch;
  if (contains(opcode, ".slm") || contains(line, "SLM") || contains(line, "slm") || names_shared_memory(line))
    return Unit::shared;
  if (contains(line, "scratch") || contains(line, "spill") || contains(line, "fill")) return Unit::scratch;
  return Unit::memory;
}

Instruction classify(std::string_view opcode, std::string_view operands, std::string_view line) {
  const double lanes = lanes_of(operands);
  Instruction i{Unit::vector, std::string(opcode), lanes, {}};
  const auto set = [&](Unit unit, double amount) {
    i.unit = unit;
    i.amount = amount;
    return i;
  };
  if (begins(opcode, "dpas")) return set(Unit::matrix, systolic_amount(opcode, lanes));
  if (begins(opcode, "dp4a")) return set(Unit::fma, 4 * lanes);
  if ((begins(opcode, "mad") || begins(opcode, "mac")) && floating(operands)) return set(Unit::fma, lanes);
  for (const std::string_view name : {"send", "load", "store", "atomic"}) {
    if (!begins(opcode, name)) continue;
    const Unit unit = message_unit(opcode, line);
    return set(unit, unit == Unit::barrier || unit == Unit::branch ? 0 : lanes * message_bytes(opcode, line));
  }
  for (const std::string_view name :
       {"jmpi", "goto", "join", "while", "brc", "brd", "if", "else", "endif", "break", "cont", "ret", "call", "halt"}) {
    if (opcode.substr(0, opcode.find('.')) == name) return set(Unit::branch, 0);
  }
  if (begins(opcode, "sync.bar") || begins(opcode, "wait")) return set(Unit::barrier, 0);
  if (begins(opcode, "sync") || opcode == "nop" || opcode == "illegal") return set(Unit::none, 0);
  return i;
}

// The last label of a branch's operands: of "goto" the place that its lanes go on at.
std::string_view target_of(std::string_view operands) {
  std::string_view last;
  while (!trim(operands).empty()) {
    const std::string_view word = take_word(operands);
    if (begins(word, "_") || (begins(word, "L") && word.size() > 1 && word[1] >= '0' && word[1] <= '9')) last = word;
  }
  return last;
}

}  // namespace

Listing parse_gen(std::string_view text) {
  Listing listing;
  Labels labels;
  for_each_line(text, [&](std::string_view line) {
    if (line.empty() || begins(line, "//") || begins(line, ".")) return;
    const std::string_view code = trim(line.substr(0, line.find("//")));
    if (code.ends_with(":") && !contains(code, " "))
      return labels.define(code.substr(0, code.size() - 1), listing.size());
    std::string_view operands = code;
    if (begins(operands, "(")) operands = trim(operands.substr(std::min(operands.find(')') + 1, operands.size())));
    const std::string_view opcode = take_word(operands);
    if (opcode.empty() || opcode[0] < 'a' || opcode[0] > 'z') return;
    listing.push_back(classify(opcode, operands, line));
    if (listing.back().unit != Unit::branch) return;
    if (const std::string_view label = target_of(operands); !label.empty()) labels.use(label, listing.size() - 1);
  });
  labels.resolve(listing);
  require_instructions(listing, "IGC");
  return listing;
}

}  // namespace heddle::tools::certify
