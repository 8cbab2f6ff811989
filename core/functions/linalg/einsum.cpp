// Einstein sums: labelled operands, contracted in pairs by matmul().
#include "heddle/core/functions/linalg/einsum.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>

#include "heddle/core/base/shortened.h"
#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/linalg/matmul.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/shape/diagonals.h"
#include "heddle/core/functions/shape/movement.h"

namespace heddle {
namespace {

// Labels are small numbers: 0 to 25 A-Z, 26 to 51 a-z, from 52 the axes of the ellipsis, counted from its last.
constexpr int letters = 52, label_count = letters + Shape::max_rank;
using Labels = std::vector<int>;

bool holds(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

struct Operand {
  Tensor x;
  Labels labels;  // one for each axis, all different
  int64_t size(int label) const {
    return x.dim(static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin()));
  }
};

[[noreturn]] void refuse(const std::string& rule, std::string_view equation) {
  throw ValueError(fmt::format("[einsum] {}; got \"{}\"", rule, shortened(equation)));
}

// A term of the equation: labels, and where its ellipsis stands (-1: none).
struct Term {
  Labels labels;
  int ellipsis = -1;
};

Term parse(std::string_view text, std::string_view equation) {
  Term term;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c >= 'A' && c <= 'Z') {
      term.labels.push_back(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      term.labels.push_back(c - 'a' + 26);
    } else if (text.substr(i, 3) == "..." && term.ellipsis < 0) {
      term.ellipsis = static_cast<int>(term.labels.size());
      i += 2;
    } else {
      refuse(fmt::format("a term holds letters and at most one \"...\", not '{}'", c), equation);
    }
  }
  return term;
}

std::vector<Term> parse_terms(std::string_view text, std::string_view equation) {
  std::vector<Term> terms;
  for (;;) {
    const size_t comma = text.find(',');
    terms.push_back(parse(text.substr(0, comma), equation));
    if (comma == std::string_view::npos) return terms;
    text.remove_prefix(comma + 1);
  }
}

// The labels of an operand's axes, with those of its ellipsis.
Labels spread(const Term& term, int rank, size_t number, std::string_view equation) {
  const int named = static_cast<int>(term.labels.size()), more = rank - named;
  if (more < 0 || (more > 0 && term.ellipsis < 0)) {
    throw ShapeError(
        fmt::format("[einsum] a term has one label for each axis; got {} for the {} axes of operand {} in \"{}\"",
                    named, rank, number, shortened(equation)));
  }
  Labels labels = term.labels;
  if (term.ellipsis >= 0) {
    Labels dots;
    for (int i = more - 1; i >= 0; --i) dots.push_back(letters + i);
    labels.insert(labels.begin() + term.ellipsis, dots.begin(), dots.end());
  }
  return labels;
}

// A label that repeats takes the diagonal, which is the last axis then.
Operand with_diagonals(Tensor x, Labels labels, size_t number, std::string_view equation) {
  for (size_t i = 0; i < labels.size();) {
    const auto again = std::find(labels.begin() + static_cast<long>(i) + 1, labels.end(), labels[i]);
    if (again == labels.end()) {
      ++i;
      continue;
    }
    const int a = static_cast<int>(i), b = static_cast<int>(again - labels.begin()), label = labels[i];
    if (x.dim(a) != x.dim(b)) {
      throw ShapeError(fmt::format("[einsum] axes of one label have one size; got {} and {} in operand {} of \"{}\"",
                                   x.dim(a), x.dim(b), number, shortened(equation)));
    }
    x = diagonal(x, 0, a, b);
    labels.erase(again);
    labels.erase(labels.begin() + a);
    labels.push_back(label);
  }
  return {std::move(x), std::move(labels)};
}

Operand sum_out(const Operand& from, const Labels& kept) {
  std::vector<int> axes;
  Labels left;
  for (size_t i = 0; i < from.labels.size(); ++i) {
    if (holds(kept, from.labels[i])) {
      left.push_back(from.labels[i]);
    } else {
      axes.push_back(static_cast<int>(i));
    }
  }
  if (axes.empty()) return from;
  return {cast(sum(from.x, axes), from.x.dtype()), left};  // whole numbers stay in their dtype
}

Tensor arranged(const Operand& from, const Labels& order) {
  std::vector<int> axes;
  for (int label : order)
    axes.push_back(static_cast<int>(std::find(from.labels.begin(), from.labels.end(), label) - from.labels.begin()));
  return permute(from.x, std::move(axes));
}

// What a pair's labels are: of both and kept, of both and summed, of one (kept: what is not was summed before).
struct Roles {
  Labels batch, summed, left, right;
};
Roles roles_of(const Operand& a, const Operand& b, const Labels& kept) {
  Roles roles;
  for (int label : a.labels)
    (!holds(b.labels, label) ? roles.left : holds(kept, label) ? roles.batch : roles.summed).push_back(label);
  for (int label : b.labels) {
    if (!holds(a.labels, label)) roles.right.push_back(label);
  }
  return roles;
}

int64_t elements(const Operand& of, const Labels& labels) {
  int64_t count = 1;
  for (int label : labels) count *= of.size(label);
  return count;
}

Labels joined(std::initializer_list<const Labels*> lists) {
  Labels all;
  for (const Labels* list : lists) all.insert(all.end(), list->begin(), list->end());
  return all;
}

Operand contract(const char* op, const Operand& x, const Operand& y, const Labels& kept) {
  const Operand a = sum_out(x, joined({&kept, &y.labels})), b = sum_out(y, joined({&kept, &x.labels}));
  const Roles roles = roles_of(a, b, kept);
  const Labels labels = joined({&roles.batch, &roles.left, &roles.right});
  build::check_dims(op, static_cast<int>(labels.size()));
  Shape batch, result;
  for (int label : roles.batch) batch.push_back(a.size(label));
  result = batch;
  Shape left = batch, right = batch;
  for (int label : roles.left) {
    result.push_back(a.size(label));
    left.push_back(a.size(label));
    right.push_back(1);
  }
  for (int label : roles.right) {
    result.push_back(b.size(label));
    left.push_back(1);
    right.push_back(b.size(label));
  }
  const Tensor first = arranged(a, joined({&roles.batch, &roles.left, &roles.summed})),
               second = arranged(b, joined({&roles.batch, &roles.summed, &roles.right}));
  if (roles.summed.empty()) return {reshape(first, left) * reshape(second, right), labels};
  // As few batch axes as fit beside the matrix; each stays apart where it can, so that permuted operands need no copy.
  if (batch.rank() > Shape::max_rank - 2) batch = Shape{batch.numel()};
  const int64_t m = elements(a, roles.left), k = elements(a, roles.summed), n = elements(b, roles.right);
  Shape rows = batch, columns = batch;
  rows.push_back(m);
  rows.push_back(k);
  columns.push_back(k);
  columns.push_back(n);
  return {reshape(matmul(reshape(first, rows), reshape(second, columns)), result), labels};
}

// Labels that are used outside of operands i and j.
Labels used_elsewhere(const std::vector<Operand>& operands, size_t i, size_t j, const Labels& output) {
  Labels kept = output;
  for (size_t n = 0; n < operands.size(); ++n) {
    if (n != i && n != j) kept.insert(kept.end(), operands[n].labels.begin(), operands[n].labels.end());
  }
  return kept;
}

// The pair whose product has the fewest elements more than the two, the first such.
std::pair<size_t, size_t> cheapest(const std::vector<Operand>& operands, const Labels& output) {
  std::pair<size_t, size_t> best{0, 1};
  double least = 0;
  for (size_t i = 0; operands.size() > 2 && i < operands.size(); ++i) {
    for (size_t j = i + 1; j < operands.size(); ++j) {
      const Labels kept = used_elsewhere(operands, i, j, output);
      double made = 1;
      for (int label : operands[i].labels)
        made *= holds(kept, label) ? static_cast<double>(operands[i].size(label)) : 1;
      for (int label : operands[j].labels)
        made *=
            holds(kept, label) && !holds(operands[i].labels, label) ? static_cast<double>(operands[j].size(label)) : 1;
      const double cost =
          made - static_cast<double>(operands[i].x.numel()) - static_cast<double>(operands[j].x.numel());
      if ((i == 0 && j == 1) || cost < least) {
        least = cost;
        best = {i, j};
      }
    }
  }
  return best;
}

// Output labels: those written, or the ellipsis and what is seen once.
Labels output_of(std::string_view equation, size_t arrow, const std::vector<Term>& terms,
                 const std::array<int64_t, label_count>& sizes) {
  Labels dots, labels;
  for (int i = label_count - 1; i >= letters; --i) {
    if (sizes[static_cast<size_t>(i)] >= 0) dots.push_back(i);
  }
  if (arrow == std::string_view::npos) {
    labels = dots;
    for (int label = 0; label < letters; ++label) {
      int64_t seen = 0;
      for (const Term& term : terms) seen += std::count(term.labels.begin(), term.labels.end(), label);
      if (seen == 1) labels.push_back(label);
    }
    return labels;
  }
  const Term term = parse(equation.substr(arrow + 2), equation);
  for (size_t i = 0; i < term.labels.size(); ++i) {
    const int label = term.labels[i];
    const auto name = static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26);
    if (sizes[static_cast<size_t>(label)] < 0)
      refuse(fmt::format("the result's label '{}' is in no operand", name), equation);
    if (std::count(term.labels.begin(), term.labels.end(), label) > 1)
      refuse(fmt::format("the result's label '{}' repeats", name), equation);
  }
  labels = term.labels;
  if (term.ellipsis >= 0) labels.insert(labels.begin() + term.ellipsis, dots.begin(), dots.end());
  return labels;
}

