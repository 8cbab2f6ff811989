// Transforms of functions: grad, value_and_grad, vjp, jvp, linearize, jacfwd, jacrev, hessian, hvp. vmap stands in
// autograd/vmap.h.
//
//   auto f = [](const Tensor& x) { return sum(square(x) * sin(x)); };
//   Tensor g = grad(f)(x);                               // a function of the same arguments
//   Tensor h = hessian(f)(x);
//   auto [y, dy] = jvp(f, x, v);                         // forward mode
//   Tensor each = vmap(grad(f))(batch);                  // per-example gradients
//
// Arguments and results are trees (autograd/tree.h): tensors, vectors, pairs, tuples and maps of them; numbers and
// other values are passed on. Template arguments say which arguments are differentiated, the first unless said
// otherwise: grad<1>(f), grad<0, 2>(f). One argument gives a gradient of its type, several give a tuple. A function may
// close over tensors, which are constants of the transform; if they track gradients, so does what the transform gives,
// and the result of any transform may be transformed or differentiated again: grad(grad(f)), backward() through
// grad(f)(x), vmap(jvp), jacfwd(jacrev(f)) = hessian(f). Compiled functions (core/compile/compile.h) inside a transform
// run as what they are made of; a transformed function can be compiled. Errors: GradError; the text names the transform
// and the argument. Invariants: f is called once per call, with stand-ins of the differentiated arguments. What f does
// to tensors outside (assign, backward) stays done. Thread safety: recording is per thread; f may be called by several
// threads where it could be otherwise.
#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/tree.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/core/graph/transform.h"

namespace heddle {

namespace detail {

// One recorded run of a function, and what follows from it.
class Linearization {
 public:
  // Puts fresh stand-ins into `places`, which are the tensors to differentiate by.
  Linearization(std::string who, std::span<Tensor* const> places);
  // Calls run() with gradients recorded.
  template <class Run>
  auto run(const Run& run) {
    const TransformScope scope;
    const Mode on(true);
    return run();
  }
  // What run() gave. Replaces the tensors in `places` by what the caller may see: without history unless something
  // outside tracks.
  void finish(std::span<Tensor* const> places);

  // Reverse mode: one cotangent for each result (undefined: zero); gives one for each input, zeros where there is no
  // path, undefined where it is not floating.
  std::vector<Tensor> pull(std::span<const Tensor> cotangents) const;
  // Forward mode: one tangent for each input; gives one for each floating result, undefined for others.
  std::vector<Tensor> push(std::span<const Tensor> tangents) const;
  // The first result must have one element: its gradient.
  std::vector<Tensor> gradient() const;
  // By result, then by input: the shape of the result followed by that of the input.
  std::vector<std::vector<Tensor>> jacobian(bool forward) const;

 private:
  class Mode {
   public:
    explicit Mode(bool on) : before_(grad_mode()) { set_grad_mode(on); }
    ~Mode() { set_grad_mode(before_); }

   private:
    bool before_;
  };
  bool tracked(std::span<const Tensor> others) const;

