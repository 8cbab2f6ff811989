#include "heddle/core/dialect/glsl_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {
namespace {

bool uses(const KernelSource& s, std::initializer_list<DType> types) {
  for (const auto& b : s.buffers) {
    for (const DType t : types) {
      if (b.dtype == t) return true;
    }
  }
  return false;
}

std::string texels(const PrintOptions& options, size_t binding, std::string_view format, std::string_view prefix,
                   std::string_view name) {
  if (options.texel_images) {
    return fmt::format("layout(set = 0, binding = {}, {}) uniform readonly {}imageBuffer hk_{};\n", binding, format,
                       prefix, name);
  }
  return fmt::format("layout(set = 0, binding = {}) uniform {}samplerBuffer hk_{};\n", binding, prefix, name);
}

std::string_view texel_format(DType t) {
  switch (t) {
    case DType::f32:
      return "r32f";
    case DType::i32:
      return "r32i";
    case DType::f16:
    case DType::bf16:
      return "r16ui";
    case DType::i8:
      return "r8i";
    default:
      return "r8ui";
  }
}
std::string_view texel_prefix(DType t) { return t == DType::f32 ? "" : t == DType::i32 || t == DType::i8 ? "i" : "u"; }

}  // namespace

std::string glsl_head(const KernelSource& s, const PrintOptions& options, const Identifiers& used) {
  std::string out =
      "#version 450\n#extension GL_GOOGLE_cpp_style_line_directive : require\n#extension "
      "GL_EXT_control_flow_attributes : require\n";
  if (!options.words16 && uses(s, {DType::f16, DType::bf16}))
    out += "#extension GL_EXT_shader_16bit_storage : require\n";
  if (!options.words8 && uses(s, {DType::i8, DType::u8, DType::boolean}))
    out += "#extension GL_EXT_shader_8bit_storage : require\n";
  if (used.contains("I64")) out += "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n";
  const auto any = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return used.contains(name); });
  };
  const auto require = [&](const char* name) { out += fmt::format("#extension {} : require\n", name); };
  const bool matrices = any({"MMA"}) && (options.matrix == MatrixApi::glsl_nv || options.matrix == MatrixApi::glsl_khr);
  if (options.subgroup_shuffle && any({"GROUP_SUM", "GROUP_MAX", "GROUP_MIN", "SHUFFLE_XOR"}))
    require("GL_KHR_shader_subgroup_shuffle");
  if (matrices || any({"SUBGROUP_ID", "SUBGROUP_LANE"})) require("GL_KHR_shader_subgroup_basic");
  if (options.int8_dot && any({"DOT4"})) require("GL_EXT_spirv_intrinsics");
  if (matrices) {
    require("GL_KHR_memory_scope_semantics");
    require("GL_EXT_shader_explicit_arithmetic_types_float16");
    require("GL_EXT_shader_explicit_arithmetic_types_int8");
    if (options.matrix == MatrixApi::glsl_khr) require("GL_KHR_cooperative_matrix");
    if (options.matrix == MatrixApi::glsl_nv) require("GL_NV_cooperative_matrix");
    if (options.matrix == MatrixApi::glsl_nv) require("GL_NV_integer_cooperative_matrix");
  }
  out += fmt::format("layout(local_size_x = {}, local_size_y = {}, local_size_z = {}) in;\n", s.group[0], s.group[1],
                     s.group[2]);
  return out;
}

std::string glsl_block(const KernelSource& s, const PrintOptions& options, size_t i,
                       const std::vector<BufferSlot>& layout, std::string_view type, QuadUse quads) {
  std::string out;
  const auto& b = s.buffers[i];
  const uint64_t per_quad = 16 / size_of(b.dtype);
  bool aliased = b.may_alias;
  for (size_t at = s.buffers.size(); at < layout.size(); ++at) {
    if (layout[at].buffer != i) continue;
    aliased = true;
    if (options.texel_loads) {
      out += texels(options, at, "rgba32ui", "u", "quads_" + b.name);
      out += fmt::format("#define LOAD_QUAD_{}(i) HK_FETCH(hk_quads_{}, uint(i) / {}u)\n", b.name, b.name, per_quad);
    }
  }
  if (layout[i].kind == BufferSlot::Kind::texels) {
    return out + texels(options, i, texel_format(b.dtype), texel_prefix(b.dtype), b.name);
  }
  // Without texel buffers, loads of 16 bytes see the same memory through a second block of the same binding.
  if (quads.loads && !options.texel_loads && b.access == Access::read && size_of(b.dtype) <= 4) {
    aliased = true;
    out += fmt::format("layout(std430, set = 0, binding = {}) readonly buffer HK_Quads{} {{ uvec4 hk_quads_{}[]; }};\n",
                       i, i, b.name);
    out += fmt::format("#define LOAD_QUAD_{}(i) hk_quads_{}[uint(i) / {}u]\n", b.name, b.name, per_quad);
  }
  if (quads.stores && b.access != Access::read && quad_storable(b.dtype)) {
    aliased = true;
    out += fmt::format("layout(std430, set = 0, binding = {}) buffer HK_Quads{} {{ uvec4 hk_quads_{}[]; }};\n", i, i,
                       b.name);
  }
  out += fmt::format("layout(std430, set = 0, binding = {}) {}{}buffer HK_Block{} {{ {} hk_{}[]; }};\n", i,
                     b.access == Access::read ? "readonly " : "", aliased ? "" : "restrict ", i, type, b.name);
  return out;
}

}  // namespace heddle
