#include "tests/ptx/decoder.h"

#include <algorithm>
#include <array>
#include <bit>

#include "tests/ptx/fault.h"

namespace heddle::ptx {
namespace {

struct TypeName {
  std::string_view name;
  Type type;
  uint32_t bytes;
};
constexpr TypeName type_names[] = {
    {"pred", Type::pred, 1}, {"b8", Type::b8, 1},   {"b16", Type::b16, 2},   {"b32", Type::b32, 4},
    {"b64", Type::b64, 8},   {"u8", Type::u8, 1},   {"u16", Type::u16, 2},   {"u32", Type::u32, 4},
    {"u64", Type::u64, 8},   {"s8", Type::s8, 1},   {"s16", Type::s16, 2},   {"s32", Type::s32, 4},
    {"s64", Type::s64, 8},   {"f16", Type::f16, 2}, {"bf16", Type::bf16, 2}, {"f16x2", Type::f16x2, 4},
    {"f32", Type::f32, 4},   {"f64", Type::f64, 8}, {"tf32", Type::tf32, 4}, {"bf16x2", Type::bf16x2, 4}};

Type type_of(std::string_view name) {
  for (const TypeName& t : type_names) {
    if (t.name == name) return t.type;
  }
  return Type::none;
}

constexpr std::string_view special_names[] = {
    "%tid.x",   "%tid.y",       "%tid.z",       "%ntid.x",      "%ntid.y",      "%ntid.z",     "%ctaid.x",
    "%ctaid.y", "%ctaid.z",     "%nctaid.x",    "%nctaid.y",    "%nctaid.z",    "%laneid",     "%warpid",
    "%nwarpid", "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge"};
static_assert(std::size(special_names) == static_cast<size_t>(Special::count));

Families all_families() {
  Families families;
  for (auto* add : {add_integer, add_arithmetic, add_functions, add_compare, add_convert, add_moves, add_memory,
                    add_atomic, add_warp, add_matrix, add_warpgroup, add_control})
    add(families);
  return families;
}

}  // namespace

uint32_t bytes_of(Type type) {
  for (const TypeName& t : type_names) {
    if (t.type == type) return t.bytes;
  }
  return 0;
}

bool is_signed(Type type) { return type >= Type::s8 && type <= Type::s64; }

Decoder::Decoder(const Module& of, Program& into, const std::byte* globals)
    : module(of), program(into), families_(all_families()), globals_(globals) {}

void Decoder::fail(const std::string& what) const {
  const auto line = static_cast<size_t>(instruction->line);
  const std::string text = line <= module.text.size() ? module.text[line - 1] : "";
  throw PtxError("[ptx] " + what + " (line " + std::to_string(line) + ": " +
                 text.substr(std::min(text.find_first_not_of(" \t"), text.size())) + ")");
}

// ---- modifiers ----

bool Decoder::take(std::string_view modifier) {
  const auto found = std::find(modifiers_.begin(), modifiers_.end(), modifier);
  if (found == modifiers_.end()) return false;
  modifiers_.erase(found);
  return true;
}

std::string_view Decoder::first() {
  if (modifiers_.empty()) fail("the opcode lacks a modifier");
  const std::string_view modifier = modifiers_.front();
  modifiers_.erase(modifiers_.begin());
  return modifier;
}

Type Decoder::type() {
  for (auto m = modifiers_.begin(); m != modifiers_.end(); ++m) {
    if (const Type type = type_of(*m); type != Type::none) {
      modifiers_.erase(m);
      return type;
    }
  }
  fail("'" + instruction->opcode + "' lacks a type");
}

bool Decoder::type_left() const {
  return std::any_of(modifiers_.begin(), modifiers_.end(), [](auto m) { return type_of(m) != Type::none; });
}

Rounding Decoder::rounding(Rounding otherwise) {
  if (take("rn")) return Rounding::nearest_even;
  if (take("rz")) return Rounding::zero;
  if (take("rm")) return Rounding::down;
  if (take("rp")) return Rounding::up;
  return otherwise;
}

// ---- operands ----

const Operand& Decoder::operand(size_t i) const {
  if (i >= instruction->operands.size()) fail("'" + instruction->opcode + "' lacks an operand");
  return instruction->operands[i];
}

void Decoder::expect_operands(size_t count) const {
  if (operand_count() != count) fail("'" + instruction->opcode + "' has " + std::to_string(count) + " operands");
}

uint32_t Decoder::register_bytes(const Operand& o) const {
  if (o.kind == Operand::Kind::sink) return 8;
  if (o.kind != Operand::Kind::reg) fail("a register expected, not '" + o.name + "'");
  return function_->registers[o.reg].bytes;
}

uint32_t Decoder::place(const Operand& o, uint32_t bytes) {
  if (o.negated) fail("a negated operand");
  switch (o.kind) {
    case Operand::Kind::reg:
      if (register_bytes(o) != bytes)
        fail("the register '" + o.name + "' has not the " + std::to_string(bytes) + " bytes of the operation's type");
      return registers_[o.reg];
    case Operand::Kind::integer:
      return constant(o.bits, bytes);
    case Operand::Kind::f32:
      if (bytes != 4) fail("a number of 32 bits where " + std::to_string(8 * bytes) + " are expected");
      return constant(o.bits, bytes);
    case Operand::Kind::f64:
      if (bytes == 4) return constant(std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(o.bits))), 4);
      if (bytes != 8) fail("a number of 64 bits where " + std::to_string(8 * bytes) + " are expected");
      return constant(o.bits, bytes);
    case Operand::Kind::variable:
      return constant(address_of(*o.variable) + static_cast<uint64_t>(o.offset), bytes);
    case Operand::Kind::special:
      return special(o.name, bytes);
    default:
      fail("an operand of another kind is expected");
  }
}

