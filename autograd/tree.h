// Trees: values that hold tensors, as arguments and results of transformed functions.
//
// Purpose: Tensor, vector, array, pair, tuple, map (by its values) and optional of trees. Anything else holds no tensor
// and is passed on as it is. Empty handles count as tensors. Thread safety: pure functions.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle::tree {

template <class T>
struct Node {
  static constexpr bool holds = false;
};
template <>
struct Node<Tensor> {
  static constexpr bool holds = true;
  template <class V, class F>
  static void visit(V& value, const F& f) {
    f(value);
  }
};
template <class T>
struct Range {
  static constexpr bool holds = Node<T>::holds;
  template <class V, class F>
  static void visit(V& value, const F& f) {
    for (auto& part : value) Node<T>::visit(part, f);
  }
};
template <class T>
struct Node<std::vector<T>> : Range<T> {};
template <class T, size_t N>
struct Node<std::array<T, N>> : Range<T> {};
template <class... Ts>
struct Node<std::tuple<Ts...>> {
  static constexpr bool holds = (Node<Ts>::holds || ...);
  template <class V, class F>
  static void visit(V& value, const F& f) {
    std::apply([&](auto&... parts) { (visit_one<Ts>(parts, f), ...); }, value);
  }
  template <class T, class V, class F>
  static void visit_one(V& part, const F& f) {
    if constexpr (Node<T>::holds) Node<T>::visit(part, f);
  }
};
template <class A, class B>
struct Node<std::pair<A, B>> {
  static constexpr bool holds = Node<A>::holds || Node<B>::holds;
  template <class V, class F>
  static void visit(V& value, const F& f) {
    if constexpr (Node<A>::holds) Node<A>::visit(value.first, f);
    if constexpr (Node<B>::holds) Node<B>::visit(value.second, f);
  }
};
template <class K, class T>
struct Node<std::map<K, T>> {
  static constexpr bool holds = Node<T>::holds;
  template <class V, class F>
  static void visit(V& value, const F& f) {
    for (auto& [key, part] : value) Node<T>::visit(part, f);
  }
};
template <class T>
struct Node<std::optional<T>> {
  static constexpr bool holds = Node<T>::holds;
  template <class V, class F>
  static void visit(V& value, const F& f) {
    if (value) Node<T>::visit(*value, f);
  }
};

// Calls f(tensor) for each tensor, in order.
template <class T, class F>
void visit(T& value, const F& f) {
  using Plain = std::remove_const_t<T>;
  if constexpr (Node<Plain>::holds) Node<Plain>::visit(value, f);
}

template <class T>
std::vector<Tensor> tensors(const T& value) {
  std::vector<Tensor> all;
  visit(value, [&](const Tensor& t) { all.push_back(t); });
  return all;
}

template <class T>
std::vector<Tensor*> places(T& value) {
  std::vector<Tensor*> all;
  visit(value, [&](Tensor& t) { all.push_back(&t); });
  return all;
}

// `value` with other tensors in its tensors' places; as many as it holds.
template <class T>
T with(T value, const std::vector<Tensor>& tensors) {
  size_t next = 0;
  for (Tensor* place : places(value)) *place = tensors[next++];
  return value;
}

// The type of Outer with an Inner in each tensor's place.
template <class Outer, class Inner>
struct Nested {
  static_assert(std::is_same_v<Outer, Tensor>,
                "a Jacobian needs a function of tensors, vectors, pairs and tuples of them");
  using type = Inner;
  template <class Next>
  static Inner make(const Outer&, const Next& next) {
    return next();
  }
};
template <class T, class Inner>
struct Nested<std::vector<T>, Inner> {
  using type = std::vector<typename Nested<T, Inner>::type>;
  template <class Next>
  static type make(const std::vector<T>& outer, const Next& next) {
    type made;
    for (const T& part : outer) made.push_back(Nested<T, Inner>::make(part, next));
    return made;
  }
};
template <class A, class B, class Inner>
struct Nested<std::pair<A, B>, Inner> {
  using type = std::pair<typename Nested<A, Inner>::type, typename Nested<B, Inner>::type>;
  template <class Next>
  static type make(const std::pair<A, B>& outer, const Next& next) {
    auto first = Nested<A, Inner>::make(outer.first, next);
    return {std::move(first), Nested<B, Inner>::make(outer.second, next)};
  }
};
template <class... Ts, class Inner>
struct Nested<std::tuple<Ts...>, Inner> {
  using type = std::tuple<typename Nested<Ts, Inner>::type...>;
  template <class Next>
  static type make(const std::tuple<Ts...>& outer, const Next& next) {
    return std::apply([&](const Ts&... parts) { return type{Nested<Ts, Inner>::make(parts, next)...}; }, outer);
  }
};

}  // namespace heddle::tree
