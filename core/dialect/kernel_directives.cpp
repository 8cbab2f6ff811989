#include "heddle/core/dialect/kernel_directives.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"
#include "heddle/core/dialect/words.h"

namespace heddle {

std::string FilePlace::str() const { return fmt::format("{}:{}", origin, line); }

void FilePlace::fail(const std::string& what) const {
  throw UserError(fmt::format("{}: {}", str(), shortened(what, 500)));
}

void KernelDirectives::read(std::string_view rest) {
  const std::string_view kind = take_word(rest);
  if (kind == "doc") {
    file_.doc += (file_.doc.empty() ? "" : " ") + std::string(rest);
  } else if (kind == "type") {
    read_type(rest);
  } else if (kind == "in" || kind == "out" || kind == "inout") {
    read_buffer(kind, rest);
  } else if (kind == "const") {
    read_constant(rest);
  } else if (kind == "tune" || kind == "fact") {
    read_tunable(rest, kind == "fact");
  } else if (kind == "let") {
    read_value(rest);
  } else if (kind == "shared") {
    read_shared(rest);
  } else if (kind == "hook") {
    read_hook(rest);
  } else if (kind == "group") {
    read_sizes(rest, file_.group_, "group");
  } else if (kind == "grid") {
    read_grid(rest);
  } else if (kind == "bounds") {
    read_bounds(rest);
  } else if (kind == "require") {
    read_requirement(rest);
  } else {
    place_.fail(
        fmt::format("unknown directive '{}' (known: doc, type, in, out, inout, const, tune, fact, let, shared, hook, "
                    "group, grid, "
                    "bounds, require)",
                    kind));
  }
}

std::string KernelDirectives::identifier(std::string_view& rest, std::string_view what) {
  const std::string_view name = take_word(rest);
  if (name.empty()) place_.fail(fmt::format("{} has no name", what));
  if (!is_identifier(name)) place_.fail(fmt::format("'{}' is no name for {}", name, what));
  return std::string(name);
}

void KernelDirectives::end_of_line(std::string_view rest) const {
  if (!rest.empty()) place_.fail(fmt::format("unexpected '{}'", rest));
}

DType KernelDirectives::dtype(std::string_view name) const {
  try {
    return parse_dtype(name);
  } catch (const Error& e) {
    place_.fail(e.what());
  }
}

void KernelDirectives::read_type(std::string_view rest) {
  const std::string name = identifier(rest, "a type parameter");
  auto& choices = file_.type_choices_[name];
  if (!choices.empty()) place_.fail(fmt::format("type '{}' is declared twice", name));
  while (!rest.empty()) choices.push_back(dtype(take_word(rest)));
  if (choices.empty()) place_.fail(fmt::format("type '{}' has no dtypes", name));
  file_.types.push_back(name);
}

void KernelDirectives::read_buffer(std::string_view kind, std::string_view rest) {
  KernelBuffer b;
  b.access = kind == "in" ? Access::read : kind == "out" ? Access::write : Access::read_write;
  b.name = identifier(rest, "a buffer");
  b.dtype = take_word(rest);
  if (b.dtype.empty()) place_.fail(fmt::format("buffer '{}' has no dtype", b.name));
  if (!file_.type_choices_.contains(b.dtype)) dtype(b.dtype);
  end_of_line(rest);
  file_.buffers.push_back(std::move(b));
}

void KernelDirectives::read_constant(std::string_view rest) {
  const std::string_view type = take_word(rest);
  ConstParam c;
  if (type == "uint") {
    c.type = ConstParam::Type::u32;
  } else if (type == "int") {
    c.type = ConstParam::Type::i32;
  } else if (type == "float") {
    c.type = ConstParam::Type::f32;
  } else {
    place_.fail(fmt::format("constant of type '{}' (known: uint, int, float)", type));
  }
  c.name = identifier(rest, "a constant");
  file_.constants.push_back(std::move(c));
  if (file_.constants.size() > KernelSource::max_constants)
    place_.fail(fmt::format("more than {} constants", KernelSource::max_constants));
}

int64_t KernelDirectives::number(std::string_view text) const {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    place_.fail(fmt::format("'{}' is no number", text));
  return value;
}

void KernelDirectives::read_tunable(std::string_view rest, bool fact) {
  KernelTunable t;
  t.fact = fact;
  t.name = identifier(rest, "a tunable");
  t.value = number(take_word(rest));
  const size_t close = rest.find(']');
  if (!rest.starts_with('[') || close == std::string_view::npos)
    place_.fail(fmt::format("tunable '{}' needs its choices: [1 2 4]", t.name));
  std::string_view choices = trim(rest.substr(1, close - 1));
  t.any = fact && choices == "any";
  if (t.any) choices = {};
  bool has_default = t.any;
  while (!choices.empty()) {
    t.choices.push_back(number(take_word(choices)));
    has_default |= t.choices.back() == t.value;
  }
  if (!has_default) place_.fail(fmt::format("the choices of '{}' lack its default {}", t.name, t.value));
  t.doc = trim(rest.substr(close + 1));
  file_.tunables.push_back(std::move(t));
}

void KernelDirectives::read_shared(std::string_view rest) {
  KernelFile::SharedDecl s;
  s.type = take_word(rest);
  if (s.type != "float" && s.type != "uint" && s.type != "int") {
    place_.fail(fmt::format("shared array of type '{}' (known: float, uint, int)", s.type));
  }
  s.name = identifier(rest, "a shared array");
  if (rest.empty()) place_.fail(fmt::format("shared array '{}' has no count", s.name));
  s.count = expression(rest);
  file_.shared_.push_back(std::move(s));
}

void KernelDirectives::read_value(std::string_view rest) {
  std::string name = identifier(rest, "a value");
  if (rest.empty()) place_.fail(fmt::format("value '{}' has no expression", name));
  file_.values_.emplace_back(std::move(name), expression(rest));
}

void KernelDirectives::read_hook(std::string_view rest) {
  const size_t equals = rest.find('=');
  const size_t open = rest.find('(');
  const size_t close = rest.find(')');
  if (equals == std::string_view::npos || close == std::string_view::npos || !(open < close && close < equals)) {
    place_.fail("a hook is written 'hook NAME(x, y) = text'");
  }
  const std::string_view name = trim(rest.substr(0, open));
  if (!is_identifier(name)) place_.fail(fmt::format("'{}' is no name for a hook", name));
  const std::string_view parameters = trim(rest.substr(open + 1, close - open - 1));
  for (const auto parameter : split_list(parameters)) {
    if (parameters.empty()) break;
    if (!is_identifier(parameter)) place_.fail(fmt::format("'{}' is no parameter for a hook", parameter));
  }
  file_.hooks.push_back({std::string(trim(rest.substr(0, close + 1))), std::string(trim(rest.substr(equals + 1)))});
}

KernelFile::Expression KernelDirectives::expression(std::string_view text) const {
  return {std::string(trim(text)), place_.str(), place_.when, place_.when_where};
}

void KernelDirectives::read_sizes(std::string_view rest, std::vector<KernelFile::Sizes>& all, std::string_view what) {
  KernelFile::Sizes sizes{expression("1"), expression("1"), expression("1")};
  const auto parts = split_list(rest);
  if (parts.size() > 3) place_.fail(fmt::format("{} has {} dimensions; at most 3", what, parts.size()));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) place_.fail(fmt::format("{} has an empty dimension", what));
    sizes[i] = expression(parts[i]);
  }
  all.push_back(std::move(sizes));
}

