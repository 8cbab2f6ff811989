#include "core/kernel/printer.h"

#include <fmt/format.h>

#include <string_view>

#include "core/base/error.h"
#include "core/kernel/prelude.h"

namespace heddle {
namespace {

std::string_view constant_type(ConstParam::Type type) {
  switch (type) {
    case ConstParam::Type::u32:
      return "uint";
    case ConstParam::Type::i32:
      return "int";
    case ConstParam::Type::f32:
      return "float";
  }
  throw ValueError("[print] unknown constant type");
}

// The suffix of the prelude's storage macros (HK_LOAD_f16, ...) and of the HK_USE_ flags.
std::string_view storage(DType t) { return t == DType::boolean ? "bool" : name_of(t); }

bool is_identifier(std::string_view s) {
  if (s.empty() || (s[0] >= '0' && s[0] <= '9')) return false;
  for (const char c : s) {
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return s.find("__") == std::string_view::npos && s.substr(0, 3) != "gl_";
}

void check(const KernelSource& s) {
  const auto fail = [&](const std::string& what) { throw ValueError(fmt::format("[kernel {}] {}", s.name, what)); };
  if (s.constants.size() > KernelSource::max_constants) {
    fail(fmt::format("{} constants; at most {} fit in 128 bytes", s.constants.size(), KernelSource::max_constants));
  }
  for (const auto& b : s.buffers) {
    if (!is_identifier(b.name)) fail("'" + b.name + "' is no identifier (letters, digits, single underscores)");
  }
  for (const auto& c : s.constants) {
    if (!is_identifier(c.name)) fail("'" + c.name + "' is no identifier (letters, digits, single underscores)");
  }
  for (const auto& a : s.shared) {
    if (a.type != "float" && a.type != "uint" && a.type != "int")
      fail("shared array of type '" + a.type + "'; known: float, uint, int");
  }
  for (const uint32_t lanes : s.group) {
    if (lanes == 0) fail("a group has no lanes");
  }
}

// One #define; a value of several lines becomes one logical line. Line comments would swallow the rest, so they go.
std::string define(std::string_view name, std::string_view value) {
  std::string text = fmt::format("#define {} ", name);
  while (!value.empty() && (value.back() == '\n' || value.back() == ' ')) value.remove_suffix(1);
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '/' && i + 1 < value.size() && value[i + 1] == '/') {
      while (i < value.size() && value[i] != '\n') ++i;
      if (i == value.size()) break;
    }
    if (value[i] == '\n') text += " \\";
    text += value[i];
  }
  return text + "\n";
}

std::string value_of(const KernelSource& s, std::string_view name, std::string_view fallback) {
  for (const auto& [key, value] : s.defines) {
    if (key == name) return value;
  }
  return std::string(fallback);
}

// Everything of a source that may name a prelude feature.
std::string all_text(const KernelSource& s) {
  std::string text = s.helpers + "\n" + s.body;
  for (const auto& [key, value] : s.defines) text += "\n" + key + " " + value;
  for (const auto& a : s.shared) text += "\n" + a.type;
  return text;
}

struct Printer {
  const KernelSource& s;
  Target target;
  PrintOptions options;
  std::string out{};

  bool glsl() const { return target == Target::glsl; }

  std::string text(std::string_view dialect) const { return glsl() ? glsl_literals(dialect) : std::string(dialect); }

  std::string buffer_type(DType t) const {
    const bool c = target == Target::opencl;
    switch (t) {
      case DType::f32:
        return "float";
      case DType::f64:
        return "double";
      case DType::i32:
        return "int";
      case DType::i64:
        return glsl() ? "int64_t" : c ? "long" : "long long";
      case DType::i8:
        return glsl() ? "int8_t" : c ? "char" : "signed char";
      case DType::u8:
      case DType::boolean:
        return glsl() ? "uint8_t" : c ? "uchar" : "unsigned char";
      case DType::bf16:
        return glsl() ? "uint16_t" : c ? "ushort" : "unsigned short";
      case DType::f16:
        return glsl() ? "uint16_t" : c ? "half" : "unsigned short";
    }
    throw ValueError("[print] unknown dtype");
  }

  bool uses(std::initializer_list<DType> types) const {
    for (const auto& b : s.buffers) {
      for (const DType t : types) {
        if (b.dtype == t) return true;
      }
    }
    return false;
  }

  void extensions(const Identifiers& used) {
    out +=
        "#version 450\n#extension GL_GOOGLE_cpp_style_line_directive : require\n#extension "
        "GL_EXT_control_flow_attributes : require\n";
    if (uses({DType::f16, DType::bf16})) out += "#extension GL_EXT_shader_16bit_storage : require\n";
    if (uses({DType::i8, DType::u8, DType::boolean})) out += "#extension GL_EXT_shader_8bit_storage : require\n";
    if (used.contains("I64")) out += "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n";
    out += fmt::format("layout(local_size_x = {}, local_size_y = {}, local_size_z = {}) in;\n", s.group[0], s.group[1],
                       s.group[2]);
  }

