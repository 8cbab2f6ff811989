// Caller, SourceLine: where in the user's program an operation was recorded.
//
// Purpose: errors, logs and profiles name the line of the user's own code that is nearest to an operation. A public
// function that records ends with a parameter `Caller caller = Caller::current()` and opens with `const CallerScope
// scope(caller);`. Functions of tensors alone, and operators, take their first operand as a TensorArg
// (core/graph/tensor.h) instead: it notes the line and they stay values that can be called with tensors. A line in the
// library never replaces one that is there, so what a function composes itself of, or a module's forward(), is its
// caller's; a line in any other file does, so a user's module or checkpointed function names its own lines. Files of
// the library are those below core/, autograd/, nn/, io/ and data/ of its sources, but for nn/models/, which are
// programs written with it; a line in the C++ standard library (a std::function that calls one) counts for nothing. A
// scope also knows in which function it stands. Where a public function is composed of others, what these refuse
// carries its name all the same: a message
// "[index_add] bool has no addition" that is thrown inside fold() becomes "[fold] index_add: bool has no addition".
// Invariants: functions written in headers pass their caller's line on. Outside of any scope there is no line (line()
// == 0). Thread safety: the present line belongs to the thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

// A line of a source file; by Caller() none. A type of Heddle's own: std::source_location is missing from Clang 14 with
// libstdc++, and a type that one compiler has and another lacks would give the library's functions two names.
class Caller {
 public:
  // As the default of a parameter: the line of the call. Not consteval: GCC would take the line of the declaration.
  static constexpr Caller current(const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) noexcept {
    return Caller(file, line);
  }
  constexpr Caller() noexcept = default;

  constexpr const char* file_name() const noexcept { return file_; }  // as the compiler was told it; "" for none
  constexpr uint32_t line() const noexcept { return line_; }          // from 1; 0 for none

 private:
  constexpr Caller(const char* file, uint32_t line) noexcept : file_(file), line_(line) {}

  const char* file_ = "";
  uint32_t line_ = 0;
};

// Where a node was recorded. backward: by a gradient rule, for the operation at that line.
struct SourceLine {
  Caller caller;
  bool backward = false;

  bool known() const { return caller.line() != 0; }
  // "train.cpp:42" or "train.cpp:42 (backward)" (the file without its folders); "" for an unknown line.
  std::string str() const;
  bool operator==(const SourceLine& other) const;  // one line of one file
};

// The nearest line of the user's code that this thread is in a public call of.
SourceLine current_line() noexcept;
inline Caller current_caller() noexcept { return current_line().caller; }
// "train.cpp:42", or "" for an unknown line.
std::string line_of(const Caller& caller);
// "train.cpp:42, train.cpp:43 (backward) and 3 more"; lines of the library itself only where there are no others.
std::string list_lines(std::span<const SourceLine> lines, size_t most = 4);
// The message as the caller reads it: with the name of the function called, and " (train.cpp:42)" behind it where a
// public call is under way; as it is where that line is the library's own or stands there already.
std::string with_line(const std::string& message);

class CallerScope {
 public:
  // `function` and `file` are where the scope stands: nobody gives them.
  explicit CallerScope(const Caller& caller, const char* function = __builtin_FUNCTION(),
                       const char* file = __builtin_FILE()) noexcept;
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

  // The function of core/functions that the code around called, of those under way on this thread; "" where there is
  // none.
  static std::string_view public_function();

 private:
  bool in_functions() const;

  SourceLine before_;
  const CallerScope* outer_;
  const char* function_;
  const char* file_;
  bool by_user_;  // the call stands in the user's code
};

// What a gradient rule records for the node of that line is marked with it; an unknown line leaves the present one.
class BackwardScope {
 public:
  explicit BackwardScope(const SourceLine& forward) noexcept;
  ~BackwardScope();
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;

 private:
  SourceLine before_;
};

}  // namespace heddle
