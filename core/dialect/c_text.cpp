#include "heddle/core/dialect/c_text.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/lines.h"
#include "heddle/core/dialect/prelude.h"

namespace heddle {
namespace {

uint64_t lanes_of(const KernelSource& s) { return uint64_t{s.group[0]} * s.group[1] * s.group[2]; }

Identifiers names_of(const KernelSource& s) {
  std::string text = s.helpers + "\n" + s.body;
  for (const auto& [name, value] : s.defines) text += "\n" + name + " " + value;
  return identifiers(text);
}

bool wait_for_each_other(const KernelSource& s, const Identifiers& used) {
  for (const char* name : {"BARRIER", "UNIT_BARRIER", "GROUP_SUM", "GROUP_MAX", "GROUP_MIN", "SHUFFLE_XOR"}) {
    if (used.contains(name)) return true;
  }
  for (const SharedParam& array : s.shared) {
    if (array.count > 0) return true;
  }
  return false;
}

std::string parameters(const std::vector<CArgument>& arguments) {
  std::string text;
  for (const CArgument& a : arguments) text += fmt::format(", {} {}", a.type, a.name);
  return text;
}

std::string lane_function(const KernelSource& s, const std::vector<CArgument>& arguments) {
  std::string text = fmt::format(
      "FUNC void hk_lane(const uint* hk_groups, uint hk_group0, uint hk_group1, uint hk_group2, uint hk_lane0, "
      "uint hk_lane1, uint hk_lane2{}) {{\n",
      parameters(arguments));
  for (const char* name : {"groups", "group0", "group1", "group2", "lane0", "lane1", "lane2"})
    text += fmt::format("  (void)hk_{};\n", name);
  for (const CArgument& a : arguments) text += fmt::format("  (void){};\n", a.name);
  for (const SharedParam& array : s.shared) {
    if (array.count > 0) text += fmt::format("  ARRAY({}, {}, {});\n", array.type, array.name, array.count);
  }
  return text + s.body + "\n}\n";
}

std::string entry(const KernelSource& s, const std::vector<CArgument>& arguments) {
  const std::string head = fmt::format("void heddle_kernel(uint hk_x, uint hk_y, uint hk_z{})", parameters(arguments));
  std::string text =
      fmt::format("HK_KERNEL {};\n{} {{\n  const uint hk_groups[3] = {{hk_x, hk_y, hk_z}};\n", head, head);
  for (const char* axis : {"2", "1", "0"})
    text += fmt::format("  for (uint hk_group{0} = 0u; hk_group{0} < hk_groups[{0}]; ++hk_group{0})\n", axis);
  std::string lanes;
  for (const int axis : {2, 1, 0}) {
    const uint32_t size = s.group[static_cast<size_t>(axis)];
    if (size > 1) text += fmt::format("  for (uint hk_lane{0} = 0u; hk_lane{0} < {1}u; ++hk_lane{0})\n", axis, size);
    lanes = (size > 1 ? fmt::format(", hk_lane{}", axis) : ", 0u") + lanes;
  }
  text += "    hk_lane(hk_groups, hk_group0, hk_group1, hk_group2" + lanes;
  for (const CArgument& a : arguments) text += ", " + a.name;
  return text + ");\n}\n";
}

}  // namespace

std::string_view c_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float";
    case DType::f64:
      return "double";
    case DType::i32:
      return "int";
    case DType::i64:
      return "int64_t";
    case DType::i8:
      return "signed char";
    case DType::u8:
    case DType::boolean:
      return "unsigned char";
    case DType::f16:
    case DType::bf16:
      return "unsigned short";
  }
  throw ValueError("[print] unknown dtype");
}

std::string c_refusal(const KernelSource& source) {
  const Identifiers used = names_of(source);
  if (lanes_of(source) > 1 && wait_for_each_other(source, used))
    return fmt::format("its {} lanes wait for each other", lanes_of(source));
  if (used.contains("erfinv") && used.contains("F64")) return "erfinv of f64 has no function in C";
  return "";
}

std::string c_functions(const KernelSource& source, const std::vector<CArgument>& arguments) {
  if (const std::string why = c_refusal(source); !why.empty())
    throw ValueError(fmt::format("[kernel {}] cannot be written as C: {}", source.name, why));
  return source.helpers + "\n" + lane_function(source, arguments) + entry(source, arguments);
}

std::string without_line_marks(std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (!line.starts_with("#line ")) kept.append(line).append("\n");
  }
  return kept;
}

}  // namespace heddle