uint32_t Decoder::target(const Operand& o, uint32_t bytes) {
  if (o.kind == Operand::Kind::sink) return allocate(8);
  if (o.kind != Operand::Kind::reg) fail("a register expected");
  return place(o, bytes);
}

uint32_t Decoder::allocate(uint32_t bytes) {
  const auto place = static_cast<uint32_t>((program.lane_bytes + bytes - 1) / bytes * bytes);
  program.lane_bytes = place + bytes;
  return place;
}

uint32_t Decoder::constant(uint64_t bits, uint32_t bytes) {
  if (bytes < 8) bits &= (1ull << (8 * bytes)) - 1;
  if (bytes == 1) bits = bits != 0;  // a predicate, which mov.pred may set by -1
  const auto [known, added] = constants_.try_emplace({bits, bytes}, 0);
  if (added) {
    known->second = allocate(bytes);
    program.constants.push_back({known->second, static_cast<uint8_t>(bytes), bits});
  }
  return known->second;
}

uint32_t Decoder::special(const std::string& name, uint32_t bytes) {
  if (name == "WARP_SZ") return constant(32, bytes);
  const auto found = std::find(std::begin(special_names), std::end(special_names), name);
  if (found == std::end(special_names)) fail("unknown special register '" + name + "'");
  if (bytes != 4) fail("the special register '" + name + "' has 32 bits");
  const auto [known, added] = specials_.try_emplace(name, 0);
  if (added) {
    known->second = allocate(4);
    program.specials.push_back({static_cast<Special>(found - std::begin(special_names)), known->second});
  }
  return known->second;
}

uint64_t Decoder::address_of(const Variable& v) const {
  if (v.space == Space::global || v.space == Space::constant) return reinterpret_cast<uintptr_t>(globals_) + v.offset;
  return v.offset;
}

uint32_t Decoder::address(size_t i, uint32_t* bytes) {
  const Operand& o = operand(i);
  if (o.kind != Operand::Kind::address) fail("an address expected");
  op.immediate = o.offset;
  *bytes = 8;
  if (!o.based) return constant(o.variable ? address_of(*o.variable) : 0, 8);
  Operand base = o;
  base.kind = Operand::Kind::reg;
  *bytes = register_bytes(base);
  if (*bytes != 4 && *bytes != 8) fail("an address has 32 or 64 bits");
  return place(base, *bytes);
}

