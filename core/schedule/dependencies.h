// Dependencies: which kernels' values wait for which, through values and through memory written in place.
//
// Purpose: grouping must not close a circle, and the order of groups follows from this. A vertex counts when it is a
// kernel's work (is_kernel); users are found through views and whatever is computed by its readers. Invariants: an
// output that is written in place comes after every read of the old value. Thread safety: none.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "heddle/core/ir/groups.h"

namespace heddle {

// Vertices cheap enough to be computed wherever they are needed: scalar arithmetic on leaves.
std::vector<bool> find_free_nodes(const Graph& graph);

class Dependencies {
 public:
  Dependencies(const Graph& graph, const std::vector<bool>& free_nodes, const std::vector<OutputPlan>& outputs);

  // Whether the vertex is computed by a kernel. A free one is computed by its users; it is a kernel of its own only
  // when somebody wants its value.
  bool is_kernel(int id) const;
  bool is_output(int id) const { return outputs_.contains(id); }
  const std::set<int>& outputs() const { return outputs_; }
  // By vertex: the kernels that read its value, ascending.
  const std::vector<std::vector<int>>& users() const { return users_; }
  std::vector<std::vector<int>>& users() { return users_; }
  // By input slot: the kernels that read that storage, and the one that overwrites it.
  const std::map<int, std::set<int>>& readers() const { return readers_; }
  const std::map<int, int>& writers() const { return writers_; }
  // After `id` come: its users, and, when it reads an input storage that is overwritten, the writer.
  void for_each_successor(int id, const auto& visit) const {
    for (int user : users_[static_cast<size_t>(id)]) visit(user);
    for (int writer : writes_after_[static_cast<size_t>(id)]) visit(writer);
  }
  // The output is computed apart and copied at the end. order_writes() must follow.
  void write_apart(OutputPlan& output);
  void order_writes();
  // By vertex: whether an order exists in which it comes after all it waits for.
  std::vector<bool> orderable() const;

 private:
  void find_sources(int id, int user, std::set<int>& seen);

  const Graph& graph_;
  const std::vector<bool>& free_;
  std::set<int> outputs_;
  std::vector<std::vector<int>> users_;
  std::map<int, std::set<int>> readers_;
  std::map<int, int> writers_;
  std::vector<std::vector<int>> writes_after_;  // by vertex that reads: the writers
};

}  // namespace heddle
