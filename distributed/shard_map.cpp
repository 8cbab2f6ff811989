#include "heddle/distributed/shard_map.h"

#include <fmt/format.h>

#include <exception>
#include <memory>
#include <thread>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/graph/evaluate.h"
#include "heddle/core/graph/mesh_scope.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/read_value.h"
#include "heddle/distributed/errors.h"
#include "heddle/distributed/local_transport.h"
#include "heddle/distributed/mesh_links.h"
#include "heddle/distributed/world.h"

namespace heddle::distributed {
namespace {

struct Program {
  ShardFunction f;
  Mesh mesh;
  std::vector<Sharding> in, out;
};

std::vector<Sharding> shardings(const Mesh& mesh, std::vector<Spec> specs) {
  std::vector<Sharding> made;
  for (Spec& spec : specs) made.emplace_back(mesh, std::move(spec));
  return made;
}

void check_count(size_t given, size_t specs, const char* what) {
  if (given != specs) throw ValueError(fmt::format("[shard_map] {} {}, but {} Specs for them", given, what, specs));
}

// Values that are there, also while compile() looks on.
void settle(const std::vector<Tensor>& tensors) {
  std::vector<NodePtr> nodes;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) throw ValueError(fmt::format("[shard_map] argument {} is undefined", nodes.size()));
    nodes.push_back(tensor.node());
  }
  if (!nodes.empty()) evaluate(nodes, "a program of ranks has values");
}

// A leaf of its own over the value of x, which is there.
Tensor leaf_over(const Tensor& x) {
  const Node& node = *x.node();
  if (node.storage) return Tensor(make_leaf(node.storage, node.view, node.dtype));
  return Tensor::from_bytes(read_bytes(node).data(), static_cast<size_t>(node.shape.numel()), node.dtype, node.shape,
                            node.device);
}

void check_result(const MeshScope& scope, const Sharding& said, const Tensor& result, size_t number) {
  if (!result.defined()) throw ValueError(fmt::format("[shard_map] result {} is undefined", number));
  const std::vector<std::string> axes = said.axes();
  const AxisMask named = axes.empty() ? 0 : scope.mask(axes, "shard_map");
  const Node& node = *result.node();
  if ((node.varying & ~named) == 0) return;
  const std::string line = node.where.str();
  throw AxisError(
      fmt::format("[shard_map] result {}, '{}' {}{}, varies along {}, which its Spec {} does not name: "
                  "psum or pmean it, or shard it",
                  number, node.op->name, node.shape.str(), line.empty() ? "" : " (" + line + ")",
                  scope.names(node.varying & ~named), said.str()));
}

// One rank's run, on its shards.
std::vector<Tensor> run_rank(const Program& program, World& world, const std::vector<Tensor>& shards) {
  MeshLinks links(world, program.mesh);
  MeshScope scope(links);
  std::vector<Tensor> arguments;
  for (size_t i = 0; i < shards.size(); ++i) {
    arguments.push_back(leaf_over(shards[i]));
    const std::vector<std::string> axes = program.in[i].axes();
    if (!axes.empty()) arguments.back().node()->varying = scope.mask(axes, "shard_map");
  }
  std::vector<Tensor> results = program.f(arguments);
  check_count(results.size(), program.out.size(), "results");
  for (size_t i = 0; i < results.size(); ++i) check_result(scope, program.out[i], results[i], i);
  settle(results);
  scope.finish();
  for (Tensor& result : results) result = leaf_over(result);
  return results;
}

void check_arguments(const Program& program, const std::vector<Tensor>& given) {
  check_count(given.size(), program.in.size(), "arguments");
  settle(given);
}

// What each rank throws ends the others, whose errors then say only that.
std::exception_ptr first_cause(const std::vector<std::exception_ptr>& errors) {
  std::exception_ptr first;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const MismatchError&) {
      return error;
    } catch (const CommunicationError&) {
      if (!first) first = error;
    } catch (...) {
      return error;
    }
  }
  return first;
}

class Simulation {
 public:
  Simulation(const Program& program, const std::vector<Tensor>& whole)
      : program_(program),
        count_(static_cast<size_t>(program.mesh.ranks())),
        shards_(count_),
        results_(count_),
        errors_(count_) {
    check_arguments(program, whole);
    for (size_t rank = 0; rank < count_; ++rank) {
      for (size_t i = 0; i < whole.size(); ++i)
        shards_[rank].push_back(program.in[i].shard(whole[i], static_cast<int>(rank)));
      settle(shards_[rank]);
    }
  }

  std::vector<Tensor> run() {
    const LocalWorld local(static_cast<int>(count_));
    for (size_t rank = 0; rank < count_; ++rank) {
      worlds_.push_back(std::make_unique<World>([&local, rank] { return local.transport(static_cast<int>(rank)); }));
    }
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < count_; ++rank)
      threads.emplace_back([this, rank, gradients = grad_mode()] { run_thread(rank, gradients); });
    for (std::thread& thread : threads) thread.join();
    worlds_.clear();
    if (const std::exception_ptr cause = first_cause(errors_)) std::rethrow_exception(cause);
    std::vector<Tensor> whole;
    for (size_t i = 0; i < program_.out.size(); ++i) {
      std::vector<Tensor> parts;
      for (const std::vector<Tensor>& result : results_) parts.push_back(result[i]);
      whole.push_back(program_.out[i].join(parts));
    }
    settle(whole);
    return whole;
  }

 private:
  void run_thread(size_t rank, bool gradients) {
    try {
      set_grad_mode(gradients);
      results_[rank] = run_rank(program_, *worlds_[rank], shards_[rank]);
    } catch (...) {
      errors_[rank] = std::current_exception();
      for (const std::unique_ptr<World>& world : worlds_) world->give_up();  // nobody waits for this rank
    }
  }

  const Program& program_;
  size_t count_;
  std::vector<std::vector<Tensor>> shards_, results_;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::unique_ptr<World>> worlds_;
};

}  // namespace

ShardFunction shard_map(ShardFunction f, const Mesh& mesh, std::vector<Spec> in, std::vector<Spec> out) {
  Program program{std::move(f), mesh, shardings(mesh, std::move(in)), shardings(mesh, std::move(out))};
  return [program = std::move(program)](const std::vector<Tensor>& whole) { return Simulation(program, whole).run(); };
}

ShardFunction shard_map(ShardFunction f, World& world, const Mesh& mesh, std::vector<Spec> in, std::vector<Spec> out) {
  Program program{std::move(f), mesh, shardings(mesh, std::move(in)), shardings(mesh, std::move(out))};
  return [program = std::move(program), &world](const std::vector<Tensor>& shards) {
    check_arguments(program, shards);
    try {
      return run_rank(program, world, shards);
    } catch (...) {
      world.give_up();  // the others would wait for what this rank no longer calls
      throw;
    }
  };
}

}  // namespace heddle::distributed