  void prelude() {
    Identifiers used = identifiers(all_text(s));
    for (const auto& b : s.buffers) {
      used.insert(fmt::format("HK_LOAD_{}", storage(b.dtype)));
      if (b.dtype == DType::f64) used.insert("F64");
      if (b.dtype == DType::i64) used.insert("I64");
    }
    if (glsl()) extensions(used);
    if (used.contains("F64")) out += "#define HK_HAS_F64 1\n";
    if (used.contains("I64")) out += "#define HK_HAS_I64 1\n";
    if (options.f16_arithmetic) out += "#define HK_HAS_F16_ARITHMETIC 1\n";
    out += fmt::format("#define HK_VW {}\n", value_of(s, "VW", "1"));
    out += fmt::format("#define GROUP_SIZE(d) ((d) == 0 ? {}u : (d) == 1 ? {}u : {}u)\n", s.group[0], s.group[1],
                       s.group[2]);
    out += select_prelude(target, used);
  }

  void buffers() {
    for (size_t i = 0; i < s.buffers.size(); ++i) {
      const auto& b = s.buffers[i];
      if (glsl()) {
        out += fmt::format("layout(std430, set = 0, binding = {}) {}{}buffer HK_Block{} {{ {} hk_{}[]; }};\n", i,
                           b.access == Access::read ? "readonly " : "", b.may_alias ? "" : "restrict ", i,
                           buffer_type(b.dtype), b.name);
      }
      for (const char* verb : {"LOAD", "VLOAD"}) {
        out += fmt::format("#define {}_{}(i) HK_{}_{}(hk_{}, i)\n", verb, b.name, verb, storage(b.dtype), b.name);
        // In OpenCL C the base becomes a pointer that compilers keep in a register; sums of indices they "vectorise"
        // instead.
        const char* form = target == Target::opencl ? "(hk_{} + (base)), i" : "hk_{}, (base) + (i)";
        out += fmt::format("#define {}2_{}(base, i) HK_{}_{}({})\n", verb, b.name, verb, storage(b.dtype),
                           fmt::format(fmt::runtime(form), b.name));
      }
      const bool c = target == Target::opencl;  // the other targets spell these two with LOAD and STORE
      if (c) out += fmt::format("#define TILE_LOAD_{}(base, stride, a, at, pitch) HK_TILE_{}(hk_{}, base, stride, a, at, pitch)\n", b.name, storage(b.dtype), b.name);
      if (b.access == Access::read) continue;
      for (const char* verb : {"STORE", "VSTORE"}) {
        out += fmt::format("#define {}_{}(i, v) HK_{}_{}(hk_{}, i, v)\n", verb, b.name, verb, storage(b.dtype), b.name);
      }
      if (c) out += fmt::format("#define STREAM_{}(i, a, n) HK_STREAM_{}(hk_{}, i, a, n)\n", b.name, storage(b.dtype), b.name);
    }
  }

  std::string pointer(const BufferParam& b) const {
    const bool c = target == Target::opencl;
    const char* no_alias = b.may_alias ? "" : c ? " restrict" : " __restrict__";
    return fmt::format("{}{}{}*{}", c ? "__global " : "", b.access == Access::read ? "const " : "",
                       buffer_type(b.dtype), no_alias);
  }

  void signature() {
    if (glsl()) {
      if (!s.constants.empty()) {
        out += "layout(push_constant) uniform HK_Constants {\n";
        for (const auto& c : s.constants) out += fmt::format("  {} {};\n", constant_type(c.type), c.name);
        out += "};\n";
      }
      shared("shared ");
      out += "void main() {\n";
      return;
    }
    std::string arguments;
    const auto add = [&](const std::string& a) { arguments += (arguments.empty() ? "\n    " : ",\n    ") + a; };
    const bool c = target == Target::opencl;
    for (const auto& b : s.buffers) {
      add(fmt::format("{} hk_{}{}", pointer(b), c ? "base_" : "", b.name));
      if (c) add(fmt::format("ulong hk_offset_{}", b.name));
    }
    for (const auto& k : s.constants) add(fmt::format("const {} {}", constant_type(k.type), k.name));
    const std::string lanes = fmt::format("{}, {}, {}", s.group[0], s.group[1], s.group[2]);
    if (c) {
      out += fmt::format("__kernel HK_WIDE __attribute__((reqd_work_group_size({}))) void heddle_kernel({}) {{\n", lanes,
                         arguments);
      for (const auto& b : s.buffers) {
        const char* constness = b.access == Access::read ? "const " : "";
        out += fmt::format("  {} hk_{} = ({})((__global {}uchar*)hk_base_{} + hk_offset_{});\n", pointer(b), b.name,
                           pointer(b), constness, b.name, b.name);
      }
      shared("  __local ");
    } else {
      const uint32_t count = s.group[0] * s.group[1] * s.group[2];
      out += fmt::format("extern \"C\" __global__ void __launch_bounds__({}) heddle_kernel({}) {{\n", count, arguments);
      shared("  __shared__ ");
    }
  }

  void shared(std::string_view qualifier) {
    for (const auto& a : s.shared) {
      if (a.count > 0) out += fmt::format("{}{} {}[{}];\n", qualifier, a.type, a.name, a.count);
    }
  }

  std::string run() {
    check(s);
    prelude();
    buffers();
    for (const auto& [name, value] : s.defines) out += define(name, text(value));
    if (!s.helpers.empty()) out += fmt::format("#line 1 \"{} (helpers)\"\n", s.origin) + text(s.helpers) + "\n";
    signature();
    out += fmt::format("#line {} \"{}\"\n", s.first_line, s.origin) + text(s.body);
    return out + "\n}\n";
  }
};

}  // namespace

std::string print(const KernelSource& source, Target target, const PrintOptions& options) {
  if (target == Target::none)
    throw ValueError(fmt::format("[kernel {}] this device takes no kernels (target none)", source.name));
  return Printer{source, target, options}.run();
}

}  // namespace heddle
