// From an instruction's words to an Op: what all families of opcodes share.
//
// Purpose: takes an opcode's modifiers one by one (whatever is left is an error), gives operands places, and makes
// arrays of immediates. Thread safety: one decoder a thread.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tests/ptx/formats.h"
#include "tests/ptx/program.h"

namespace heddle::ptx {

enum class Type : uint8_t {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  bf16,
  f16x2,
  bf16x2,
  f32,
  f64,
  tf32
};
uint32_t bytes_of(Type type);
bool is_signed(Type type);
inline bool is_float(Type type) { return type >= Type::f16; }
inline bool is_narrow(Type type) { return type >= Type::f16 && type <= Type::bf16x2; }

class Decoder;
using Family = void (*)(Decoder&);
using Families = std::unordered_map<std::string_view, Family>;
// Each file of operations adds its opcodes.
void add_integer(Families& families);
void add_arithmetic(Families& families);
void add_functions(Families& families);
void add_compare(Families& families);
void add_convert(Families& families);
void add_moves(Families& families);
void add_memory(Families& families);
void add_atomic(Families& families);
void add_warp(Families& families);
void add_matrix(Families& families);
void add_warpgroup(Families& families);
void add_control(Families& families);

class Decoder {
 public:
  Decoder(const Module& module, Program& program, const std::byte* globals);
  // All functions that the kernel reaches, it first.
  void decode(const std::string& kernel);

  // ---- for families ----
  const Module& module;
  Program& program;
  const Instruction* instruction = nullptr;
  std::string_view head;
  Op op;

  [[noreturn]] void fail(const std::string& what) const;
  // Takes a modifier wherever it stands.
  bool take(std::string_view modifier);
  // Takes the first one.
  std::string_view first();
  // Takes the first type, or fails.
  Type type();
  bool type_left() const;
  Rounding rounding(Rounding otherwise = Rounding::nearest_even);
  size_t modifiers_left() const { return modifiers_.size(); }

  size_t operand_count() const { return instruction->operands.size(); }
  const Operand& operand(size_t i) const;
  void expect_operands(size_t count) const;
  // Where an operand of that many bytes lies: a register, or an array of an immediate.
  uint32_t place(const Operand& o, uint32_t bytes);
  uint32_t source(size_t i, Type type) { return place(operand(i), heddle::ptx::bytes_of(type)); }
  // A register that is written.
  uint32_t target(const Operand& o, uint32_t bytes);
  uint32_t target(size_t i, Type type) { return target(operand(i), heddle::ptx::bytes_of(type)); }
  uint32_t register_bytes(const Operand& o) const;
  uint32_t constant(uint64_t bits, uint32_t bytes);
  uint64_t address_of(const Variable& variable) const;
  // Places an address of 4 or 8 bytes; its constant part goes to op.immediate.
  uint32_t address(size_t i, uint32_t* bytes);
  uint64_t immediate(size_t i) const;
  // A label's place in the program.
  int32_t index_of(int64_t label) const;
  // The instruction calls that function.
  void call(const std::string& function);
  // Gives the instruction its function and its operands' places.
  void emit(Run run, const std::vector<uint32_t>& places);
  // d = f(a, ...): the usual form; sources have `from`, the target `to`.
  void emit(Run run, Type to, std::initializer_list<Type> from);

 private:
  void decode_function(const Function& function);
  void decode_instruction(const Instruction& i);
  uint32_t allocate(uint32_t bytes);
  uint32_t special(const std::string& name, uint32_t bytes);

  const Families families_;
  const std::byte* globals_;
  std::vector<std::string_view> modifiers_;
  const Function* function_ = nullptr;
  std::vector<uint32_t> registers_;  // places of the function's
  int32_t base_ = 0;                 // index of the function's first instruction
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> constants_;
  std::map<std::string, uint32_t> specials_;
  std::map<std::string, int32_t> bases_;               // of functions that are decoded
  std::vector<std::pair<size_t, std::string>> calls_;  // whose targets are not known yet
};

}  // namespace heddle::ptx
