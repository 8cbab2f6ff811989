// The parser of kernel files: header directives, helpers, body. Syntax: shaders/README.md.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/base/parse_limits.h"
#include "core/base/shortened.h"
#include "core/dialect/kernel_file.h"

namespace heddle {
namespace {

std::string_view trim(std::string_view s) {
  constexpr std::string_view blank = " \t\r\n";
  const size_t first = s.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(blank) - first + 1);
}

// The first word of `rest`, which loses it.
std::string_view word(std::string_view& rest) {
  rest = trim(rest);
  const size_t end = std::min(rest.find_first_of(" \t"), rest.size());
  const std::string_view first = rest.substr(0, end);
  rest = trim(rest.substr(end));
  return first;
}

bool is_identifier(std::string_view s) {
  if (s.empty() || (s[0] >= '0' && s[0] <= '9') || s.find("__") != std::string_view::npos) return false;
  for (const char c : s) {
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
  }
  return true;
}

// Cuts at the commas that stand outside parentheses.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ',' && depth == 0)) {
      parts.push_back(trim(text.substr(start, i - start)));
      start = i + 1;
    } else {
      depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    }
  }
  return parts;
}

}  // namespace

class KernelFileParser {
 public:
  KernelFileParser(std::string_view text, std::string origin, const KernelFile::PartReader& parts)
      : text_(text), origin_(origin), parts_(parts) {
    file_.origin = std::move(origin);
    const size_t slash = file_.origin.find_last_of('/');
    file_.name = file_.origin.substr(slash == std::string::npos ? 0 : slash + 1);
    if (file_.name.size() > 3 && file_.name.ends_with(".hk")) file_.name.resize(file_.name.size() - 3);
    for (char& c : file_.name) {
      if (!is_identifier(std::string_view(&c, 1)) && !(c >= '0' && c <= '9')) c = '_';
    }
  }

  KernelFile run() {
    if (text_.size() > max_kernel_file_bytes)
      fail(fmt::format("the file has {} bytes; at most {} are read", text_.size(), max_kernel_file_bytes));
    find_header();
    read_header();
    read_code();
    check_names();
    return std::move(file_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw UserError(fmt::format("{}: {}", here(), shortened(what, 500)));
  }

  std::string here() const { return fmt::format("{}:{}", origin_, line_); }

  // The next line without its end; false at the end of the file.
  bool next(std::string_view& row) {
    if (at_ >= text_.size()) return false;
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    row = text_.substr(at_, end - at_);
    if (row.ends_with('\r')) row.remove_suffix(1);
    at_ = std::min(end + 1, text_.size());
    ++line_;
    return true;
  }

  void find_header() {
    std::string_view row;
    while (next(row)) {
      row = trim(row);
      if (row == "/*") return;
      if (!row.empty() && row.substr(0, 2) != "//") fail("expected a comment line or the header's '/*'");
    }
    line_ = std::max(line_, 1);
    fail("no header: a line '/*' opens it");
  }

  void read_header() {
    const int opened = line_;
    std::string_view row;
    while (next(row)) {
      if (trim(row) == "*/") return;
      const int start = line_;
      std::string directive(row.substr(0, std::min(row.find('#'), row.size())));
      // A row that ends in a backslash goes on in the next one.
      for (bool more = trim(directive).ends_with('\\'); more;) {
        directive.erase(directive.find_last_of('\\'));
        if (!next(row)) break;
        directive += '\n';
        directive += row;
        more = trim(row).ends_with('\\');
      }
      const int end = line_;
      line_ = start;
      if (!trim(directive).empty()) read_directive(directive);
      line_ = end;
    }
    line_ = opened;
    fail("the header is not closed: a line '*/' ends it");
  }

  void read_directive(std::string_view rest) {
    const std::string_view kind = word(rest);
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
      fail(
          fmt::format("unknown directive '{}' (known: doc, type, in, out, inout, const, tune, fact, let, shared, hook, "
                      "group, grid, "
                      "bounds, require)",
                      kind));
    }
  }

