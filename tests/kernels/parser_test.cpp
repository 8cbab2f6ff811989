// The kernel file parser: what it reads, and one error line for each mistake.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "heddle/core/base/error.h"
#include "heddle/core/dialect/kernel_file.h"

namespace heddle {
namespace {

constexpr const char* good = R"(// Adds a row.
/*
doc     y = x + bias,
doc     row by row
type    T f32 f16
in      x T
in      bias f32
out     y T                  # dense
const   uint R rows
const   int  OFF
const   float scale
tune    LANES 64 [32 64 128] lanes of a group
tune    FAST 0 [0 1]
shared  float tile cond(FAST, LANES * 2, 0)
hook    HOOK(v, w) = \
        (v) + (w)
hook    DONE() = 1
group   LANES, 1 + FAST
grid    ceildiv(R, LANES), max(1, OFF)
require FAST == 0 || LANES >= 64 : FAST needs 64 lanes
*/
FUNC float twice(float v) { return v + v; }
KERNEL
uint i = 0u;
STORE(y, i, HOOK(LOAD(x, i), twice(scale)));
)";

TEST(KernelFileTest, ReadsEveryDirective) {
  const KernelFile f = KernelFile::parse(good, "shaders/row.hk");
  EXPECT_EQ(f.name, "row");
  EXPECT_EQ(f.doc, "y = x + bias, row by row");
  EXPECT_EQ(f.types, std::vector<std::string>{"T"});
  EXPECT_EQ(f.dtypes_of("T"), (std::vector<DType>{DType::f32, DType::f16}));
  ASSERT_EQ(f.buffers.size(), 3u);
  EXPECT_EQ(f.buffers[2].name, "y");
  EXPECT_EQ(f.buffers[2].access, Access::write);
  EXPECT_EQ(f.buffers[2].dtype, "T");
  ASSERT_EQ(f.constants.size(), 3u);
  EXPECT_EQ(f.constants[1].type, ConstParam::Type::i32);
  EXPECT_EQ(f.constants[2].type, ConstParam::Type::f32);
  ASSERT_EQ(f.tunables.size(), 2u);
  EXPECT_EQ(f.tunables[0].choices, (std::vector<int64_t>{32, 64, 128}));
  EXPECT_EQ(f.tunables[0].doc, "lanes of a group");
  ASSERT_EQ(f.hooks.size(), 2u);
  EXPECT_EQ(f.hooks[0].signature, "HOOK(v, w)");
  EXPECT_EQ(f.hooks[0].fallback, "(v) + (w)");
  EXPECT_EQ(f.first_line, 24);
  ASSERT_EQ(f.helpers.size(), 1u);
  EXPECT_EQ(f.helpers[0].text.rfind("#line 22 \"shaders/row.hk\"\nFUNC float twice", 0), 0u) << f.helpers[0].text;
  ASSERT_EQ(f.body.size(), 1u);
  EXPECT_EQ(f.body[0].text.substr(0, 12), "uint i = 0u;");
}

// A file of two parts, one of which is taken by a tunable and has a header and an include of its own.
KernelFile with_parts() {
  const auto parts = [](std::string_view name) -> KernelFile::Part {
    if (name == "fast.hki")
      return {"d/fast.hki",
              "// Fast.\n/*\ntune WIDE 4 [4 8]\nlet SPAN WIDE * 2\nshared float tile SPAN\ngroup SPAN\ngrid 7\n"
              "require WIDE < SPAN - N : too wide\n*/\n#include \"deep.hki\"\nfast();"};
    if (name == "deep.hki") return {"d/deep.hki", "deep();\n"};
    if (name == "slow.hki") return {"d/slow.hki", "// Slow.\nslow();\n"};
    if (name == "loop.hki") return {"d/loop.hki", "#include \"loop.hki\"\n"};
    throw ValueError("no part");
  };
  return KernelFile::parse(
      "/*\nout y f32\ntune N 0 [0 1 4]\nlet SPAN 1\ngroup 2\n*/\n#include \"deep.hki\"\nKERNEL\nstart();\n"
      "#include \"fast.hki\" when N >= 1\nmiddle();\n#include \"slow.hki\" when N == 0\nend();\n",
      "d/main.hk", parts);
}

TEST(KernelFileTest, PartsHaveTheirOwnLinesAndHeaders) {
  const KernelFile f = with_parts();
  const KernelSource slow = f.instantiate({});
  EXPECT_EQ(slow.helpers, "#line 7 \"d/main.hk\"\n#line 1 \"d/deep.hki\"\ndeep();\n#line 8 \"d/main.hk\"\n");
  EXPECT_EQ(slow.body,
            "start();\n#line 11 \"d/main.hk\"\nmiddle();\n#line 1 \"d/slow.hki\"\n// Slow.\nslow();\n#line 13 "
            "\"d/main.hk\"\nend();\n");
  EXPECT_EQ(slow.first_line, 9);
  EXPECT_EQ(slow.group[0], 2u);
  EXPECT_TRUE(slow.shared.empty());
  EXPECT_EQ(f.groups({}, {})[0], 1u);
  KernelFile::Options o;
  o.tunables = {{"N", 1}, {"WIDE", 8}};
  const KernelSource fast = f.instantiate(o);
  EXPECT_EQ(fast.body,
            "start();\n#line 10 \"d/fast.hki\"\n#line 1 \"d/deep.hki\"\ndeep();\n#line 11 \"d/fast.hki\"\nfast();\n"
            "#line 11 \"d/main.hk\"\nmiddle();\n#line 13 \"d/main.hk\"\nend();\n");
  EXPECT_EQ(fast.group[0], 16u);
  ASSERT_EQ(fast.shared.size(), 1u);
  EXPECT_EQ(fast.shared[0].count, 16u);
  EXPECT_EQ(f.groups(o.tunables, {})[0], 7u);
  EXPECT_NE(std::find(fast.defines.begin(), fast.defines.end(), std::pair<std::string, std::string>("SPAN", "16")),
            fast.defines.end());
  o.tunables = {{"N", 4}, {"WIDE", 4}};
  EXPECT_THROW(f.instantiate(o), ValueError);  // the part's requirement
}

TEST(KernelFileTest, PartErrorsNameThePart) {
  const auto message = [](const std::string& code, const std::string& part) {
    try {
      KernelFile::parse("/*\nout y f32\n*/\n" + code, "m.hk", [&](std::string_view) {
        return KernelFile::Part{"p.hki", part};
      }).instantiate({});
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("#include part\n", "").rfind("m.hk:4: an include is written", 0), 0u);
  EXPECT_EQ(message("#include \"p\" where 1\n", "").rfind("m.hk:4: an include is written", 0), 0u);
  EXPECT_EQ(message("x;\n#include \"p\"\n", "y;\n#include \"p\"\n"), "p.hki:2: p.hki includes itself");
  EXPECT_EQ(message("#include \"p\"\n", "/*\n\ntunable X\n*/\n").rfind("p.hki:3: unknown directive 'tunable'", 0), 0u);
  EXPECT_EQ(message("#include \"p\"\n", "/*\nlet X Y + 1\n*/\nx;").rfind("p.hki:2: unknown name 'Y'", 0), 0u);
  EXPECT_EQ(message("#include \"p\" when Z\n", "x;").rfind("m.hk:4: unknown name 'Z'", 0), 0u);
  EXPECT_EQ(message("#include \"p\"\n", "\n"), "m.hk:3: the body is empty");
}

TEST(KernelFileTest, UnknownPartsAreRefusedByLine) {
  try {
    KernelFile::parse("/*\nout y f32\n*/\nx;\n#include \"matmul_tile.hki\"\n", "m.hk");
    FAIL();
  } catch (const UserError& e) {
    const std::string start = "m.hk:5: no part 'matmul_tile.hki'; did you mean matmul_tiles.hki, ";
    EXPECT_EQ(std::string(e.what()).rfind(start, 0), 0u) << e.what();
  }
}

TEST(KernelFileTest, InstantiatesForTypesTunablesAndHooks) {
  const KernelFile f = KernelFile::parse(good, "shaders/row.hk");
  KernelFile::Options o;
  o.types["T"] = DType::f16;
  o.tunables = {{"FAST", 1}, {"LANES", 128}};
  o.hooks["HOOK"] = "max(v, w)";
  o.extra_buffers = {{"more", DType::i32, Access::read}};
  o.extra_constants = {{"k", ConstParam::Type::u32}};
  o.dropped_buffers = {"bias"};
  const KernelSource s = f.instantiate(o);
  ASSERT_EQ(s.buffers.size(), 3u);
  EXPECT_EQ(s.buffers[0].dtype, DType::f16);
  EXPECT_EQ(s.buffers[1].name, "y");
  EXPECT_EQ(s.buffers[2].name, "more");
  EXPECT_EQ(s.constants.back().name, "k");
  ASSERT_EQ(s.shared.size(), 1u);
  EXPECT_EQ(s.shared[0].count, 256u);
  EXPECT_EQ(s.group, (std::array<uint32_t, 3>{128, 2, 1}));
  const auto value = [&](const std::string& name) {
    for (const auto& [key, text] : s.defines) {
      if (key == name) return text;
    }
    return std::string("missing");
  };
  EXPECT_EQ(value("T"), "float");
  EXPECT_EQ(value("T_f16"), "1");
  EXPECT_EQ(value("LANES"), "128");
  EXPECT_EQ(value("HOOK(v, w)"), "max(v, w)");
  EXPECT_EQ(value("HOOK_GIVEN"), "1");
  EXPECT_EQ(value("DONE_GIVEN"), "0");
  EXPECT_EQ(s.origin, "shaders/row.hk");
  EXPECT_EQ(s.first_line, 24);
  EXPECT_TRUE(f.instantiate({}).shared.empty());
  EXPECT_EQ(f.groups({{"LANES", 32}}, {{"R", 65}, {"OFF", -3}}), (std::array<uint32_t, 3>{3, 1, 1}));
}

template <class E, class F>
std::string message(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "no exception of that type";
}

TEST(KernelFileTest, RefusesWrongOptions) {
  const KernelFile f = KernelFile::parse(good, "shaders/row.hk");
  const auto with = [&](auto change) {
    return [&f, change] {
      KernelFile::Options o;
      change(o);
      f.instantiate(o);
    };
  };
  using O = KernelFile::Options;
  EXPECT_EQ(message<ValueError>(with([](O& o) { o.tunables["LINES"] = 1; })),
            "[kernel row] no tunable 'LINES'; known: LANES, FAST");
  EXPECT_EQ(message<ValueError>(with([](O& o) { o.tunables["LANES"] = 48; })),
            "[kernel row] LANES = 48 is none of its choices 32, 64, 128");
  EXPECT_EQ(message<ValueError>(with([](O& o) {
              o.tunables = {{"FAST", 1}, {"LANES", 32}};
            })),
            "[kernel row] FAST needs 64 lanes; tunables: FAST=1, LANES=32");
  EXPECT_EQ(message<ValueError>(with([](O& o) { o.hooks["HOOKS"] = "1"; })),
            "[kernel row] no hook 'HOOKS'; known: HOOK, DONE");
  EXPECT_EQ(message<ValueError>(with([](O& o) { o.types["U"] = DType::f32; })),
            "[kernel row] no type parameter 'U'; known: T");
  EXPECT_EQ(message<DTypeError>(with([](O& o) { o.types["T"] = DType::i64; })),
            "[kernel row] T = i64 is none of f32, f16");
  EXPECT_EQ(message<ValueError>(with([](O& o) { o.dropped_buffers = {"z"}; })),
            "[kernel row] no buffer 'z' to drop; known: x, bias, y");
  EXPECT_EQ(message<LimitError>(with([](O& o) { o.extra_constants.resize(30); })),
            "[kernel row] 33 constants, of which hooks added 30; at most 32 fit");
  EXPECT_EQ(message<UserError>([&] {
              f.groups({}, {{"OFF", 1}});
            }),
            "shaders/row.hk:19: unknown name 'R' in 'ceildiv(R, LANES)'");
}

// A header of one line (the third of the file), and what is said about it.
TEST(KernelFileTest, ErrorsNameTheLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"tunable X 1 [1]",
       "x.hk:3: unknown directive 'tunable' (known: doc, type, in, out, inout, const, tune, fact, let, shared, hook, "
       "group, grid, "
       "bounds, require)"},
      {"in", "x.hk:3: a buffer has no name"},
      {"in 3x f32", "x.hk:3: '3x' is no name for a buffer"},
      {"in a__b f32", "x.hk:3: 'a__b' is no name for a buffer"},
      {"in x", "x.hk:3: buffer 'x' has no dtype"},
      {"in x f32 fast", "x.hk:3: unexpected 'fast'"},
      {"type T", "x.hk:3: type 'T' has no dtypes"},
      {"const double x", "x.hk:3: constant of type 'double' (known: uint, int, float)"},
      {"const uint", "x.hk:3: a constant has no name"},
      {"tune X", "x.hk:3: '' is no number"},
      {"tune X 4", "x.hk:3: tunable 'X' needs its choices: [1 2 4]"},
      {"tune X 4 [1 2]", "x.hk:3: the choices of 'X' lack its default 4"},
      {"tune X 4 [1 b]", "x.hk:3: 'b' is no number"},
      {"shared half t 4", "x.hk:3: shared array of type 'half' (known: float, uint, int)"},
      {"shared float t", "x.hk:3: shared array 't' has no count"},
      {"hook H = 3", "x.hk:3: a hook is written 'hook NAME(x, y) = text'"},
      {"hook H(a+b) = 3", "x.hk:3: 'a+b' is no parameter for a hook"},
      {"group 1, 2, 3, 4", "x.hk:3: group has 4 dimensions; at most 3"},
      {"group 1,", "x.hk:3: group has an empty dimension"},
      {"grid linear 1, 2", "x.hk:3: 'grid linear' takes one count"},
      {"bounds x 0, 1", "x.hk:3: bounds of 'x', which is no buffer above"},
      {"require 1", "x.hk:3: a requirement is written 'require condition : message'"},
  };
  for (const auto& [line, want] : cases) {
    const std::string text = std::string("// c\n/*\n") + line + "\n*/\nKERNEL\nSTORE(y, 0u, 0);\n";
    EXPECT_EQ(message<UserError>([&] { KernelFile::parse(text, "x.hk"); }), want) << line;
  }
}

