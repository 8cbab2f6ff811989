#include "tests/kernels/body_variants.h"

#include <array>
#include <map>

#include "heddle/core/base/dtype.h"

namespace heddle {
namespace {

using TypesByName = std::map<std::string, DType, std::less<>>;

void add_matmul(std::vector<BodyVariant>& all, int64_t vw) {
  const TypesByName f32, half = {{"TA", DType::f16}, {"TB", DType::bf16}, {"TC", DType::f16}};
  const Bindings unit = {{"A_K1", 1}, {"B_N1", 1}}, dots = {{"A_K1", 1}, {"B_K1", 1}}, none;
  const auto add = [&](Bindings tunables, const Bindings& strides, const TypesByName& types, bool hooks) {
    for (const auto& [name, value] : strides) tunables[name] = value;
    BodyVariant v{"matmul", {}};
    v.options.tunables = tunables;
    v.options.types = types;
    if (hooks) {
      v.options.hooks = {
          {"PROLOGUE_A", "max(x, 0.0f)"}, {"PROLOGUE_B", "exp(x)"}, {"EPILOGUE", "STORE(y, n, tanh(x) + LOAD(y, n))"}};
      v.options.extra_buffers = {{"y", DType::f32, Access::read_write}};
      v.options.dropped_buffers = {"dst"};
    }
    all.push_back(v);
  };
  const Bindings schedules[] = {{{"SCHEDULE", 0}},
                                {{"SCHEDULE", 1}, {"TM", 16}, {"TN", 32}, {"TK", 8}, {"RM", 2}, {"RN", 4}},
                                {{"SCHEDULE", 2}, {"VW", vw}, {"MR", 4}, {"NV", 2}},
                                {{"SCHEDULE", 3}, {"VW", vw}, {"MR", 4}, {"NV", 2}, {"MB", 2}, {"NB", 2}, {"KC", 64}}};
  for (const auto& s : schedules) {
    add(s, unit, f32, false);
    add(s, none, half, true);
  }
  const TypesByName brains = {{"TA", DType::bf16}, {"TB", DType::bf16}, {"TC", DType::bf16}};
  for (const Bindings& lies : {unit, dots})
    add({{"SCHEDULE", 8}, {"MB", 2}, {"NB", 2}, {"KC", 64}}, lies, brains, lies == dots);
  const Bindings dot = {{"SCHEDULE", 4}, {"VW", vw}, {"MR", 2}, {"NR", 2}};
  add(dot, dots, f32, false);
  add(dot, dots, half, true);
  const Bindings tiles = {{"SCHEDULE", 1}, {"TM", 64}, {"TN", 64},      {"TK", 32}, {"RM", 4},
                          {"RN", 4},       {"RUN", 4}, {"PREFETCH", 1}, {"BAND", 8}};
  Bindings wide = tiles, bytes = tiles;
  wide["A_WIDE"] = wide["B_WIDE"] = 4;
  add(wide, unit, f32, true);
  Bindings quads = {{"SCHEDULE", 2}, {"VW", 4}, {"MR", 8}, {"NV", 2}, {"A_WIDE", 4}, {"B_WIDE", 4}};
  add(quads, unit, f32, false);
  add(quads, dots, f32, true);
  bytes["INT8"] = 1;
  bytes["A_WIDE"] = 16;
  add(bytes, unit, {{"TA", DType::i8}, {"TB", DType::i8}, {"TC", DType::i32}, {"ACC", DType::i32}}, false);
  for (const DType t : {DType::f64, DType::i32, DType::i64})
    add(schedules[0], none, {{"TA", t}, {"TB", t}, {"TC", t}, {"ACC", t}}, false);
}

void add_conv(std::vector<BodyVariant>& all, int64_t vw) {
  const TypesByName half = {{"TX", DType::f16}, {"TW", DType::bf16}, {"TY", DType::f16}};
  for (const int64_t schedule : {0, 1, 2, 3, 4, 5, 6}) {
    Bindings forward = {{"SCHEDULE", schedule}, {"KH", 3}, {"KW", 3}, {"SW", 2}, {"DH", 2}};
    if (schedule == 5) forward["SW"] = forward["DH"] = 1;
    if (schedule == 6) {
      forward["KH"] = forward["KW"] = 1;
      forward["C_ALL"] = 20;
    }
    if (schedule == 2 || schedule >= 5) forward["VW"] = vw;
    Bindings gradient = forward, weights = forward;
    gradient["MODE"] = gradient["LAST"] = 1;
    if (schedule == 4) weights["VW"] = vw;
    if (schedule == 5) weights["NB"] = 4;
    for (const Bindings& t : {forward, gradient}) all.push_back({"conv", {half, t, {}, {}, {}, {}}});
    if (schedule < 6) all.push_back({"conv_weight_grad", {half, weights, {}, {}, {}, {}}});
  }
  const Bindings planes = {{"SCHEDULE", 7}, {"FLAT", 1}, {"VW", vw}, {"MR", 3}, {"NV", 2}},
                 turned = {{"SCHEDULE", 6}, {"C_ALL", 20}, {"W_O1", 1}, {"VW", vw}, {"MR", 3}};
  all.push_back({"conv_weight_grad", {half, planes, {}, {}, {}, {}}});
  all.push_back({"conv", {half, turned, {}, {}, {}, {}}});
}

void add_attention(std::vector<BodyVariant>& all, int64_t vw) {
  const TypesByName f32, half = {{"T", DType::f16}, {"TO", DType::f16}, {"TB", DType::bf16}};
  const Bindings every = {{"CAUSAL", 1}, {"BIAS", 1}, {"MASK", 1}, {"LENGTHS", 1}, {"DROPOUT", 1}};
  const auto add = [&](const char* body, Bindings tunables, const TypesByName& types) {
    if (types.empty()) {
      tunables["CAUSAL"] = 1;
    } else {
      tunables.insert(every.begin(), every.end());
    }
    BodyVariant v{body, {}};
    v.options.tunables = tunables;
    v.options.types = types;
    if (types.empty()) v.options.dropped_buffers = {"bias", "mask", "lengths", "key"};
    all.push_back(v);
  };
  const Bindings tiles = {{"SCHEDULE", 1}, {"QB", 32}, {"KB", 16}, {"RM", 4}, {"RN", 2}};
  const Bindings vectors = {{"SCHEDULE", 2}, {"VW", vw}, {"NV", 2}, {"MR", 4}, {"KB", 16}, {"LANES", 1}};
  for (const TypesByName& types : {f32, half}) {
    for (const Bindings& s : {Bindings{{"SCHEDULE", 0}}, tiles, vectors, Bindings{{"SCHEDULE", 3}, {"VW", vw}}})
      add("attention", s, types);
    for (int64_t which = 0; which < 3; ++which) {
      for (Bindings s : {Bindings{{"SCHEDULE", 0}}, tiles, vectors}) {
        s["WHICH"] = which;
        if (which == 2) {
          s["REDUCE_B"] = types.empty();
          s["REDUCE_M"] = types.empty() && s["SCHEDULE"] != 1;
        }
        add("attention_backward", s, types);
      }
    }
  }
}

void add_rows(std::vector<BodyVariant>& all) {
  for (const DType t : {DType::f32, DType::bf16, DType::i32, DType::i64, DType::f64}) {
    const TypesByName types = {{"T", t}}, scanned = {{"T", t}, {"TC", arith(t)}},
                      indexed = {{"T", t}, {"I", t == DType::i64 ? t : DType::i32}};
    for (const int64_t schedule : {0, 1}) {
      all.push_back({"sort_blocks", {types, {{"SCHEDULE", schedule}, {"DESCENDING", schedule}}, {}, {}, {}, {}}});
      all.push_back({"sort_merge", {types, {{"LANES", schedule ? 1 : 64}, {"DESCENDING", schedule}}, {}, {}, {}, {}}});
      all.push_back({"scan",
                     {scanned,
                      {{"SCHEDULE", schedule}, {"CARRY", 1}, {"EXCLUSIVE", schedule}, {"REVERSE", schedule}},
                      {},
                      {},
                      {},
                      {}}});
      all.push_back({"segment_add", {indexed, {{"SCHEDULE", schedule}}, {}, {}, {}, {}}});
    }
  }
  all.push_back({"scan", {{}, {{"SCHEDULE", 2}, {"CARRY", 1}}, {{"INIT", "1"}, {"COMBINE", "(p) * (q)"}}, {}, {}, {}}});
}

// The schedules of one lane have vectors of 16, which only OpenCL has: tests/conformance/fft_lines_test.cpp runs them.
void add_fft(std::vector<BodyVariant>& all) {
  for (const int64_t n : {256, 4096})
    all.push_back({"fft", {{}, {{"N", n}, {"REAL_IN", n == 256}, {"REAL_OUT", n == 4096}}, {}, {}, {}, {}}});
  for (const Bindings& facts : {Bindings{{"CAP", 240}, {"LANES", 15}, {"SHARED_LINES", 4}, {"HALF", 1}},
                                Bindings{{"CAP", 240}, {"LANES", 15}, {"HALF", 2}, {"BACK", 1}},
                                Bindings{{"CAP", 154}, {"LANES", 10}, {"COLUMNS_IN", 1}, {"AFTER", 2}},
                                Bindings{{"CAP", 441}, {"LANES", 28}, {"REAL_IN", 1}, {"REAL_OUT", 1}, {"BEFORE", 1}}})
    all.push_back({"fft_lines", {{}, facts, {}, {}, {}, {}}});
}

void add_linalg(std::vector<BodyVariant>& all) {
  for (const DType t : {DType::f32, DType::f64}) {
    for (const char* body : {"tridiagonal_sweeps", "bidiagonal_sweeps"})
      all.push_back({body, {{{"T", t}}, {}, {}, {}, {}, {}}});
    for (const int64_t schedule : {0, 1}) {
      const TypesByName types = {{"T", t}};
      for (int64_t form = 0; form < 8; ++form) {
        if (form % 3 == schedule || form == 7)
          all.push_back(
              {"triangular",
               {types,
                {{"SCHEDULE", schedule}, {"UPPER", form & 1}, {"TRANSPOSED", form >> 1 & 1}, {"UNIT", form >> 2}},
                {},
                {},
                {},
                {}}});
      }
      all.push_back({"rotate_rows", {types, {{"SCHEDULE", schedule}}, {}, {}, {}, {}}});
      all.push_back({"blocks", {types, {{"SCHEDULE", schedule}, {"RIGHT", schedule + 1}}, {}, {}, {}, {}}});
      if (t == DType::f64 && schedule == 0) continue;  // shared arrays hold 32 bits
      all.push_back({"jacobi", {types, {{"SCHEDULE", schedule}, {"SYMMETRIC", t == DType::f32}}, {}, {}, {}, {}}});
      for (const char* body : {"cholesky", "lu", "qr", "tridiagonal", "bidiagonal"})
        all.push_back({body, {types, {{"SCHEDULE", schedule}}, {}, {}, {}, {}}});
    }
  }
}

}  // namespace

std::string BodyVariant::label() const {
  std::string text = body;
  for (const auto& [name, value] : options.tunables) text += " " + name + "=" + std::to_string(value);
  for (const auto& [name, dtype] : options.types) text += " " + name + "=" + std::string(name_of(dtype));
  return text + (options.hooks.empty() ? "" : " with hooks");
}

std::vector<BodyVariant> body_variants(int64_t vw) {
  std::vector<BodyVariant> all;
  add_matmul(all, vw);
  add_conv(all, vw);
  add_attention(all, vw);
  add_rows(all);
  add_linalg(all);
  add_fft(all);
  for (const int64_t type : {2, 3, 8, 12, 14, 1000}) {
    all.push_back({"unpack_blocks", {{}, {{"BLOCKS", type}}, {}, {}, {}, {}}});
    for (const int64_t schedule : {0, 1})
      all.push_back(
          {"packed_matmul", {{}, {{"BLOCKS", type}, {"SCHEDULE", schedule}, {"MR", 2}, {"NR", 4}}, {}, {}, {}, {}}});
    const Bindings panels{{"BLOCKS", type}, {"SCHEDULE", 2}, {"MR", 2}, {"MB", 2}, {"NR", 32}, {"KS", 2}, {"VW", vw}};
    all.push_back({"packed_matmul", {{}, panels, {}, {}, {}, {}}});
    for (const int64_t schedule : {0, 1})
      all.push_back(
          {"packed_matmul_grad",
           {{}, {{"BLOCKS", type}, {"SCHEDULE", schedule}, {"MR", 2}, {"MB", 2}, {"NS", 2}}, {}, {}, {}, {}}});
  }
  for (const int64_t schedule : {0, 1}) {
    for (const DType t : {DType::f32, DType::f16})
      all.push_back({"reduce", {{{"T", t}, {"TO", t}}, {{"SCHEDULE", schedule}}, {}, {}, {}, {}}});
    for (const DType t : {DType::f32, DType::bf16, DType::f64, DType::i64}) {
      all.push_back({"scatter_add",
                     {{{"T", t}, {"I", t == DType::i64 ? t : DType::i32}}, {{"SCHEDULE", schedule}}, {}, {}, {}, {}}});
    }
    for (const DType t : {DType::f32, DType::f16, DType::u8, DType::boolean, DType::i64, DType::f64}) {
      all.push_back(
          {"copy_rows", {{{"T", t}, {"K", t == DType::i64 ? t : DType::i32}}, {{"WHOLE", schedule}}, {}, {}, {}, {}}});
      all.push_back({"copy", {{{"T", t}, {"TO", t}}, {{"LANES", schedule == 0 ? 64 : 1}}, {}, {}, {}, {}}});
    }
  }
  return all;
}

std::vector<BodyVariant> unit_variants(int64_t lanes) {
  std::vector<BodyVariant> all;
  const DType types[] = {DType::f16, DType::bf16, DType::f32, DType::i8};
  for (int64_t element = 0; element < 4; ++element) {
    for (const bool transposed : {false, true}) {
      const DType t = types[element];
      const DType sums = element == 3 ? DType::i32 : DType::f32;
      const int64_t wide = 16 / static_cast<int64_t>(size_of(t));
      BodyVariant v{"matmul", {}};
      v.options.types = {{"TA", t}, {"TB", t}, {"TC", sums}, {"ACC", sums}};
      v.options.tunables = {{"SCHEDULE", 5},  {"ELEMENT", element}, {"UNIT_LANES", lanes},
                            {"TM", 64},       {"TN", 64},           {"TK", element == 3 ? 64 : 32},
                            {"WM", 32},       {"WN", 32},           {"STAGES", transposed ? 3 : 1},
                            {"A_WIDE", wide}, {"B_WIDE", wide},     {"BAND", 8}};
      for (const char* fact : transposed ? std::array{"A_M1", "B_K1"} : std::array{"A_K1", "B_N1"})
        v.options.tunables[fact] = 1;
      if (transposed && element != 3) v.options.hooks = {{"PROLOGUE_A", "max(x, 0.0f)"}};
      all.push_back(v);
    }
  }
  return all;
}

}  // namespace heddle