  std::string identifier(std::string_view& rest, std::string_view what) {
    const std::string_view name = word(rest);
    if (name.empty()) fail(fmt::format("{} has no name", what));
    if (!is_identifier(name)) fail(fmt::format("'{}' is no name for {}", name, what));
    return std::string(name);
  }

  void end_of_line(std::string_view rest) const {
    if (!rest.empty()) fail(fmt::format("unexpected '{}'", rest));
  }

  DType dtype(std::string_view name) const {
    try {
      return parse_dtype(name);
    } catch (const Error& e) {
      fail(e.what());
    }
  }

  void read_type(std::string_view rest) {
    const std::string name = identifier(rest, "a type parameter");
    auto& choices = file_.type_choices_[name];
    if (!choices.empty()) fail(fmt::format("type '{}' is declared twice", name));
    while (!rest.empty()) choices.push_back(dtype(word(rest)));
    if (choices.empty()) fail(fmt::format("type '{}' has no dtypes", name));
    file_.types.push_back(name);
  }

  void read_buffer(std::string_view kind, std::string_view rest) {
    KernelBuffer b;
    b.access = kind == "in" ? Access::read : kind == "out" ? Access::write : Access::read_write;
    b.name = identifier(rest, "a buffer");
    b.dtype = word(rest);
    if (b.dtype.empty()) fail(fmt::format("buffer '{}' has no dtype", b.name));
    if (!file_.type_choices_.contains(b.dtype)) dtype(b.dtype);
    end_of_line(rest);
    file_.buffers.push_back(std::move(b));
  }

  void read_constant(std::string_view rest) {
    const std::string_view type = word(rest);
    ConstParam c;
    if (type == "uint") {
      c.type = ConstParam::Type::u32;
    } else if (type == "int") {
      c.type = ConstParam::Type::i32;
    } else if (type == "float") {
      c.type = ConstParam::Type::f32;
    } else {
      fail(fmt::format("constant of type '{}' (known: uint, int, float)", type));
    }
    c.name = identifier(rest, "a constant");
    file_.constants.push_back(std::move(c));
    if (file_.constants.size() > KernelSource::max_constants)
      fail(fmt::format("more than {} constants", KernelSource::max_constants));
  }