TEST(KernelFileTest, BoundsOfABuffer) {
  const auto file = [](const std::string& line) {
    return KernelFile::parse(
        "// c\n/*\nin x f32\nout y f32\nconst uint N\ntune T 2 [2 4]\n" + line + "\n*/\nKERNEL\n;\n", "x.hk");
  };
  const KernelFile f = file("bounds x N - T, N * T");
  EXPECT_EQ(f.bounds("x", {{"T", 4}}, {{"N", 3}}), (std::array<int64_t, 2>{-1, 12}));
  EXPECT_EQ(f.bounds("y", {}, {{"N", 3}}), (std::array<int64_t, 2>{0, 0}));
  EXPECT_EQ(message<UserError>([&] { file("bounds x N"); }), "x.hk:7: bounds are written 'bounds NAME FIRST, END'");
  EXPECT_EQ(message<UserError>([&] { file("bounds x 0, N\nbounds x 0, N"); }),
            "x.hk:8: the bounds of 'x' are declared twice");
}

TEST(KernelFileTest, ErrorsOfTheFile) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "x.hk:1: no header: a line '/*' opens it"},
      {"in x f32\n", "x.hk:1: expected a comment line or the header's '/*'"},
      {"// a\n/*\nin x f32\n", "x.hk:2: the header is not closed: a line '*/' ends it"},
      {"/*\nin x f32\n*/\nKERNEL\n\n", "x.hk:4: the body is empty"},
      {"/*\nin x f32\nconst uint x\n*/\nf\n", "x.hk: a constant 'x' is also a buffer"},
      {"/*\nin x f32\nhook H(x) = 1\n*/\nf\n", "x.hk: parameter 'x' of hook 'H(x)' is also a buffer"},
  };
  for (const auto& [text, want] : cases) {
    EXPECT_EQ(message<UserError>([&, t = text] { KernelFile::parse(t, "x.hk"); }), want) << text;
  }
  EXPECT_NE(message<UserError>([] { KernelFile::parse("/*\nin x f99\n*/\nf\n", "x.hk"); }).find("x.hk:2: "),
            std::string::npos);
  // A mistake in an expression shows when it is evaluated, with its line.
  const KernelFile f = KernelFile::parse("/*\nout y f32\ngroup 4 +\nshared float t N\n*/\nf\n", "x.hk");
  EXPECT_EQ(message<UserError>([&] { f.instantiate({}); }), "x.hk:4: unknown name 'N' in 'N'");
}

