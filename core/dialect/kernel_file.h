// KernelFile: a hand-scheduled body in shaders/*.hk, parsed: header (signature, tunables, hooks, launch rule) and body.
//
// Purpose: kernels are written once, in files; this reads them, and instantiate() makes a KernelSource for given
// dtypes, tunables and hooks. The built-in files are embedded in the library; a path on disk works as well. Syntax of
// the header: shaders/README.md. A file may include parts (#include "matmul_tiles.hki"), which have lines of their own
// in messages and may open with a header of their own. Errors are UserError with file and line:
// "shaders/matmul.hk:14: unknown directive 'tunable'". Invariants: a parsed file is immutable. Thread safety: const
// functions may be called from any thread.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/contract/kernel_source.h"

namespace heddle {

// Named integer values for expressions in headers: tunables and constants.
using Bindings = std::map<std::string, int64_t, std::less<>>;

// Evaluates + - * / % ( ) , comparisons, && and || (1 or 0), min(a,b), max(a,b), ceildiv(a,b), cond(c,a,b) over int64
// with names from `values`. Throws UserError prefixed by `where`.
int64_t evaluate_expression(std::string_view expression, const Bindings& values, std::string_view where);

struct KernelTunable {
  std::string name;
  int64_t value = 0;             // default
  std::vector<int64_t> choices;  // values the tuner and the tests may force; contains the default
  std::string doc;
  bool fact = false;  // declared with `fact`: says something about the operands, so that it is never searched
  bool any = false;   // a fact declared with [any]: it takes every value, and has no choices
};

struct KernelBuffer {
  std::string name;
  Access access = Access::read;
  std::string dtype;  // a DType name, or the name of a type parameter ("T")
};

struct KernelHook {
  std::string signature;  // "EPILOGUE(x, b, m, n)"
  std::string fallback;   // its default text
};

class KernelFile {
 public:
  // What a line #include "NAME" stands for.
  struct Part {
    std::string origin;  // for messages: "shaders/matmul_tiles.hki"
    std::string text;
  };
  using PartReader = std::function<Part(std::string_view name)>;
  // A part embedded in the library; ValueError lists the known names.
  static Part builtin_part(std::string_view name);

  static KernelFile parse(std::string_view text, std::string origin, const PartReader& parts = builtin_part);
  // A built-in body by name ("matmul"), parsed once per process; ValueError lists the known names.
  static const KernelFile& builtin(std::string_view name);
  static std::vector<std::string> builtin_names();
  // From disk; IoError when unreadable. Parts are looked for beside it, then among the built-in ones.
  static KernelFile load(const std::string& path);

  std::string name;
  std::string doc;
  std::string origin;
  std::vector<KernelBuffer> buffers;
  std::vector<ConstParam> constants;
  std::vector<KernelTunable> tunables;
  std::vector<KernelHook> hooks;
  std::vector<std::string> types;  // type parameters, e.g. {"T"}
  // A stretch of code; `when` is a condition over tunables, empty: always.
  struct Code {
    std::string text, when, when_where;
  };
  std::vector<Code> helpers;
  std::vector<Code> body;
  int first_line = 1;

  struct Options {
    std::map<std::string, DType, std::less<>> types;  // T -> f16; default f32
    Bindings tunables;                                // overrides; unknown names are a ValueError
    std::map<std::string, std::string, std::less<>>
        hooks;                                 // hook name (no arguments) -> text; unknown names are a ValueError
    std::vector<BufferParam> extra_buffers;    // appended: what hooks read and write
    std::vector<ConstParam> extra_constants;   // appended
    std::vector<std::string> dropped_buffers;  // declared buffers to leave out (an output that only the hook writes)
  };
  KernelSource instantiate(const Options& options) const;
  // The launch rule: groups per dimension for these tunables and constant values.
  std::array<uint32_t, 3> groups(const Bindings& tunables, const Bindings& constants) const;

  // Which elements of `buffer` a launch with these constants touches, as its `bounds` line says: [first, end). [0, 0)
  // without such a line.
  std::array<int64_t, 2> bounds(std::string_view buffer, const Bindings& tunables, const Bindings& constants) const;

  // Why instantiate() would refuse these tunables; empty when it takes them.
  std::string refusal(const Bindings& tunables) const;
  // False when nothing that these tunables take mentions that one: its value makes no difference.
  bool matters(std::string_view tunable, const Bindings& tunables) const;

  // The dtypes that a type parameter may take, the default first.
  const std::vector<DType>& dtypes_of(std::string_view type) const;

 private:
  friend class KernelFileParser;
  friend class KernelDirectives;
  struct Expression {
    std::string text;
    std::string where;             // "shaders/matmul.hk:14"
    std::string when, when_where;  // the condition under which its part is taken, and its place
  };
  using Sizes = std::array<Expression, 3>;
  struct SharedDecl {
    std::string name, type;
    Expression count;
  };
  struct Requirement {
    Expression condition;
    std::string message;
  };

  static int64_t evaluate(const Expression& e, const Bindings& values);
  static bool taken(const std::string& when, const std::string& when_where, const Bindings& values);
  static std::string text_of(const std::vector<Code>& code, const Bindings& values);
  // Values of tunables and of `let` lines.
  Bindings tunable_values(const Bindings& overrides) const;
  std::map<std::string, DType, std::less<>> chosen_types(const Options& options) const;
  void add_signature(const Options& options, const std::map<std::string, DType, std::less<>>& chosen,
                     KernelSource& source) const;
  void add_defines(const Options& options, const std::map<std::string, DType, std::less<>>& chosen,
                   const Bindings& values, KernelSource& source) const;

  std::map<std::string, std::vector<DType>, std::less<>> type_choices_;
  std::vector<SharedDecl> shared_;
  std::vector<std::pair<std::string, Expression>> values_;
  std::vector<Sizes> group_, grid_;                   // the last one whose part is taken counts
  std::vector<bool> linear_grid_;                     // of each of grid_
  std::map<std::string, Sizes, std::less<>> bounds_;  // by buffer: first, end
  std::vector<Requirement> requires_;
};

}  // namespace heddle