  int64_t number(std::string_view text) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
      fail(fmt::format("'{}' is no number", text));
    return value;
  }

  void read_tunable(std::string_view rest, bool fact) {
    KernelTunable t;
    t.fact = fact;
    t.name = identifier(rest, "a tunable");
    t.value = number(word(rest));
    const size_t close = rest.find(']');
    if (!rest.starts_with('[') || close == std::string_view::npos)
      fail(fmt::format("tunable '{}' needs its choices: [1 2 4]", t.name));
    std::string_view choices = trim(rest.substr(1, close - 1));
    t.any = fact && choices == "any";
    if (t.any) choices = {};
    bool has_default = t.any;
    while (!choices.empty()) {
      t.choices.push_back(number(word(choices)));
      has_default |= t.choices.back() == t.value;
    }
    if (!has_default) fail(fmt::format("the choices of '{}' lack its default {}", t.name, t.value));
    t.doc = trim(rest.substr(close + 1));
    file_.tunables.push_back(std::move(t));
  }

  void read_shared(std::string_view rest) {
    KernelFile::SharedDecl s;
    s.type = word(rest);
    if (s.type != "float" && s.type != "uint" && s.type != "int") {
      fail(fmt::format("shared array of type '{}' (known: float, uint, int)", s.type));
    }
    s.name = identifier(rest, "a shared array");
    if (rest.empty()) fail(fmt::format("shared array '{}' has no count", s.name));
    s.count = expression(rest);
    file_.shared_.push_back(std::move(s));
  }

  void read_value(std::string_view rest) {
    std::string name = identifier(rest, "a value");
    if (rest.empty()) fail(fmt::format("value '{}' has no expression", name));
    file_.values_.emplace_back(std::move(name), expression(rest));
  }

  void read_hook(std::string_view rest) {
    const size_t equals = rest.find('=');
    const size_t open = rest.find('(');
    const size_t close = rest.find(')');
    if (equals == std::string_view::npos || close == std::string_view::npos || !(open < close && close < equals)) {
      fail("a hook is written 'hook NAME(x, y) = text'");
    }
    const std::string_view name = trim(rest.substr(0, open));
    if (!is_identifier(name)) fail(fmt::format("'{}' is no name for a hook", name));
    const std::string_view parameters = trim(rest.substr(open + 1, close - open - 1));
    for (const auto parameter : split_list(parameters)) {
      if (parameters.empty()) break;
      if (!is_identifier(parameter)) fail(fmt::format("'{}' is no parameter for a hook", parameter));
    }
    file_.hooks.push_back({std::string(trim(rest.substr(0, close + 1))), std::string(trim(rest.substr(equals + 1)))});
  }

  KernelFile::Expression expression(std::string_view text) const {
    return {std::string(trim(text)), here(), when_, when_where_};
  }

  void read_sizes(std::string_view rest, std::vector<KernelFile::Sizes>& all, std::string_view what) {
    KernelFile::Sizes sizes{expression("1"), expression("1"), expression("1")};
    const auto parts = split_list(rest);
    if (parts.size() > 3) fail(fmt::format("{} has {} dimensions; at most 3", what, parts.size()));
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].empty()) fail(fmt::format("{} has an empty dimension", what));
      sizes[i] = expression(parts[i]);
    }
    all.push_back(std::move(sizes));
  }

  void read_grid(std::string_view rest) {
    std::string_view after = rest;
    const bool linear = word(after) == "linear";
    if (linear && split_list(after).size() > 1) fail("'grid linear' takes one count");
    read_sizes(linear ? after : rest, file_.grid_, "grid");
    file_.linear_grid_.push_back(linear);
  }

  void read_bounds(std::string_view rest) {
    const std::string name(word(rest));
    const auto is = [&](const KernelBuffer& b) { return b.name == name; };
    if (std::none_of(file_.buffers.begin(), file_.buffers.end(), is))
      fail(fmt::format("bounds of '{}', which is no buffer above", name));
    std::vector<KernelFile::Sizes> one;
    if (split_list(rest).size() != 2) fail("bounds are written 'bounds NAME FIRST, END'");
    read_sizes(rest, one, "bounds");
    if (!file_.bounds_.emplace(name, one[0]).second) fail(fmt::format("the bounds of '{}' are declared twice", name));
  }

  void read_requirement(std::string_view rest) {
    const size_t colon = rest.find(':');
    if (colon == std::string_view::npos) fail("a requirement is written 'require condition : message'");
    file_.requires_.push_back({expression(rest.substr(0, colon)), std::string(trim(rest.substr(colon + 1)))});
  }

  void read_code() {
    const size_t start = at_;
    const int start_line = line_;
    std::string_view row;
    size_t row_start = at_;
    std::string_view helpers, body = text_.substr(start);
    file_.first_line = start_line + 1;
    while (next(row)) {
      if (trim(row) == "KERNEL") {
        helpers = text_.substr(start, row_start - start);
        body = text_.substr(at_);
        file_.first_line = line_ + 1;
        break;
      }
      row_start = at_;
    }
    // Errors in the helpers name their lines as well.
    if (!trim(helpers).empty()) {
      add_code(file_.helpers, fmt::format("#line {} \"{}\"\n", start_line + 1, origin_));
      read_parts(helpers, start_line, file_.helpers);
    }
    any_code_ = false;
    read_parts(body, file_.first_line - 1, file_.body);
    line_ = file_.first_line - 1;
    if (!any_code_) fail("the body is empty");
  }

  void add_code(std::vector<KernelFile::Code>& out, std::string text) const {
    if (out.empty() || out.back().when != when_) out.push_back({{}, when_, when_where_});
    out.back().text += text;
  }

  // Appends `code` to `out`, each line #include "NAME" replaced by the part; `line` is the number of the line before
  // it.
  void read_parts(std::string_view code, int line, std::vector<KernelFile::Code>& out) {
    const std::string_view outer = std::exchange(text_, code);
    at_ = 0;
    line_ = line;
    std::string_view row;
    for (size_t start = 0; next(row); start = at_) {
      std::string_view rest = row;
      if (word(rest) != "#include") {
        add_code(out, std::string(code.substr(start, at_ - start)));
        any_code_ |= !trim(row).empty();
        continue;
      }
      read_include(rest, out);
      add_code(out, fmt::format("#line {} \"{}\"\n", line_ + 1, origin_));
    }
    text_ = outer;
  }

  void read_include(std::string_view rest, std::vector<KernelFile::Code>& out) {
    const std::string_view quoted = word(rest);
    const std::string_view when = word(rest);
    if (quoted.size() < 3 || quoted.front() != '"' || quoted.back() != '"' ||
        (!when.empty() && (when != "when" || rest.empty())))
      fail("an include is written '#include \"part.hki\"' or '#include \"part.hki\" when CONDITION'");
    KernelFile::Part part;
    try {
      part = parts_(quoted.substr(1, quoted.size() - 2));
    } catch (const Error& e) {
      fail(e.what());
    }
    if (part.origin == origin_ || std::find(open_.begin(), open_.end(), part.origin) != open_.end())
      fail(fmt::format("{} includes itself", part.origin));
    if (open_.size() >= static_cast<size_t>(max_parse_depth))
      fail(fmt::format("parts include parts more than {} deep", max_parse_depth));
    included_ += part.text.size();
    if (++parts_taken_ > max_kernel_parts || included_ > max_kernel_file_bytes)
      fail(fmt::format("more than {} parts or {} bytes are included", max_kernel_parts, max_kernel_file_bytes));
    open_.push_back(origin_);
    const auto outer = std::tuple(text_, at_, line_, origin_, when_, when_where_);
    if (!when.empty()) when_where_ = here();
    if (!when.empty()) when_ = when_.empty() ? std::string(rest) : fmt::format("({}) && ({})", when_, rest);
    origin_ = part.origin;
    text_ = part.text;
    at_ = 0;
    line_ = 0;
    read_part_header();
    add_code(out, fmt::format("#line {} \"{}\"\n", line_ + 1, origin_));
    read_parts(text_.substr(at_), line_, out);
    if (!out.back().text.ends_with('\n')) out.back().text += '\n';
    std::tie(text_, at_, line_, origin_, when_, when_where_) = outer;
    open_.pop_back();
  }

  // A part may open with comment lines and a header of its own; without them all of it is code.
  void read_part_header() {
    std::string_view row;
    while (next(row)) {
      row = trim(row);
      if (row == "/*") return read_header();
      if (!row.empty() && row.substr(0, 2) != "//") break;
    }
    at_ = 0;
    line_ = 0;
  }

  void check_names() const {
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

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 0;
  std::string origin_;             // of the text: the file's own, or a part's
  std::string when_, when_where_;  // the conditions of the includes that led here, and the line of the last
  bool any_code_ = false;
  size_t included_ = 0, parts_taken_ = 0;  // bytes and number of parts
  std::vector<std::string> open_;          // origins of the files that include it
  const KernelFile::PartReader& parts_;
  KernelFile file_;
};

KernelFile KernelFile::parse(std::string_view text, std::string origin, const PartReader& parts) {
  return KernelFileParser(text, std::move(origin), parts).run();
}

}  // namespace heddle