TEST(KernelFileTest, BodyWithoutHelpersAndWindowsLines) {
  const KernelFile f = KernelFile::parse("/*\r\nout y f32\r\n*/\r\nSTORE(y, 0u, 1.0f);\r\n", "a/b-c.hk");
  EXPECT_EQ(f.name, "b_c");
  EXPECT_TRUE(f.helpers.empty());
  EXPECT_EQ(f.first_line, 4);
}

TEST(KernelFileTest, BuiltinsAndFiles) {
  const auto names = KernelFile::builtin_names();
  for (const char* name : {"copy", "matmul", "reduce", "scatter_add"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
    EXPECT_EQ(&KernelFile::builtin(name), &KernelFile::builtin(name));
    EXPECT_FALSE(KernelFile::builtin(name).doc.empty());
    EXPECT_LE(KernelFile::builtin(name).constants.size(), 16u) << "room for a hook's constants";
  }
  EXPECT_NE(message<ValueError>([] { KernelFile::builtin("matmull"); }).find(", matmul"), std::string::npos);
  EXPECT_NE(message<IoError>([] { KernelFile::load("/nowhere/x.hk"); }).find("cannot read /nowhere/x.hk"),
            std::string::npos);
  const auto path =
      std::filesystem::temp_directory_path() / ("heddle_parser_test_" + std::to_string(::getpid()) + ".hk");
  std::ofstream(path) << good;
  EXPECT_EQ(KernelFile::load(path.string()).tunables.size(), 2u);
  std::filesystem::remove(path);
}

TEST(KernelFileTest, LinearGridFolds) {
  const KernelFile f = KernelFile::parse("/*\nout y f32\nconst uint N\ngrid linear N\n*/\nf\n", "x.hk");
  EXPECT_EQ(f.groups({}, {{"N", 0}}), (std::array<uint32_t, 3>{0, 1, 1}));
  EXPECT_EQ(f.groups({}, {{"N", 65535}}), (std::array<uint32_t, 3>{65535, 1, 1}));
  for (const int64_t n : {65536, 100000, 131071, 4000000}) {
    const auto g = f.groups({}, {{"N", n}});
    EXPECT_LE(g[0], 65535u);
    EXPECT_GE(int64_t{g[0]} * g[1], n);
    EXPECT_LT(int64_t{g[0]} * g[1] - n, g[1]);
  }
  EXPECT_THROW(f.groups({}, {{"N", int64_t{1} << 40}}), LimitError);
}

TEST(ExpressionTest, Evaluates) {
  const Bindings v = {{"M", 33}, {"TM", 16}, {"z", 0}};
  const std::pair<const char*, int64_t> cases[] = {{"1 + 2 * 3", 7},
                                                   {"(1 + 2) * 3", 9},
                                                   {"10 - 2 - 3", 5},
                                                   {"-M + 1", -32},
                                                   {"M / TM", 2},
                                                   {"M % TM", 1},
                                                   {"-7 / 2", -3},
                                                   {"ceildiv(M, TM)", 3},
                                                   {"ceildiv(32, TM)", 2},
                                                   {"ceildiv(z, TM)", 0},
                                                   {"min(3, 2) + max(3, 2)", 5},
                                                   {"cond(M > TM, 1, 2)", 1},
                                                   {"cond(M == 2, 1, cond(z, 3, 4))", 4},
                                                   {"M >= 33", 1},
                                                   {"M <= 32", 0},
                                                   {"M != 33", 0},
                                                   {"M < 34", 1},
                                                   {"1 && z", 0},
                                                   {"z || M", 1},
                                                   {"z == 0 && (M == 33 || TM == 1)", 1},
                                                   {" ( ( 5 ) ) ", 5}};
  for (const auto& [text, want] : cases) EXPECT_EQ(evaluate_expression(text, v, "here"), want) << text;
}

TEST(ExpressionTest, Refuses) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "here: the expression ends early in ''"},
      {"1 +", "here: the expression ends early in '1 +'"},
      {"1 2", "here: unexpected '2' in '1 2'"},
      {"(1", "here: expected ')' in '(1'"},
      {"N", "here: unknown name 'N' in 'N'"},
      {"f(1)", "here: unknown function 'f' (known: min, max, ceildiv, cond) in 'f(1)'"},
      {"min(1)", "here: expected ',' in 'min(1)'"},
      {"1 / 0", "here: division by zero in '1 / 0'"},
      {"1 % 0", "here: division by zero in '1 % 0'"},
      {"ceildiv(1, 0)", "here: ceildiv by a number below 1 in 'ceildiv(1, 0)'"},
      {"$", "here: unexpected '$' in '$'"},
      {"99999999999999999999", "here: a number is too large in '99999999999999999999'"},
      {"9223372036854775807 + 1", "here: overflow in '9223372036854775807 + 1'"},
      {"9223372036854775807 * 2", "here: overflow in '9223372036854775807 * 2'"}};
  for (const auto& [text, want] : cases) {
    EXPECT_EQ(message<UserError>([t = text] { evaluate_expression(t, {}, "here"); }), want);
  }
  EXPECT_NE(message<UserError>([] {
              evaluate_expression(std::string(100000, '('), {}, "here");
            }).find("too many parentheses"),
            std::string::npos);
}

