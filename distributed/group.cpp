#include "heddle/distributed/group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/distributed/group_state.h"

namespace heddle::distributed {
namespace {

std::byte* bytes(void* values) { return static_cast<std::byte*>(values); }
const std::byte* bytes(const void* values) { return static_cast<const std::byte*>(values); }

Call call_for(Operation operation, DType dtype, const Shape& shape, const Caller& caller) {
  const CallerScope scope(caller);
  return {.operation = operation, .dtype = dtype, .shape = shape, .line = current_line().str()};
}

Call reduction_call(Operation operation, Reduction reduction, DType dtype, const Shape& shape, const Caller& caller) {
  if (!can_reduce(dtype)) {
    throw DTypeError(fmt::format("[{}] there is no {} of {} over ranks; there is of f32, f16, bf16, f64, i32 and i64",
                                 name_of(operation), name_of(reduction), heddle::name_of(dtype)));
  }
  Call call = call_for(operation, dtype, shape, caller);
  call.reduction = reduction;
  return call;
}

// A group of one rank: nobody to wait for.
Ticket run_alone(const Call& call, const Members& members, const Buffers& buffers) {
  Scratch scratch;
  Exchange exchange = schedule(call, members, buffers, scratch, Transport::largest_message);
  for (Task& task : exchange.tasks()) task.work();
  return {};
}

}  // namespace

Group::Group(std::shared_ptr<State> state) : state_(std::move(state)) {}

int Group::rank() const { return static_cast<int>(state_->members.me); }
int Group::size() const { return static_cast<int>(state_->members.count()); }
const std::vector<int>& Group::ranks() const { return state_->members.ranks; }
const std::string& Group::name() const { return state_->name; }

Ticket Group::State::hand_over(Call call, const Buffers& buffers, Members who) {
  Request request{.call = std::move(call),
                  .members = std::move(who),
                  .buffers = buffers,
                  .group_number = number,
                  .generation = generation,
                  .ticket = std::make_shared<TicketState>()};
  Ticket ticket(request.ticket);
  thread->submit(std::move(request));
  return ticket;
}

Ticket Group::State::submit(Call call, const Buffers& buffers) {
  if (members.count() == 1) return run_alone(call, members, buffers);
  call.group = hash;
  call.group_name = name;
  const std::lock_guard lock(mutex);  // the order of the numbers is that of the calls
  call.sequence = calls++;
  return hand_over(std::move(call), buffers, members);
}

Ticket Group::State::submit_pair(Call call, const Buffers& buffers, int from, int to) {
  call.group = hash;
  call.group_name = fmt::format("{}, from {} to {}", name, from, to);
  call.root = from;
  const std::lock_guard lock(mutex);
  call.sequence = messages[{from, to}]++;
  const auto rank = [&](int place) { return members.ranks[static_cast<size_t>(place)]; };
  return hand_over(std::move(call), buffers,
                   {.ranks = {rank(from), rank(to)}, .me = static_cast<size_t>(from) == members.me ? 0u : 1u});
}

void Group::check_place(int place, const char* operation) const {
  if (place < 0 || place >= size())
    throw ValueError(fmt::format("[{}] {} is no place of {}, which has {} ranks", operation, place, name(), size()));
}

Ticket Group::all_reduce(void* values, DType dtype, const Shape& shape, Reduction reduction, const Caller& caller) {
  return state_->submit(reduction_call(Operation::all_reduce, reduction, dtype, shape, caller),
                        {.input = bytes(values), .output = bytes(values)});
}

Ticket Group::all_gather(const void* mine, void* all, DType dtype, const Shape& shape, const Caller& caller) {
  return state_->submit(call_for(Operation::all_gather, dtype, shape, caller),
                        {.input = bytes(mine), .output = bytes(all)});
}

Ticket Group::reduce_scatter(const void* all, void* mine, DType dtype, const Shape& shape, Reduction reduction,
                             const Caller& caller) {
  return state_->submit(reduction_call(Operation::reduce_scatter, reduction, dtype, shape, caller),
                        {.input = bytes(all), .output = bytes(mine)});
}

Call Group::with_sizes(Call call, const std::vector<int64_t>& sizes) const {
  const bool fit = sizes.size() == static_cast<size_t>(size()) &&
                   std::none_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; });
  if (!fit)
    throw ValueError(fmt::format("[{}] parts of sizes [{}] for {} ranks; each rank has one of at least 0",
                                 name_of(call.operation), fmt::join(sizes, ", "), size()));
  call.shape = Shape{std::accumulate(sizes.begin(), sizes.end(), int64_t{0})};
  call.set_sizes(sizes);
  return call;
}

Ticket Group::reduce_scatter(void* values, DType dtype, const std::vector<int64_t>& sizes, Reduction reduction,
                             const Caller& caller) {
  const Call call = reduction_call(Operation::reduce_scatter, reduction, dtype, Shape(), caller);
  return state_->submit(with_sizes(call, sizes), {.input = bytes(values), .output = bytes(values)});
}

Ticket Group::all_gather(void* values, DType dtype, const std::vector<int64_t>& sizes, const Caller& caller) {
  return state_->submit(with_sizes(call_for(Operation::all_gather, dtype, Shape(), caller), sizes),
                        {.input = bytes(values), .output = bytes(values)});
}

Ticket Group::all_to_all(const void* to, void* from, DType dtype, const Shape& shape, const Caller& caller) {
  return state_->submit(call_for(Operation::all_to_all, dtype, shape, caller),
                        {.input = bytes(to), .output = bytes(from)});
}

Ticket Group::broadcast(void* values, DType dtype, const Shape& shape, int root, const Caller& caller) {
  check_place(root, "broadcast");
  Call call = call_for(Operation::broadcast, dtype, shape, caller);
  call.root = root;
  return state_->submit(std::move(call), {.input = bytes(values), .output = bytes(values)});
}

Ticket Group::send(const void* values, DType dtype, const Shape& shape, int to, const Caller& caller) {
  check_place(to, "send");
  if (to == rank()) throw ValueError(fmt::format("[send] rank {} of {} sends to itself", to, name()));
  return state_->submit_pair(call_for(Operation::send, dtype, shape, caller), {.input = bytes(values)}, rank(), to);
}

Ticket Group::receive(void* values, DType dtype, const Shape& shape, int from, const Caller& caller) {
  check_place(from, "receive");
  if (from == rank()) throw ValueError(fmt::format("[receive] rank {} of {} receives from itself", from, name()));
  return state_->submit_pair(call_for(Operation::receive, dtype, shape, caller), {.output = bytes(values)}, from,
                             rank());
}

Ticket Group::barrier(const Caller& caller) {
  return state_->submit(call_for(Operation::barrier, DType::u8, Shape(), caller), {});
}

}  // namespace heddle::distributed