// Sizes by label, -1 for those not used; axes of size 1 fit any.
std::array<int64_t, label_count> sizes_of(const std::vector<Operand>& operands, std::string_view equation) {
  std::array<int64_t, label_count> sizes;
  sizes.fill(-1);
  for (const Operand& operand : operands) {
    for (size_t i = 0; i < operand.labels.size(); ++i) {
      const int label = operand.labels[i];
      int64_t& size = sizes[static_cast<size_t>(label)];
      const int64_t d = operand.x.dim(static_cast<int>(i));
      if (size >= 0 && size != d && size != 1 && d != 1) {
        const std::string name =
            label >= letters ? "\"...\""
                             : fmt::format("'{}'", static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26));
        throw ShapeError(fmt::format("[einsum] axes of one label have one size, or 1; got {} and {} for {} in \"{}\"",
                                     size, d, name, shortened(equation)));
      }
      if (size < 0 || size == 1) size = d;
    }
  }
  return sizes;
}

std::vector<Operand> labelled(std::string_view equation, const std::vector<Term>& terms,
                              std::span<const Tensor> tensors) {
  DType t = tensors[0].dtype();
  for (const Tensor& x : tensors) {
    build::check_device(tensors[0], x, "einsum");
    t = promote(t, x.dtype());
  }
  if (t == DType::boolean) t = DType::i32;
  std::vector<Operand> operands;
  for (size_t i = 0; i < tensors.size(); ++i)
    operands.push_back(
        with_diagonals(cast(tensors[i], t), spread(terms[i], tensors[i].rank(), i, equation), i, equation));
  return operands;
}

