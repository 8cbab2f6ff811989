// The parser of kernel files: it cuts a file and the parts it includes into directives (kernel_directives.h), helpers
// and body. Syntax: shaders/README.md.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_limits.h"
#include "heddle/core/dialect/kernel_directives.h"
#include "heddle/core/dialect/words.h"

namespace heddle {

class KernelFileParser {
 public:
  KernelFileParser(std::string_view text, std::string origin, const KernelFile::PartReader& parts)
      : text_(text), place_{origin, 0, {}, {}}, parts_(parts) {
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
      place_.fail(fmt::format("the file has {} bytes; at most {} are read", text_.size(), max_kernel_file_bytes));
    find_header();
    read_header();
    read_code();
    directives_.check_names();
    return std::move(file_);
  }

 private:
  // The next line without its end; false at the end of the file.
  bool next(std::string_view& row) {
    if (at_ >= text_.size()) return false;
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    row = text_.substr(at_, end - at_);
    if (row.ends_with('\r')) row.remove_suffix(1);
    at_ = std::min(end + 1, text_.size());
    ++place_.line;
    return true;
  }

  void find_header() {
    std::string_view row;
    while (next(row)) {
      row = trim(row);
      if (row == "/*") return;
      if (!row.empty() && row.substr(0, 2) != "//") place_.fail("expected a comment line or the header's '/*'");
    }
    place_.line = std::max(place_.line, 1);
    place_.fail("no header: a line '/*' opens it");
  }

  void read_header() {
    const int opened = place_.line;
    std::string_view row;
    while (next(row)) {
      if (trim(row) == "*/") return;
      const int start = place_.line;
      std::string directive(row.substr(0, std::min(row.find('#'), row.size())));
      // A row that ends in a backslash goes on in the next one.
      for (bool more = trim(directive).ends_with('\\'); more;) {
        directive.erase(directive.find_last_of('\\'));
        if (!next(row)) break;
        directive += '\n';
        directive += row;
        more = trim(row).ends_with('\\');
      }
      const int end = place_.line;
      place_.line = start;
      if (!trim(directive).empty()) directives_.read(directive);
      place_.line = end;
    }
    place_.line = opened;
    place_.fail("the header is not closed: a line '*/' ends it");
  }

  void read_code() {
    const size_t start = at_;
    const int start_line = place_.line;
    std::string_view row;
    size_t row_start = at_;
    std::string_view helpers, body = text_.substr(start);
    file_.first_line = start_line + 1;
    while (next(row)) {
      if (trim(row) == "KERNEL") {
        helpers = text_.substr(start, row_start - start);
        body = text_.substr(at_);
        file_.first_line = place_.line + 1;
        break;
      }
      row_start = at_;
    }
    // Errors in the helpers name their lines as well.
    if (!trim(helpers).empty()) {
      add_code(file_.helpers, fmt::format("#line {} \"{}\"\n", start_line + 1, place_.origin));
      read_parts(helpers, start_line, file_.helpers);
    }
    any_code_ = false;
    read_parts(body, file_.first_line - 1, file_.body);
    place_.line = file_.first_line - 1;
    if (!any_code_) place_.fail("the body is empty");
  }

  void add_code(std::vector<KernelFile::Code>& out, std::string text) const {
    if (out.empty() || out.back().when != place_.when) out.push_back({{}, place_.when, place_.when_where});
    out.back().text += text;
  }

  // Appends `code` to `out`, each line #include "NAME" replaced by the part; `line` is the number of the line before
  // it.
  void read_parts(std::string_view code, int line, std::vector<KernelFile::Code>& out) {
    const std::string_view outer = std::exchange(text_, code);
    at_ = 0;
    place_.line = line;
    std::string_view row;
    for (size_t start = 0; next(row); start = at_) {
      std::string_view rest = row;
      if (take_word(rest) != "#include") {
        add_code(out, std::string(code.substr(start, at_ - start)));
        any_code_ |= !trim(row).empty();
        continue;
      }
      read_include(rest, out);
      add_code(out, fmt::format("#line {} \"{}\"\n", place_.line + 1, place_.origin));
    }
    text_ = outer;
  }

  void read_include(std::string_view rest, std::vector<KernelFile::Code>& out) {
    const std::string_view quoted = take_word(rest);
    const std::string_view when = take_word(rest);
    if (quoted.size() < 3 || quoted.front() != '"' || quoted.back() != '"' ||
        (!when.empty() && (when != "when" || rest.empty())))
      place_.fail("an include is written '#include \"part.hki\"' or '#include \"part.hki\" when CONDITION'");
    KernelFile::Part part;
    try {
      part = parts_(quoted.substr(1, quoted.size() - 2));
    } catch (const Error& e) {
      place_.fail(e.what());
    }
    if (part.origin == place_.origin || std::find(open_.begin(), open_.end(), part.origin) != open_.end())
      place_.fail(fmt::format("{} includes itself", part.origin));
    if (open_.size() >= static_cast<size_t>(max_parse_depth))
      place_.fail(fmt::format("parts include parts more than {} deep", max_parse_depth));
    included_ += part.text.size();
    if (++parts_taken_ > max_kernel_parts || included_ > max_kernel_file_bytes)
      place_.fail(fmt::format("more than {} parts or {} bytes are included", max_kernel_parts, max_kernel_file_bytes));
    open_.push_back(place_.origin);
    const auto outer = std::pair(std::pair(text_, at_), place_);
    if (!when.empty()) place_.when_where = place_.str();
    if (!when.empty())
      place_.when = place_.when.empty() ? std::string(rest) : fmt::format("({}) && ({})", place_.when, rest);
    place_.origin = part.origin;
    text_ = part.text;
    at_ = 0;
    place_.line = 0;
    read_part_header();
    add_code(out, fmt::format("#line {} \"{}\"\n", place_.line + 1, place_.origin));
    read_parts(text_.substr(at_), place_.line, out);
    if (!out.back().text.ends_with('\n')) out.back().text += '\n';
    std::tie(text_, at_) = outer.first;
    place_ = outer.second;
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
    place_.line = 0;
  }

  std::string_view text_;
  size_t at_ = 0;
  FilePlace place_;
  bool any_code_ = false;
  size_t included_ = 0, parts_taken_ = 0;  // bytes and number of parts
  std::vector<std::string> open_;          // origins of the files that include it
  const KernelFile::PartReader& parts_;
  KernelFile file_;
  KernelDirectives directives_{file_, place_};
};

KernelFile KernelFile::parse(std::string_view text, std::string origin, const PartReader& parts) {
  return KernelFileParser(text, std::move(origin), parts).run();
}

}  // namespace heddle
