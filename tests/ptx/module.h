// PTX text as data: functions with their registers, variables and instructions.
//
// Purpose: what parser.cpp makes of the text and decode.cpp reads. Names of registers, labels and scopes are resolved;
// opcodes are still words. Invariants: every register index is below its function's registers; every label names an
// instruction (or the end) of its function. Thread safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::ptx {

enum class Space { none, global, constant, shared, local, param };

// A variable of a module or a function: an array of bytes.
struct Variable {
  std::string name;
  Space space = Space::none;
  uint64_t bytes = 0, alignment = 1;
  std::vector<std::byte> initial;  // empty: zeros
  uint64_t offset = 0;   // within the module's memory, a block's shared memory, a lane's frame, the parameters
  bool dynamic = false;  // extern .shared x[]: as long as the launch says
};

struct Operand {
  enum class Kind { reg, special, sink, integer, f32, f64, variable, address, vector, list, label, function };
  Kind kind = Kind::sink;
  uint32_t reg = 0;                    // reg; address with a base register
  std::string name;                    // special, variable, label, function
  uint64_t bits = 0;                   // integer, f32, f64: the value; label: index of its instruction
  int64_t offset = 0;                  // address, variable
  bool based = false;                  // address: on a register
  bool negated = false;                // !%p
  const Variable* variable = nullptr;  // variable; address on a variable
  std::vector<Operand> parts;          // vector {a, b}, list (a, b), pair a|b
};

// Where in the kernel's text an instruction comes from.
struct Location {
  int file = 0, line = 0;
  int outer_file = 0, outer_line = 0;  // of the call that was inlined, where the text says so
};

struct Instruction {
  int line = 0;  // of the PTX
  Location location;
  int32_t predicate = -1;  // a register, or none
  bool negated = false;
  std::string opcode;
  std::vector<Operand> operands;
};

struct Register {
  std::string name;
  uint8_t bytes = 4;  // 1: a predicate
};

struct Function {
  std::string name;
  bool entry = false, defined = false;
  std::vector<const Variable*> results, parameters;
  uint64_t parameter_bytes = 0;
  uint32_t max_lanes = 0;  // .maxntid; 0: none given
  std::vector<Register> registers;
  std::vector<Instruction> code;
};

struct Module {
  int version = 0, target = 0;  // 88 for 8.8; 90 for sm_90
  std::vector<std::string> text;
  std::map<int, std::string> files;
  std::vector<const Variable*> globals;  // in global or constant memory
  uint64_t global_bytes = 0, shared_bytes = 0;
  bool dynamic_shared = false;
  std::map<std::string, Function, std::less<>> functions;
  std::vector<std::vector<int64_t>> branch_tables;
  uint64_t frame_bytes = 0;                      // a lane's .local variables, and .param variables that are no kernel's
  std::vector<std::unique_ptr<Variable>> owned;  // every variable; operands keep addresses
};

// Throws PtxError.
Module parse(std::string_view text);

}  // namespace heddle::ptx