// Axes of 1 that others repeat are dropped.
void drop_broadcast(std::vector<Operand>& operands, const std::array<int64_t, label_count>& sizes) {
  for (Operand& operand : operands) {
    Shape shape;
    Labels labels;
    for (int name : operand.labels) {
      if (operand.size(name) != sizes[static_cast<size_t>(name)]) continue;
      shape.push_back(operand.size(name));
      labels.push_back(name);
    }
    operand = {reshape(operand.x, shape), labels};
  }
}

std::vector<int> axes_of(const Tensor& x, std::vector<int> axes) {
  std::vector<int> seen;
  for (int& axis : axes) {
    axis = build::axis_of("tensordot", x, axis);
    if (holds(seen, axis))
      throw ValueError(
          fmt::format("[tensordot] each axis once; got ({}) for {}", fmt::join(axes, ", "), x.shape().str()));
    seen.push_back(axis);
  }
  return axes;
}

}  // namespace

Tensor einsum(std::string_view equation, std::span<const Tensor> tensors, Caller caller) {
  const CallerScope scope(caller);
  const size_t arrow = equation.find("->");
  const std::vector<Term> terms = parse_terms(equation.substr(0, arrow), equation);
  if (terms.size() != tensors.size()) {
    throw ValueError(fmt::format("[einsum] one term for each operand; got {} for {} operands in \"{}\"", terms.size(),
                                 tensors.size(), shortened(equation)));
  }
  std::vector<Operand> operands = labelled(equation, terms, tensors);
  const auto sizes = sizes_of(operands, equation);
  const Labels output = output_of(equation, arrow, terms, sizes);
  drop_broadcast(operands, sizes);
  while (operands.size() > 1) {
    const auto [i, j] = cheapest(operands, output);
    Operand made = contract("einsum", operands[i], operands[j], used_elsewhere(operands, i, j, output));
    operands.erase(operands.begin() + static_cast<long>(j));
    operands[i] = std::move(made);
  }
  return arranged(sum_out(operands[0], output), output);
}

