#include "heddle/core/dialect/printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "heddle/core/base/ascii.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/lines.h"
#include "heddle/core/dialect/c_text.h"
#include "heddle/core/dialect/glsl_text.h"
#include "heddle/core/dialect/prelude.h"
#include "heddle/core/dialect/words.h"

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

// Names that GLSL keeps for itself are none.
bool is_free_name(std::string_view s) { return is_identifier(s) && !s.starts_with("gl_"); }

void check(const KernelSource& s) {
  const auto fail = [&](const std::string& what) { throw ValueError(fmt::format("[kernel {}] {}", s.name, what)); };
  if (s.constants.size() > KernelSource::max_constants) {
    fail(fmt::format("{} constants; at most {} fit in 128 bytes", s.constants.size(), KernelSource::max_constants));
  }
  for (const auto& b : s.buffers) {
    if (!is_free_name(b.name)) fail("'" + b.name + "' is no identifier (letters, digits, single underscores)");
  }
  for (const auto& c : s.constants) {
    if (!is_free_name(c.name)) fail("'" + c.name + "' is no identifier (letters, digits, single underscores)");
  }
  for (const auto& a : s.shared) {
    if (a.type != "float" && a.type != "uint" && a.type != "int")
      fail("shared array of type '" + a.type + "'; known: float, uint, int");
  }
  for (const uint32_t lanes : s.group) {
    if (lanes == 0) fail("a group has no lanes");
  }
}

// Of a part's function: a loop over the groups that it takes, left open.
constexpr std::string_view take_groups =
    "  if (!hkw_enter(hkw_shared, hkw_phase)) return;\n"
    "  const uint hkw_all = hk_groups0 * hk_groups1 * hk_groups2, hkw_chunks = hkw_chunks_of(hkw_all);\n"
    "  uint hkw_done = 0u, hkw_behind = 0u, hkw_chunk = 0u;\n"
    "  for (; hkw_take(hkw_shared, hkw_phase, hkw_chunks, &hkw_behind, &hkw_chunk); ++hkw_done) {\n"
    "  const uint hkw_end_of_chunk = (uint)((ulong)(hkw_chunk + 1u) * hkw_all / hkw_chunks);\n"
    "  for (uint hkw_at = (uint)((ulong)hkw_chunk * hkw_all / hkw_chunks); hkw_at < hkw_end_of_chunk; ++hkw_at) {\n"
    "  const uint hk_group0 = hkw_at % hk_groups0, hk_group1 = hkw_at / hk_groups0 % hk_groups1;\n"
    "  const uint hk_group2 = hkw_at / hk_groups0 / hk_groups1;\n";

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

// Whether F64 stands in `#ifdef T_f64` alone, in a kernel of another type, which runs on devices without it as well.
bool leaves_f64_out(const KernelSource& s, const Identifiers& used) {
  return used.contains("T_f64") && value_of(s, "T_f64", "0") != "1" &&
         std::ranges::none_of(s.defines, [](const auto& d) { return identifiers(d.second).contains("F64"); });
}

// What the lines of a text define.
std::vector<std::string> defined_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    const auto skip_spaces = [&] { line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size())); };
    skip_spaces();
    if (!line.starts_with('#')) continue;
    line.remove_prefix(1);
    skip_spaces();
    if (!line.starts_with("define")) continue;
    line.remove_prefix(6);
    skip_spaces();
    const auto end = std::find_if(line.begin(), line.end(), [](char c) { return !continues_name(c); });
    names.emplace_back(line.begin(), end);
  }
  return names;
}

// The functions of a kernel's helpers: "FUNC float name(".
std::vector<std::string> function_names(std::string_view helpers) {
  std::vector<std::string> names;
  for (size_t at = helpers.find("FUNC "); at != std::string_view::npos; at = helpers.find("FUNC ", at + 1)) {
    const size_t end = std::min(helpers.find('(', at), helpers.size());
    size_t begin = end;
    while (begin > at && continues_name(helpers[begin - 1])) --begin;
    names.emplace_back(helpers.substr(begin, end - begin));
  }
  return names;
}

bool loads_quads(const Identifiers& used) { return used.contains("LOAD_QUAD") || used.contains("QUAD_ASYNC"); }

struct Printer {
  const KernelSource& s;
  Target target;
  PrintOptions options;
  std::string out{};
  QuadUse quads_{};
  bool vquads_ = false;
  bool swizzled_ = false;  // warpgroups find tiles by their addresses: the shared arrays begin at a multiple of 1 KiB

  bool glsl() const { return target == Target::glsl; }
  bool c99() const { return target == Target::c; }