uint64_t Decoder::immediate(size_t i) const {
  if (operand(i).kind != Operand::Kind::integer) fail("a number expected");
  return operand(i).bits;
}

// ---- instructions ----

void Decoder::emit(Run run, const std::vector<uint32_t>& places) {
  program.operand_lists.push_back(std::make_unique<uint32_t[]>(places.size()));
  std::copy(places.begin(), places.end(), program.operand_lists.back().get());
  op.run = run;
  op.operands = program.operand_lists.back().get();
}

void Decoder::emit(Run run, Type to, std::initializer_list<Type> from) {
  expect_operands(from.size() + 1);
  std::vector<uint32_t> places = {target(0, to)};
  for (size_t i = 0; i < from.size(); ++i) places.push_back(source(i + 1, from.begin()[i]));
  emit(run, places);
}

void Decoder::decode(const std::string& kernel) {
  const auto found = module.functions.find(kernel);
  if (found == module.functions.end() || !found->second.entry)
    throw PtxError("[ptx] the module has no kernel '" + kernel + "'");
  program.name = kernel;
  program.parameters = found->second.parameters;
  program.parameter_bytes = found->second.parameter_bytes;
  program.max_lanes = found->second.max_lanes;
  program.frame_bytes = module.frame_bytes;
  program.shared_bytes = module.dynamic_shared ? (module.shared_bytes + 15) / 16 * 16 : module.shared_bytes;
  program.carry = allocate(4);
  bases_[kernel] = 0;
  decode_function(found->second);
  for (size_t i = 0; i < calls_.size(); ++i) {
    const auto [at, name] = calls_[i];
    const auto callee = module.functions.find(name);
    if (callee == module.functions.end() || !callee->second.defined)
      throw PtxError("[ptx] the function '" + name + "' is called and stands nowhere");
    if (!bases_.contains(name)) {
      bases_[name] = static_cast<int32_t>(program.code.size());
      decode_function(callee->second);
    }
    program.code[at].target = bases_[name];
  }
}

void Decoder::decode_function(const Function& function) {
  function_ = &function;
  base_ = static_cast<int32_t>(program.code.size());
  registers_.clear();
  for (const Register& r : function.registers) registers_.push_back(allocate(r.bytes));
  for (const Instruction& i : function.code) decode_instruction(i);
  // Whoever runs past the end returns.
  Instruction end;
  end.line = function.code.empty() ? 1 : function.code.back().line;
  end.opcode = "ret";
  decode_instruction(end);
}

void Decoder::decode_instruction(const Instruction& i) {
  instruction = &i;
  op = Op();
  modifiers_.clear();
  const std::string_view opcode = i.opcode;
  size_t at = opcode.find('.');
  head = opcode.substr(0, at);
  while (at != opcode.npos) {
    const size_t next = opcode.find('.', at + 1);
    modifiers_.push_back(opcode.substr(at + 1, next == opcode.npos ? next : next - at - 1));
    at = next;
  }
  const auto family = families_.find(head);
  if (family == families_.end()) fail("unknown opcode '" + i.opcode + "'");
  if (i.predicate >= 0) {
    op.predicate = static_cast<int32_t>(registers_[static_cast<size_t>(i.predicate)]);
    op.negated = i.negated;
  }
  family->second(*this);
  if (!modifiers_.empty()) fail("unknown modifier '." + std::string(modifiers_.front()) + "' of '" + i.opcode + "'");
  program.code.push_back(op);
  program.where.push_back({i.line, i.location});
}

int32_t Decoder::index_of(int64_t label) const { return base_ + static_cast<int32_t>(label); }

void Decoder::call(const std::string& function) { calls_.emplace_back(program.code.size(), function); }

Program decode(std::shared_ptr<const Module> module, const std::string& name, const std::byte* globals) {
  Program program;
  program.module = module;
  Decoder(*module, program, globals).decode(name);
  program.lane_bytes = (program.lane_bytes + 7) / 8 * 8;
  return program;
}

}  // namespace heddle::ptx