// A process ended on these: the evaluator called itself for each sign.
TEST(ExpressionTest, AnyNumberOfSigns) {
  EXPECT_EQ(evaluate_expression(std::string(200000, '-') + "7", {}, "here"), 7);
  EXPECT_EQ(evaluate_expression(std::string(200001, '-') + "7", {}, "here"), -7);
  const Bindings least = {{"x", std::numeric_limits<int64_t>::min()}};
  for (const char* text : {"-x", "--x"})
    EXPECT_EQ(message<UserError>([&] { evaluate_expression(text, least, "here"); }),
              std::string("here: overflow in '") + text + "'");
}

TEST(KernelFileTest, LimitsOfSizeAndDepth) {
  const std::string head = "/*\ngroup 1\n", tail = "*/\nx;\n";
  EXPECT_NE(message<UserError>([&] {
              KernelFile::parse(head + std::string(size_t{1} << 22, '\n') + tail, "x.hk");
            }).find("at most 4194304 are read"),
            std::string::npos);
  // A directive of very many rows is read in time that grows with its length.
  std::string rows = "let N 1 \\\n";
  for (int i = 0; i < 200000; ++i) rows += " \\\n";
  EXPECT_NO_THROW(KernelFile::parse(head + rows + "+ 1\n" + tail, "x.hk"));
  const auto chain = [](std::string_view name) {
    return KernelFile::Part{std::string(name), "#include \"" + std::string(name) + "x\"\n"};
  };
  EXPECT_NE(message<UserError>([&] {
              KernelFile::parse(head + "*/\n#include \"p\"\n", "x.hk", chain);
            }).find("more than 100 deep"),
            std::string::npos);
}

}  // namespace
}  // namespace heddle
