// How a block tells of faults.
#include <algorithm>
#include <cstring>

#include "tests/ptx/block.h"

namespace heddle::ptx {

void Block::find_range(uint32_t lane, uint64_t address, uint32_t bytes) {
  const MemoryRange found = memory_->find(address);
  if (found.end == 0 || bytes > found.end - address) outside(lane, address, bytes, "global");
  range_ = found;
}

void Block::misaligned(uint32_t lane, uint64_t address, uint32_t bytes, const char* memory) {
  throw LaneFault{FaultKind::misaligned, lane,
                  std::to_string(bytes) + " bytes of " + memory + " memory at address " + std::to_string(address)};
}

void Block::outside(uint32_t lane, uint64_t address, uint32_t bytes, const char* memory) const {
  throw LaneFault{FaultKind::bounds, lane,
                  std::to_string(bytes) + " bytes of " + memory + " memory at address " + std::to_string(address) +
                      behind_parameter(address) + " lie in no allocation"};
}

// The kernel's parameter that points to the address or the least way before it.
std::string Block::behind_parameter(uint64_t address) const {
  size_t nearest = 0;
  uint64_t from = 0;
  for (size_t i = 0; i < program_->parameters.size(); ++i) {
    const Variable& p = *program_->parameters[i];
    uint64_t value = 0;
    if (p.bytes != sizeof value) continue;
    std::memcpy(&value, parameters_ + p.offset, sizeof value);
    if (value <= address && value > from) nearest = i, from = value;
  }
  if (from == 0) return "";
  return " (" + std::to_string(address - from) + " behind parameter " + std::to_string(nearest) + ")";
}

void Block::race(uint32_t lane, uint64_t address, Touch how, const AccessRecord& met) const {
  const bool reads = how == Touch::read || how == Touch::read_invariant;
  const bool wrote = met.writer != AccessRecord::none && (reads || met.writer != number_);
  const uint32_t other = wrote ? met.writer : met.reader;
  const std::string who = other == AccessRecord::many ? "several blocks"
                          : other == number_          ? "this block"
                                                      : "block " + std::to_string(other - 1);
  throw LaneFault{FaultKind::race, lane,
                  "the lane " + std::string(reads ? "reads" : "writes") + " the byte at " + std::to_string(address) +
                      behind_parameter(address) + " of global memory, which " + who + (wrote ? " wrote" : " read") +
                      " in the same launch" +
                      (how == Touch::read_invariant ? ", by a cache that sees no writes (ld.global.nc)" : "")};
}

std::string Block::source_of(const Where& where) const {
  const Module& module = *program_->module;
  std::string text = "PTX line " + std::to_string(where.line);
  const auto line = static_cast<size_t>(where.line);
  if (line >= 1 && line <= module.text.size()) {
    std::string quoted = module.text[line - 1];
    for (char& c : quoted) c = c == '\t' ? ' ' : c;
    text += " '" + quoted.substr(std::min(quoted.find_first_not_of(' '), quoted.size())) + "'";
  }
  const auto add = [&](const char* between, int file, int at) {
    const auto found = module.files.find(file);
    if (at > 0 && found != module.files.end()) text += between + found->second + ":" + std::to_string(at);
  };
  add(", ", where.location.file, where.location.line);
  add(" inlined at ", where.location.outer_file, where.location.outer_line);
  return text;
}

void Block::find_fault(const LaneFault& fault, int32_t at) const {
  const std::string place =
      std::to_string(block_[0]) + "," + std::to_string(block_[1]) + "," + std::to_string(block_[2]);
  const std::string where =
      at >= 0 && at != none ? source_of(program_->where[static_cast<size_t>(at)]) : std::string("no instruction");
  throw Fault(fault.kind, "[ptx] " + std::string(name_of(fault.kind)) + ": " + fault.text + " (kernel " +
                              program_->name + ", block " + place + ", lane " + std::to_string(fault.lane) + ", " +
                              where + ")");
}

// What keeps a lane from going on.
std::string Block::doing(uint32_t lane) const {
  const std::string who = "lane " + std::to_string(lane);
  if (state_[lane] == State::over) return who + " has ended";
  return who + " waits at " + source_of(program_->where[static_cast<size_t>(at_of_[lane])]);
}

void Block::stuck(uint32_t lane, const std::string& other) const {
  if (state_[lane] == State::at_barrier)
    find_fault({FaultKind::barrier, lane, "not all lanes reach the barrier: " + other}, at_of_[lane]);
  const Op& op = program_->code[static_cast<size_t>(at_of_[lane])];
  const uint32_t first = lane / 32 * 32;
  std::string absent;
  for (uint32_t i = first; i < std::min(first + 32, lanes_); ++i) {
    const uint32_t mask =
        op.mask < 0 ? 0xffffffffu
                    : *reinterpret_cast<const uint32_t*>(registers_.data() + size_t{op.operands[op.mask]} * stride_ +
                                                         lane * sizeof(uint32_t));
    if (!(mask >> i % 32 & 1) || state_[i] == State::over) continue;
    if ((state_[i] != State::at_warp || at_of_[i] != at_of_[lane]) && absent.empty()) absent = doing(i);
  }
  find_fault({FaultKind::warp, lane, "the lanes of the warp are not together: " + absent}, at_of_[lane]);
}

}  // namespace heddle::ptx