void KernelDirectives::read_grid(std::string_view rest) {
  std::string_view after = rest;
  const bool linear = take_word(after) == "linear";
  if (linear && split_list(after).size() > 1) place_.fail("'grid linear' takes one count");
  read_sizes(linear ? after : rest, file_.grid_, "grid");
  file_.linear_grid_.push_back(linear);
}

void KernelDirectives::read_bounds(std::string_view rest) {
  const std::string name(take_word(rest));
  const auto is = [&](const KernelBuffer& b) { return b.name == name; };
  if (std::none_of(file_.buffers.begin(), file_.buffers.end(), is))
    place_.fail(fmt::format("bounds of '{}', which is no buffer above", name));
  std::vector<KernelFile::Sizes> one;
  if (split_list(rest).size() != 2) place_.fail("bounds are written 'bounds NAME FIRST, END'");
  read_sizes(rest, one, "bounds");
  if (!file_.bounds_.emplace(name, one[0]).second)
    place_.fail(fmt::format("the bounds of '{}' are declared twice", name));
}

void KernelDirectives::read_requirement(std::string_view rest) {
  const size_t colon = rest.find(':');
  if (colon == std::string_view::npos) place_.fail("a requirement is written 'require condition : message'");
  file_.requires_.push_back({expression(rest.substr(0, colon)), std::string(trim(rest.substr(colon + 1)))});
}

void KernelDirectives::check_names() const {
  std::map<std::string_view, std::string_view> seen;
  const auto add = [&](std::string_view name, std::string_view what) {
    const auto [found, fresh] = seen.emplace(name, what);
    if (!fresh)
      throw UserError(fmt::format("{}: {} '{}' is also {}", file_.origin, what, shortened(name), found->second));
  };
  for (const auto& x : file_.types) add(x, "a type parameter");
  for (const auto& x : file_.buffers) add(x.name, "a buffer");
  for (const auto& x : file_.constants) add(x.name, "a constant");
  for (const auto& x : file_.tunables) add(x.name, "a tunable");
  for (const auto& [name, value] : file_.values_) {
    // Parts of which one is taken may each define the same value.
    if (!seen.contains(name) || seen.find(name)->second != "a value") add(name, "a value");
  }
  for (const auto& x : file_.shared_) add(x.name, "a shared array");
  for (const auto& hook : file_.hooks) {
    const std::string_view signature = hook.signature;
    const size_t open = signature.find('(');
    add(trim(signature.substr(0, open)), "a hook");
    for (const auto parameter : split_list(signature.substr(open + 1, signature.size() - open - 2))) {
      const auto found = seen.find(parameter);
      if (found == seen.end()) continue;
      throw UserError(fmt::format("{}: parameter '{}' of hook '{}' is also {}", file_.origin, shortened(parameter),
                                  shortened(signature), found->second));
    }
  }
}

}  // namespace heddle
