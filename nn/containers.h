// Containers of modules: ModuleList, ModuleDict and Sequential.
//
//   struct Deep : nn::Module {
//     nn::ModuleList blocks = add("blocks", nn::ModuleList());
//     Deep() { for (int i = 0; i < 3; ++i) blocks.append(nn::Linear(8, 8)); }
//     Tensor forward(const Tensor& x) override {
//       Tensor y = x;
//       for (nn::Module& block : blocks) y = relu(block(y));
//       return y;
//     }
//   };
//
// Purpose: parts whose number or names are known only when a network is made; names of parameters are PyTorch's
// ("blocks.0.weight"). Invariants: handles (nn/module.h): copies share their parts, also those added later. A part
// keeps its class: block(x) runs its own forward(), at<nn::Linear>(0).weight reaches what it has. Errors: ValueError
// for an index or a key that is not there, and for a class that the part is not of. Thread safety: none.
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heddle/nn/module.h"

namespace heddle::nn {

namespace detail {
using NamedModules = std::vector<std::pair<std::string, std::shared_ptr<Module>>>;
std::shared_ptr<NamedModules> no_modules();
[[noreturn]] void fail_class(const Module& container, const std::string& name, const Module& part);

template <std::derived_from<Module> M>
M& of_class(const Module& container, const std::string& name, Module& part) {
  if (M* found = dynamic_cast<M*>(&part)) return *found;
  fail_class(container, name, part);
}
}  // namespace detail

// Modules named "0", "1", ... in the order of append(). It has no forward().
class ModuleList : public Module {
 public:
  template <std::derived_from<Module>... Modules>
  explicit ModuleList(Modules... modules) : ModuleList("ModuleList") {
    (append(std::move(modules)), ...);
  }
  template <std::derived_from<Module> M>
  ModuleList& append(M module) {
    const std::string name = std::to_string(size());
    add(name, module);
    modules_->emplace_back(name, std::make_shared<M>(std::move(module)));
    return *this;
  }
  size_t size() const;
  bool empty() const { return size() == 0; }
  // A negative index counts from the end.
  Module& operator[](int64_t index) const;
  template <std::derived_from<Module> M>
  M& at(int64_t index) const {
    return detail::of_class<M>(*this, std::to_string(index), (*this)[index]);
  }

  // Gives each part as a Module&. append() ends what iterates.
  class Iterator {
   public:
    explicit Iterator(detail::NamedModules::const_iterator at) : at_(at) {}
    Module& operator*() const { return *at_->second; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    detail::NamedModules::const_iterator at_;
  };
  Iterator begin() const;
  Iterator end() const;

 protected:
  explicit ModuleList(const char* kind);

 private:
  std::shared_ptr<detail::NamedModules> modules_ = detail::no_modules();
};

// Modules by key, in the order of insert():
//   nn::ModuleDict heads;
//   heads.insert("digits", nn::Linear(64, 10)).insert("letters", nn::Linear(64, 26));
//   heads[task](x);
class ModuleDict : public Module {
 public:
  ModuleDict();
  // ValueError for a key that is there already, is empty or holds a dot.
  template <std::derived_from<Module> M>
  ModuleDict& insert(const std::string& key, M module) {
    add(key, module);
    modules_->emplace_back(key, std::make_shared<M>(std::move(module)));
    return *this;
  }
  size_t size() const;
  bool empty() const { return size() == 0; }
  bool contains(const std::string& key) const;
  std::vector<std::string> keys() const;
  Module& operator[](const std::string& key) const;
  template <std::derived_from<Module> M>
  M& at(const std::string& key) const {
    return detail::of_class<M>(*this, key, (*this)[key]);
  }

  // Gives each key with its part: for (const auto& [key, module] : heads) ... (*module)(x).
  detail::NamedModules::const_iterator begin() const;
  detail::NamedModules::const_iterator end() const;

 private:
  std::shared_ptr<detail::NamedModules> modules_ = detail::no_modules();
};

// A list whose parts run one after the other:
//   nn::Sequential model{nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10)};
// Braces make the parts from left to right, so that a seed gives each layer the same weights whatever the compiler;
// between parentheses GCC on x86-64 goes from right to left, and others do not.
// Sequential(other) is another handle of `other`; a Sequential whose only part so far is one takes append().
class Sequential : public ModuleList {
 public:
  template <std::derived_from<Module>... Layers>
  explicit Sequential(Layers... layers) : ModuleList("Sequential") {
    (append(std::move(layers)), ...);
  }
  template <std::derived_from<Module> M>
  Sequential& append(M layer) {
    ModuleList::append(std::move(layer));
    return *this;
  }
  Tensor forward(const Tensor& x) override;
};

}  // namespace heddle::nn
