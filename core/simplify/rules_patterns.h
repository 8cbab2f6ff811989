// Shared by the rules that recognise written-out operations (rules_rows.cpp, rules_activations.cpp).
//
// Purpose: products read as factors, whatever their order and association. Invariants: nothing is made. Thread safety:
// pure functions.
#pragma once

#include <span>
#include <vector>

#include "heddle/core/simplify/simplifier.h"

namespace heddle {

std::span<const Rule> row_rules();
std::span<const Rule> activation_rules();

// constant * the product of vertices (ascending, with repetitions).
struct Factors {
  double constant = 1;
  std::vector<int> vertices;
};
// Through products, quotients by a constant, negations, squares and cubes.
Factors factors_of(const Simplifier& graph, int id);

// Is the constant `value` of dtype t what `exact` becomes there, possibly in a few roundings?
bool about(double value, double exact, DType t);

// The vertex behind reshapes that only add or remove dimensions of size 1.
int behind_reshape(const Simplifier& graph, int id);

}  // namespace heddle
