#include <algorithm>

#include "tests/ptx/parser_parts.h"

namespace heddle::ptx {

uint8_t bytes_of_type(std::string_view type) {
  if (type == ".pred") return 1;
  if (type == ".b8" || type == ".u8" || type == ".s8") return 1;
  if (type == ".b16" || type == ".u16" || type == ".s16" || type == ".f16" || type == ".bf16") return 2;
  if (type == ".b32" || type == ".u32" || type == ".s32" || type == ".f32" || type == ".f16x2") return 4;
  if (type == ".b64" || type == ".u64" || type == ".s64" || type == ".f64") return 8;
  return 0;
}

Space Variables::space_of(std::string_view word) const {
  if (word == ".global") return Space::global;
  if (word == ".const") return Space::constant;
  if (word == ".shared") return Space::shared;
  if (word == ".local") return Space::local;
  if (word == ".param") return Space::param;
  fail("unknown space '" + std::string(word) + "'");
}

void Variables::variables(bool external) {
  const Space space = space_of(name());
  uint64_t alignment = 0;
  uint64_t element = 0;
  while (element == 0) {
    if (take(".align"))
      alignment = integer();
    else if ((element = bytes_of_type(peek().text)) == 0)
      fail("unknown type '" + std::string(peek().text) + "' of a variable");
    else
      next();
  }
  do {
    Variable& v = declare(space, element, std::max(alignment, element));
    if (external && v.bytes == 0) {
      if (space != Space::shared) fail("'" + v.name + "' lies in another module");
      v.dynamic = module_.dynamic_shared = true;
    }
    if (take("=")) initialise(v, element);
    place(v);
  } while (take(","));
  expect(";");
}

Variable& Variables::declare(Space space, uint64_t element, uint64_t alignment) {
  module_.owned.push_back(std::make_unique<Variable>());
  Variable& v = *module_.owned.back();
  v.name = name();
  v.space = space;
  v.bytes = element;
  v.alignment = alignment;
  while (take("[")) {
    v.bytes *= peek().text == "]" ? 0 : integer();
    expect("]");
  }
  scopes_.back().variables[v.name] = &v;
  return v;
}

void Variables::place(Variable& v) {
  const bool frame = v.space == Space::local || v.space == Space::param;
  uint64_t& end = frame ? module_.frame_bytes : v.space == Space::shared ? module_.shared_bytes : module_.global_bytes;
  if (v.space == Space::param) v.space = Space::local;  // of a call; a kernel's parameters are placed by function()
  v.offset = end = round_up(end, v.alignment);
  end += v.bytes;
  if (v.space == Space::global || v.space == Space::constant) module_.globals.push_back(&v);
}

void Variables::initialise(Variable& v, uint64_t element) {
  v.initial.assign(v.bytes, std::byte{0});
  uint64_t at = 0;
  const bool several = take("{");
  do {
    const bool negative = take("-");
    if (peek().kind != Token::Kind::integer && peek().kind != Token::Kind::f32 && peek().kind != Token::Kind::f64)
      fail("a number expected in what '" + v.name + "' holds at first");
    uint64_t bits = next().bits;
    if (negative) bits = 0 - bits;
    if (at + element > v.bytes) fail("'" + v.name + "' has more values than elements");
    for (uint64_t i = 0; i < element; ++i) v.initial[at + i] = static_cast<std::byte>(bits >> (8 * i));
    at += element;
  } while (several && take(","));
  if (several) expect("}");
}

}  // namespace heddle::ptx
