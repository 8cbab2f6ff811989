// A kernel source for an Archive (core/base/archive.h). Thread safety: pure functions.
#pragma once

#include "heddle/core/base/archive.h"
#include "heddle/core/contract/kernel_source.h"

namespace heddle {

template <>
inline constexpr int archived_values<DType> = dtype_count;
template <>
inline constexpr int archived_values<Access> = 3;
template <>
inline constexpr int archived_values<ConstParam::Type> = 3;

template <class Archive>
void visit(Archive& a, std::vector<BufferParam>& buffers) {
  a.list(buffers, [&](BufferParam& b) { a(b.name, b.dtype, b.access, b.may_alias, b.scattered); });
}

template <class Archive>
void visit(Archive& a, KernelSource& s) {
  a(s.name);
  visit(a, s.buffers);
  a.list(s.constants, [&](ConstParam& c) { a(c.name, c.type); });
  a.list(s.shared, [&](SharedParam& p) { a(p.name, p.type, p.count); });
  for (uint32_t& lanes : s.group) a(lanes);
  a.list(s.defines, [&](std::pair<std::string, std::string>& d) { a(d.first, d.second); });
  a(s.body, s.helpers, s.origin, s.first_line);
}

}  // namespace heddle
