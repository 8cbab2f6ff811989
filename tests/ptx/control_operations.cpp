// Branches, calls and barriers: the scheduler of Block does them.
#include "tests/ptx/block.h"
#include "tests/ptx/decoder.h"

namespace heddle::ptx {
namespace {

void decode_bra(Decoder& d) {
  d.take("uni");
  d.expect_operands(1);
  const Operand& to = d.operand(0);
  if (to.kind != Operand::Kind::label) d.fail("no label '" + to.name + "'");
  d.op.control = Control::branch;
  d.op.target = d.index_of(static_cast<int64_t>(to.bits));
}

void decode_brx(Decoder& d) {
  if (!d.take("idx")) d.fail("of brx, brx.idx is known");
  d.take("uni");
  d.expect_operands(2);
  const Operand& table = d.operand(1);
  const auto label = static_cast<int64_t>(table.bits);
  if (table.kind != Operand::Kind::label || label >= 0) d.fail("no branch table '" + table.name + "'");
  d.emit(nullptr, {d.source(0, Type::b32)});
  d.op.control = Control::branch_table;
  d.op.target = static_cast<int32_t>(d.program.tables.size());
  d.program.tables.emplace_back();
  for (int64_t to : d.module.branch_tables[static_cast<size_t>(-1 - label)])
    d.program.tables.back().push_back(d.index_of(to));
}

std::vector<CopyAtCall> copies(Decoder& d, const Operand& actual, const std::vector<const Variable*>& formal, bool in) {
  if (actual.parts.size() != formal.size()) d.fail("the function has " + std::to_string(formal.size()) + " of them");
  std::vector<CopyAtCall> made;
  for (size_t i = 0; i < formal.size(); ++i) {
    const Variable* given = actual.parts[i].variable;
    if (!given || given->space != Space::local || given->bytes != formal[i]->bytes)
      d.fail("a parameter of another kind");
    const uint64_t from = in ? given->offset : formal[i]->offset, to = in ? formal[i]->offset : given->offset;
    made.push_back({from, to, given->bytes});
  }
  return made;
}

// call.uni (results), function, (arguments)
void decode_call(Decoder& d) {
  d.take("uni");
  const bool gives = d.operand(0).kind == Operand::Kind::list;
  const Operand& callee = d.operand(gives ? 1 : 0);
  const auto found = d.module.functions.find(callee.name);
  if (callee.kind != Operand::Kind::function || found == d.module.functions.end())
    d.fail("a call of an unknown function '" + callee.name + "'");
  CallSite site;
  if (gives) site.results = copies(d, d.operand(0), found->second.results, false);
  const size_t arguments = gives ? 2 : 1;
  if (d.operand_count() > arguments)
    site.arguments = copies(d, d.operand(arguments), found->second.parameters, true);
  else if (!found->second.parameters.empty())
    d.fail("the function has parameters");
  d.op.control = Control::call;
  d.op.immediate = static_cast<int64_t>(d.program.calls.size());
  d.program.calls.push_back(std::move(site));
  d.call(callee.name);
}

void order_warps(Block& b, const Op&) {
  uint32_t last = 0xffffffffu;
  for (uint32_t k = 0; k < b.active.count; ++k) {
    const uint32_t warp = b.active.list[k] / 32;
    if (warp != last) b.shared.warp_barrier(warp);
    last = warp;
  }
}

// bar.sync 0, barrier.sync 0, bar.warp.sync mask
void decode_bar(Decoder& d) {
  const bool warp = d.take("warp");
  d.take("cta");
  if (!d.take("sync")) d.fail("of barriers, those with .sync are known");
  d.expect_operands(1);
  if (warp) {
    d.emit(order_warps, {d.source(0, Type::b32)});
    d.op.control = Control::warp;
    d.op.mask = 0;
    return;
  }
  d.take("aligned");
  if (d.immediate(0) != 0) d.fail("of barriers, number 0 with all lanes is known");
  d.op.control = Control::barrier;
}

void decode_ret(Decoder& d) {
  d.take("uni");
  d.expect_operands(0);
  d.op.control = Control::ret;
}

void decode_exit(Decoder& d) {
  d.expect_operands(0);
  d.op.control = Control::exit;
}

void decode_trap(Decoder& d) {
  d.emit([](Block& b, const Op&) { throw LaneFault{FaultKind::other, b.active.list[0], "trap"}; }, {});
}

// Lanes of a block see each other's writes at once, and blocks run in an order of their own.
void decode_fence(Decoder& d) {
  if (d.take("proxy")) {
    if (!d.take("async")) d.fail("of proxies, the asynchronous one is known");
    d.take("shared::cta");
    return d.emit([](Block& b, const Op&) { b.active.each([&](uint32_t lane) { b.shared.show(lane); }); }, {});
  }
  for (const char* word : {"sc", "acq_rel", "acquire", "release", "gl", "sys", "cta", "gpu", "cluster"}) d.take(word);
  d.emit([](Block&, const Op&) {}, {});
}

}  // namespace

void add_control(Families& families) {
  families["bra"] = decode_bra;
  families["brx"] = decode_brx;
  families["call"] = decode_call;
  families["bar"] = families["barrier"] = decode_bar;
  families["ret"] = decode_ret;
  families["exit"] = decode_exit;
  families["trap"] = decode_trap;
  families["membar"] = families["fence"] = decode_fence;
}

}  // namespace heddle::ptx