Tensor tensordot(const Tensor& a, const Tensor& b, std::vector<int> axes_a, std::vector<int> axes_b, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(a, b, "tensordot");
  if (axes_a.size() != axes_b.size()) {
    throw ValueError(fmt::format("[tensordot] as many axes of a as of b; got ({}) and ({})", fmt::join(axes_a, ", "),
                                 fmt::join(axes_b, ", ")));
  }
  axes_a = axes_of(a, std::move(axes_a));
  axes_b = axes_of(b, std::move(axes_b));
  DType t = promote(a.dtype(), b.dtype());
  if (t == DType::boolean) t = DType::i32;
  Operand left{cast(a, t), {}}, right{cast(b, t), {}};
  for (int i = 0; i < a.rank(); ++i) left.labels.push_back(i);
  for (int i = 0; i < b.rank(); ++i) right.labels.push_back(Shape::max_rank + i);
  Labels kept = joined({&left.labels, &right.labels});
  for (size_t i = 0; i < axes_a.size(); ++i) {
    if (a.dim(axes_a[i]) != b.dim(axes_b[i])) {
      throw ShapeError(fmt::format("[tensordot] summed axes have one size; got axis {} of {} and axis {} of {}",
                                   axes_a[i], a.shape().str(), axes_b[i], b.shape().str()));
    }
    right.labels[static_cast<size_t>(axes_b[i])] = axes_a[i];
    std::erase(kept, axes_a[i]);
  }
  return contract("tensordot", left, right, kept).x;
}
Tensor tensordot(const Tensor& a, const Tensor& b, int axes, Caller caller) {
  const CallerScope scope(caller);
  if (axes < 0 || axes > std::min(a.rank(), b.rank())) {
    throw ValueError(fmt::format("[tensordot] sums 0 to {} axes; got {} for {} and {}", std::min(a.rank(), b.rank()),
                                 axes, a.shape().str(), b.shape().str()));
  }
  std::vector<int> last, first;
  for (int i = 0; i < axes; ++i) {
    last.push_back(a.rank() - axes + i);
    first.push_back(i);
  }
  return tensordot(a, b, last, first);
}

}  // namespace heddle
