// KernelDirectives: the directives in the header of a kernel file, one at a time, into the file's declarations.
//
// Purpose: KernelFileParser cuts a file and its parts into directives and code; this knows what a directive means.
// Errors: UserError with the place. Thread safety: one reader is used by one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/dialect/kernel_file.h"

namespace heddle {

// Where a parser stands.
struct FilePlace {
  std::string origin;  // of the text: the file's own, or a part's
  int line = 0;
  std::string when, when_where;  // the conditions of the includes that led here, and the line of the last

  std::string str() const;
  [[noreturn]] void fail(const std::string& what) const;
};

class KernelDirectives {
 public:
  // Both stay alive; `place` moves with the parser.
  KernelDirectives(KernelFile& file, const FilePlace& place) : file_(file), place_(place) {}
  // "in X T", "tune VW 4 [1 2 4] lanes of a vector", ...
  void read(std::string_view directive);
  // Every name means one thing.
  void check_names() const;

 private:
  std::string identifier(std::string_view& rest, std::string_view what);
  void end_of_line(std::string_view rest) const;
  DType dtype(std::string_view name) const;
  void read_type(std::string_view rest);
  void read_buffer(std::string_view kind, std::string_view rest);
  void read_constant(std::string_view rest);
  int64_t number(std::string_view text) const;
  void read_tunable(std::string_view rest, bool fact);
  void read_shared(std::string_view rest);
  void read_value(std::string_view rest);
  void read_hook(std::string_view rest);
  KernelFile::Expression expression(std::string_view text) const;
  void read_sizes(std::string_view rest, std::vector<KernelFile::Sizes>& all, std::string_view what);
  void read_grid(std::string_view rest);
  void read_bounds(std::string_view rest);
  void read_requirement(std::string_view rest);

  KernelFile& file_;
  const FilePlace& place_;
};

}  // namespace heddle
