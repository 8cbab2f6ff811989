#include "heddle/train/shard_save.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/train/sharded_checkpoint.h"

namespace heddle::train {
namespace {

constexpr size_t longest_reason = 512, numbers = 3;  // numbers of a rank: whether it failed, and its part's

std::string reason_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "for an unknown reason";
  }
}

// What the first of the ranks that failed says.
[[noreturn]] void fail(distributed::Group& ranks, const std::vector<int64_t>& all, const std::string& mine) {
  std::array<char, longest_reason> own{};
  mine.copy(own.data(), longest_reason);
  std::vector<char> texts(longest_reason * static_cast<size_t>(ranks.size()));
  ranks.all_gather(own.data(), texts.data(), DType::u8, Shape{static_cast<int64_t>(longest_reason)}).wait();
  size_t rank = 0;
  while (all[numbers * rank] == 0) ++rank;
  std::string text(texts.data() + rank * longest_reason, longest_reason);
  text.resize(std::min(text.find('\0'), longest_reason));
  throw IoError(fmt::format("[checkpoint] rank {} could not save its part: {}", rank, text));
}

}  // namespace

ShardSave::ShardSave(const distributed::Group& ranks, const std::string& checkpoint, int64_t step,
                     const std::vector<Optimizers::ShardState>& states)
    : ranks_(ranks),
      path_(shard_path(checkpoint, ranks.rank(), ranks.size())),
      part_(snapshot_of_shards(step, states)) {}

Metadata ShardSave::write_part() {
  ShardFile file;
  std::exception_ptr failure;
  try {
    file = write_shard(part_, path_);
  } catch (...) {
    failure = std::current_exception();
  }
  const std::vector<int64_t> all = agree(failure, file.bytes, file.checksum);
  std::vector<ShardFile> files;
  for (size_t at = 0; at < all.size(); at += numbers) files.push_back({all[at + 1], all[at + 2]});
  return manifest_of(files);
}

void ShardSave::end(std::exception_ptr failure) { (void)agree(std::move(failure), 0, 0); }

std::vector<int64_t> ShardSave::agree(std::exception_ptr failure, int64_t bytes, int64_t checksum) {
  const std::array<int64_t, numbers> mine{failure ? 1 : 0, bytes, checksum};
  std::vector<int64_t> all(numbers * static_cast<size_t>(ranks_.size()));
  ranks_.all_gather(mine.data(), all.data(), DType::i64, Shape{static_cast<int64_t>(numbers)}).wait();
  for (size_t at = 0; at < all.size(); at += numbers) {
    if (all[at] != 0) fail(ranks_, all, failure ? reason_of(failure) : std::string());
  }
  return all;
}

}  // namespace heddle::train