  std::string who_;
  bool outer_mode_;
  std::vector<Tensor> inputs_;   // stand-ins
  std::vector<Tensor> outputs_;  // over them
  bool outside_ = false;         // they depend on something else that tracks
};

// Tuple of the arguments I... of a tuple, or the only one itself.
template <size_t... I, class Tuple>
auto chosen(const Tuple& arguments) {
  if constexpr (sizeof...(I) == 1)
    return std::get<I...>(arguments);
  else
    return std::make_tuple(std::get<I>(arguments)...);
}
template <size_t... I, class Tuple>
std::vector<Tensor*> chosen_places(Tuple& arguments) {
  std::vector<Tensor*> all;
  const auto add = [&](auto& argument) {
    for (Tensor* place : tree::places(argument)) all.push_back(place);
  };
  (add(std::get<I>(arguments)), ...);
  return all;
}

// f recorded over `arguments` with stand-ins for those with the numbers I...; gives the result.
// f recorded over `given` with stand-ins for the arguments with the numbers I...: {result, linearization}.
template <size_t... I, class F, class Tuple>
auto record(std::string who, F& f, const Tuple& given) {
  Tuple arguments = given;
  const std::vector<Tensor*> places = chosen_places<I...>(arguments);
  auto linearization = std::make_shared<Linearization>(std::move(who), places);
  auto result = linearization->run([&] { return std::apply(f, std::as_const(arguments)); });
  linearization->finish(tree::places(result));
  return std::pair(std::move(result), std::move(linearization));
}

template <class T>
struct IsTuple : std::false_type {};
template <class... Ts>
struct IsTuple<std::tuple<Ts...>> : std::true_type {};
template <class T>
auto as_arguments(const T& value) {
  if constexpr (IsTuple<T>::value)
    return value;
  else
    return std::tuple<T>(value);
}
template <class F, class T>
auto record_all(std::string who, F& f, const T& primals) {
  auto arguments = as_arguments(primals);
  return [&]<size_t... I>(std::index_sequence<I...>) { return record<I...>(std::move(who), f, arguments); }
  (std::make_index_sequence<std::tuple_size_v<decltype(arguments)>>());
}

template <size_t... I>
struct Numbers {};
template <size_t... I>
struct OrFirst {
  using type = Numbers<I...>;
};
template <>
struct OrFirst<> {
  using type = Numbers<0>;
};

template <size_t... I, class F>
auto value_and_grad(Numbers<I...>, std::string who, F f) {
  return [f = std::make_shared<F>(std::move(f)), who = std::move(who)]<class... Args>(const Args&... args) {
    const std::tuple<std::decay_t<Args>...> given(args...);
    auto [result, linearization] = record<I...>(who, *f, given);
    return std::pair(std::move(result), tree::with(chosen<I...>(given), linearization->gradient()));
  };
}
template <size_t... I, class F>
auto jacobian(Numbers<I...>, std::string who, bool forward, F f) {
  return [f = std::make_shared<F>(std::move(f)), who = std::move(who), forward]<class... Args>(const Args&... args) {
    const std::tuple<std::decay_t<Args>...> given(args...);
    auto [result, linearization] = record<I...>(who, *f, given);
    const auto like = chosen<I...>(given);
    const std::vector<std::vector<Tensor>> rows = linearization->jacobian(forward);
    size_t next = 0;
    using Result = std::decay_t<decltype(result)>;
    return tree::Nested<Result, std::decay_t<decltype(like)>>::make(result,
                                                                    [&] { return tree::with(like, rows[next++]); });
  };
}

}  // namespace detail

// (arguments) -> {f(arguments), gradient}. f gives a floating tensor with one element, or a pair, tuple or vector that
// begins with it.
template <size_t... I, class F>
auto value_and_grad(F f) {
  return detail::value_and_grad(typename detail::OrFirst<I...>::type(), "value_and_grad", std::move(f));
}
// (arguments) -> gradient.
template <size_t... I, class F>
requires(!std::is_convertible_v<F, const Tensor&>) auto grad(F f) {
  return [both = detail::value_and_grad(typename detail::OrFirst<I...>::type(), "grad", std::move(f))](
             const auto&... args) { return both(args...).second; };
}

// {f(arguments), pull}: pull(cotangent, of the result's type) gives the cotangent of the argument, or a tuple of those
// of all arguments. It may be called any number of times. Tensors that are not floating have no cotangent: theirs come
// back undefined.
template <class F, class... Args>
requires std::invocable<F&, const Args&...>
auto vjp(F f, const Args&... args) {
  const std::tuple<std::decay_t<Args>...> given(args...);
  auto [result, linearization] = detail::record_all("vjp", f, given);
  using Result = std::decay_t<decltype(result)>;
  auto pull = [recorded = linearization, given](const Result& cotangent) {
    auto all = tree::with(given, recorded->pull(tree::tensors(cotangent)));
    if constexpr (sizeof...(Args) == 1)
      return std::get<0>(std::move(all));
    else
      return all;
  };
  return std::pair(std::move(result), std::move(pull));
}

// {f(primal), tangent of the result}. Several arguments are two tuples: jvp(f, std::tuple(x, y), std::tuple(dx, dy)).
// Results that are not floating have no tangent: theirs come back undefined.
template <class F, class T>
auto jvp(F f, const T& primal, const T& tangent) {
  auto [result, linearization] = detail::record_all("jvp", f, primal);
  auto pushed = tree::with(result, linearization->push(tree::tensors(tangent)));
  return std::pair(std::move(result), std::move(pushed));
}

// {f(primal), push}: push(tangent) is jvp without calling f again; several arguments as in jvp.
template <class F, class T>
auto linearize(F f, const T& primal) {
  auto [result, linearization] = detail::record_all("linearize", f, primal);
  auto push = [recorded = linearization, primal_result = result](const T& tangent) {
    return tree::with(primal_result, recorded->push(tree::tensors(tangent)));
  };
  return std::pair(std::move(result), std::move(push));
}

// (arguments) -> Jacobian: a tensor of the result's shape followed by the argument's; for trees, the argument's tree in
// each place of the result's. jacrev computes all rows at once (one pull of vmapped cotangents): for more inputs than
// outputs; jacfwd all columns.
template <size_t... I, class F>
auto jacrev(F f) {
  return detail::jacobian(typename detail::OrFirst<I...>::type(), "jacrev", false, std::move(f));
}
template <size_t... I, class F>
auto jacfwd(F f) {
  return detail::jacobian(typename detail::OrFirst<I...>::type(), "jacfwd", true, std::move(f));
}
// (arguments) -> second derivatives, forward over reverse: the argument's shape twice.
template <size_t... I, class F>
auto hessian(F f) {
  return jacfwd<I...>(grad<I...>(std::move(f)));
}
// Hessian of f at x times v, without the Hessian: forward over reverse.
template <class F, class T>
auto hvp(F f, const T& x, const T& v) {
  return jvp(grad(std::move(f)), x, v).second;
}

}  // namespace heddle