  std::string text(std::string_view dialect) const { return glsl() ? glsl_literals(dialect) : std::string(dialect); }

  bool half_bits() const { return value_of(s, half_bits_define, "0") == "1"; }
  std::string_view storage_of(DType t) const { return is_half(t) && half_bits() ? "bits" : storage(t); }

  std::string buffer_type(DType t) const {
    if (c99()) return std::string(c_type(t));
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
        return glsl() ? "uint16_t" : !c ? "unsigned short" : half_bits() ? "ushort" : "half";
    }
    throw ValueError("[print] unknown dtype");
  }

  void prelude() {
    Identifiers used = identifiers(all_text(s));
    if (leaves_f64_out(s, used)) used.erase("F64");
    for (const auto& b : s.buffers) {
      used.insert(fmt::format("HK_LOAD_{}", storage_of(b.dtype)));
      if (options.texel_loads) used.insert("HK_TEXEL_LOAD");
      if (glsl() && in_words(b.dtype, options)) used.insert("HK_WORD_LOAD");
      if (b.dtype == DType::f64) used.insert("F64");
      if (b.dtype == DType::i64) used.insert("I64");
    }
    if (used.contains("WIDEN")) used.insert("I64");  // of a value that no buffer holds
    if (options.halves_by_integers) used.insert("HK_HALVES_BY_INTEGERS");
    if (glsl()) out += glsl_head(s, options, used);
    if (used.contains("F64")) out += "#define HK_HAS_F64 1\n";
    if (used.contains("I64")) out += "#define HK_HAS_I64 1\n";
    if (used.contains("I64") && glsl() && options.words64) out += "#define HK_I64_WORDS 1\n";
    if (options.subgroup_shuffle || target == Target::cuda) out += "#define HK_HAS_SUBGROUPS 1\n";
    if (options.int8_dot || target == Target::cuda) out += "#define HK_HAS_INT8_DOT 1\n";
    if (options.matrix == MatrixApi::glsl_khr) out += "#define HK_MATRIX_KHR 1\n";
    if (options.matrix == MatrixApi::glsl_nv) out += "#define HK_MATRIX_NV 1\n";
    if (options.f16_arithmetic) out += "#define HK_HAS_F16_ARITHMETIC 1\n";
    if (used.contains("CU_PRODUCT")) {
      if (options.core_units == CoreUnits::tiles) out += "#define HK_HAS_CORE_UNITS 1\n";
      if (options.core_units == CoreUnits::pairs) out += "#define HK_HAS_PAIR_DOTS 1\n";
    }
    if (options.texel_loads)
      out += fmt::format("#define HK_FETCH(b, i) {}(b, int(i))\n", options.texel_images ? "imageLoad" : "texelFetch");
    out += fmt::format("#define HK_VW {}\n", value_of(s, "VW", "1"));
    out += fmt::format("#define GROUP_SIZE(d) ((d) == 0 ? {}u : (d) == 1 ? {}u : {}u)\n", s.group[0], s.group[1],
                       s.group[2]);
    out += select_prelude(target, used);
    quads_ = {loads_quads(used), used.contains("STORE_QUAD")};
    vquads_ = used.contains("VQUAD");
    swizzled_ = used.contains("WG_MULTIPLY");
  }

  void buffers() {
    const std::vector<BufferSlot> layout = descriptors(s, options);
    for (size_t i = 0; i < s.buffers.size(); ++i) {
      const auto& b = s.buffers[i];
      if (quads_.loads)
        out += fmt::format("#define QUAD_ELEMENT_{}(q, j) HK_QUAD_{}(q, j)\n", b.name, storage_of(b.dtype));
      const bool texels = glsl() && layout[i].kind == BufferSlot::Kind::texels;
      const bool words = glsl() && in_words(b.dtype, options);
      if (glsl()) out += glsl_block(s, options, i, layout, words ? "uint" : buffer_type(b.dtype), quads_);
      for (const char* verb : {"LOAD", "VLOAD"}) {
        const char* how = texels ? "TEXEL_" : words ? "WORD_" : "";
        out += fmt::format("#define {}_{}(i) HK_{}{}_{}(hk_{}, i)\n", verb, b.name, how, verb, storage_of(b.dtype),
                           b.name);
        // In OpenCL C and C the base becomes a pointer that compilers keep in a register; sums of indices they
        // "vectorise" instead.
        const char* form = target == Target::opencl || c99() ? "(hk_{} + (base)), i" : "hk_{}, (base) + (i)";
        out += fmt::format("#define {}2_{}(base, i) HK_{}{}_{}({})\n", verb, b.name, how, verb, storage_of(b.dtype),
                           fmt::format(fmt::runtime(form), b.name));
      }
      const bool c = target == Target::opencl;  // the other targets spell these two with LOAD and STORE
      if (c)
        out += fmt::format(
            "#define TILE_LOAD_{}(base, stride, a, at, pitch, ahead) HK_TILE_{}(hk_{}, base, stride, a, at, pitch, "
            "ahead)\n",
            b.name, storage_of(b.dtype), b.name);
      if (glsl() && b.dtype == DType::f32 && vquads_)
        out += fmt::format("#define VQUAD_{}(q) HK_VQUAD_f32(q)\n", b.name);
      if (c) out += fmt::format("#define WILL_READ_{}(i) HK_WILL_READ(hk_{}, i)\n", b.name, b.name);
      if (b.access == Access::read) continue;
      if (c) out += fmt::format("#define WILL_WRITE_{}(i) HK_WILL_WRITE(hk_{}, i)\n", b.name, b.name);
      if (glsl() && quads_.stores && quad_storable(b.dtype)) {
        out += fmt::format("#define STORE_QUAD_{}(i, a) HK_STORE_QUAD_{}(hk_quads_{}, i, a)\n", b.name,
                           storage_of(b.dtype), b.name);
      }
      for (const char* verb : {"STORE", "VSTORE"}) {
        out += fmt::format("#define {}_{}(i, v) HK_{}{}_{}(hk_{}, i, v)\n", verb, b.name, words ? "WORD_" : "", verb,
                           storage_of(b.dtype), b.name);
      }
      if (c)
        out += fmt::format("#define STREAM_{}(i, a, n) HK_STREAM_{}(hk_{}, i, a, n)\n", b.name, storage_of(b.dtype),
                           b.name);
    }
  }

  std::string pointer(const BufferParam& b) const {
    const bool c = target == Target::opencl;
    const char* no_alias = b.may_alias ? "" : c || c99() ? " restrict" : " __restrict__";
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
      shared("shared ", "");
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
      const std::string subgroup =
          options.subgroup_lanes > 0 && value_of(s, many_values_define, "0") == "1"
              ? fmt::format("__attribute__((intel_reqd_sub_group_size({}))) ", options.subgroup_lanes)
              : "";
      out += fmt::format("__kernel HK_WIDE __attribute__((reqd_work_group_size({}))) {}void heddle_kernel({}) {{\n",
                         lanes, subgroup, arguments);
      for (const auto& b : s.buffers) {
        const char* constness = b.access == Access::read ? "const " : "";
        out += fmt::format("  {} hk_{} = ({})((__global {}uchar*)hk_base_{} + hk_offset_{});\n", pointer(b), b.name,
                           pointer(b), constness, b.name, b.name);
      }
      shared("  __local ", " __attribute__((aligned(16)))");
    } else {
      const uint32_t count = s.group[0] * s.group[1] * s.group[2];
      const std::string resident = value_of(s, resident_define, "0");
      out += fmt::format("extern \"C\" __global__ void __launch_bounds__({}{}) heddle_kernel({}) {{\n", count,
                         resident == "0" ? " HK_RESIDENT" : ", " + resident, arguments);
      const std::string qualifier = fmt::format("__shared__ __align__({}) ", swizzled_ ? 1024 : 16);
      shared_bytes(s) > static_shared_bytes ? dynamic_shared(qualifier) : shared("  " + qualifier, "");
    }
  }

  void shared(std::string_view qualifier, std::string_view attribute) {
    for (const auto& a : s.shared) {
      if (a.count > 0) out += fmt::format("{}{} {}[{}]{};\n", qualifier, a.type, a.name, a.count, attribute);
    }
  }

  void dynamic_shared(std::string_view qualifier) {
    out += fmt::format("  extern {}unsigned char hk_shared[];\n", qualifier);
    uint64_t offset = 0;
    for (const auto& a : s.shared) {
      out += fmt::format("  {}* const {} = ({}*)(hk_shared + {});\n", a.type, a.name, a.type, offset);
      offset += array_bytes(a);
    }
  }

  std::string run_c99() {
    prelude();
    buffers();
    for (const auto& [name, value] : s.defines) out += define(name, value);
    std::vector<CArgument> arguments;
    for (const auto& b : s.buffers) arguments.push_back({pointer(b), "hk_" + b.name});
    for (const auto& k : s.constants) arguments.push_back({fmt::format("const {}", constant_type(k.type)), k.name});
    return without_line_marks(out + c_functions(s, arguments));
  }

  // A function over pointers that walks over all groups, or over those that it takes; what its text defines is taken
  // back behind it.
  std::string run_part(std::string_view name, PartGroups groups) {
    check(s);
    const Identifiers used = identifiers(all_text(s));
    quads_ = {loads_quads(used), used.contains("STORE_QUAD")};
    buffers();
    for (const auto& [key, value] : s.defines) out += define(key, value);
    for (const std::string& function : function_names(s.helpers))
      out += fmt::format("#define {0} {1}_{0}\n", function, name);
    out += fmt::format("#line 1 \"{} (helpers)\"\n{}\n", s.origin, s.helpers);
    const bool taken = groups == PartGroups::taken;
    out += fmt::format("static HK_WIDE void {}({}const uint hk_groups0, const uint hk_groups1, const uint hk_groups2",
                       name, taken ? "hkw_words hkw_shared, const uint hkw_phase, " : "");
    for (const auto& b : s.buffers) out += fmt::format(",\n    {} hk_{}", pointer(b), b.name);
    for (const auto& k : s.constants) out += fmt::format(",\n    const {} {}", constant_type(k.type), k.name);
    out += ") {\n";
    if (taken) {
      out += take_groups;
    } else {
      for (const char* axis : {"2", "1", "0"})
        out += fmt::format("  for (uint hk_group{0} = 0u; hk_group{0} < hk_groups{0}; ++hk_group{0})\n", axis);
    }
    out += fmt::format("  {{\n#line {} \"{}\"\n{}\n  }}\n{}}}\n", s.first_line, s.origin, s.body,
                       taken ? "  }\n  }\n  hkw_leave(hkw_shared, hkw_phase, hkw_chunks, hkw_done);\n" : "");
    for (const std::string& defined : defined_names(out)) out += fmt::format("#undef {}\n", defined);
    return out;
  }

  std::string run() {
    check(s);
    if (c99()) return run_c99();
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

std::vector<BufferSlot> descriptors(const KernelSource& source, const PrintOptions& options) {
  std::vector<BufferSlot> all;
  const bool quads = options.texel_loads && loads_quads(identifiers(all_text(source)));
  const auto texels = [&](const BufferParam& b) {
    return options.texel_loads && b.access == Access::read && size_of(b.dtype) <= 4;
  };
  for (size_t i = 0; i < source.buffers.size(); ++i) {
    all.push_back(texels(source.buffers[i]) ? BufferSlot{i, BufferSlot::Kind::texels, options.texel_images}
                                            : BufferSlot{i});
  }
  for (size_t i = 0; quads && i < source.buffers.size(); ++i) {
    if (texels(source.buffers[i])) all.push_back({i, BufferSlot::Kind::quads, options.texel_images});
  }
  return all;
}

std::string print(const KernelSource& source, Target target, const PrintOptions& options) {
  if (target == Target::none)
    throw ValueError(fmt::format("[kernel {}] this device takes no kernels (target none)", source.name));
  return Printer{source, target, options}.run();
}

std::string part_refusal(const KernelSource& source) {
  if (source.group != std::array<uint32_t, 3>{1, 1, 1}) return "its groups have several lanes";
  if (std::any_of(source.shared.begin(), source.shared.end(), [](const SharedParam& a) { return a.count > 0; }))
    return "it has shared arrays";
  return identifiers(source.body).contains("return") ? "its text returns" : "";
}

std::string part_vector_width(const KernelSource& source) {
  const Identifiers used = identifiers(all_text(source));
  for (const char* name :
       {"VEC", "VLOAD", "VLOAD2", "VSTORE", "VSPLAT", "VFMA", "VSUM", "VFROM", "VTO", "VTRANSPOSE"}) {
    if (used.contains(name)) return value_of(source, "VW", "1");
  }
  return "";
}

std::string print_part(const KernelSource& source, std::string_view name, PartGroups groups) {
  if (const std::string why = part_refusal(source); !why.empty())
    throw ValueError(fmt::format("[kernel {}] cannot be a part of another one: {}", source.name, why));
  return Printer{source, Target::opencl, {}}.run_part(name, groups);
}

std::string part_prologue(PartGroups groups) {
  const auto by_axis = [](std::string_view macro, std::string_view value) {
    return fmt::format("#undef {0}\n#define {0}(d) ((d) == 0 ? {1}0 : (d) == 1 ? {1}1 : {1}2)\n", macro, value);
  };
  return by_axis("GROUP_ID", "hk_group") + by_axis("NUM_GROUPS", "hk_groups") +
         "#undef LOCAL_ID\n#define LOCAL_ID(d) 0u\n#undef BARRIER\n#define BARRIER()\n" +
         std::string(groups == PartGroups::taken ? prelude_text("prelude.parts") : "");
}

}  // namespace heddle
