#include <algorithm>
#include <random>

#include "heddle/core/functions/functions.h"
#include "heddle/train/compression/compression.h"
#include "heddle/train/compression/factor_lists.h"
#include "heddle/train/compression/flat_parts.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {
namespace {

// A gradient as a matrix.
struct Size {
  int64_t rows, columns;
  bool operator==(const Size&) const = default;
};
Size size_of(const Shape& shape) { return {shape[0], shape.numel() / std::max<int64_t>(shape[0], 1)}; }

class LowRank final : public Compression {
 public:
  LowRank(const LowRankOptions& options, DeviceContext& device)
      : rank_(options.rank), seed_(options.seed), wire_(options.in_bytes), device_(device) {}

  bool takes(const Shape& shape) const override {
    if (shape.rank() < 2 || shape.numel() == 0) return false;
    const Size size = size_of(shape);
    return 2 * rank_ * (size.rows + size.columns) <= shape.numel();
  }
  std::vector<Route> routes() const override { return {wire_.route(), wire_.route()}; }

  std::vector<Tensor> send(size_t round, const std::vector<Tensor>& given) override {
    return round == 0 ? send_left(given) : send_right(given);
  }

  std::vector<Tensor> sums(const std::vector<Tensor>& brought) override {
    const std::vector<Tensor> right = wire_.sums(brought, right_shapes());
    std::vector<Tensor> found(shapes_.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      group.right.assign(right[g]);
      const Tensor whole = matmul(group.left, transpose(right[g]));  // (count, rows, columns)
      for (size_t i = 0; i < group.members.size(); ++i) {
        const size_t member = group.members[i];
        const auto at = static_cast<int64_t>(i);
        found[member] = reshape(slice(whole, 0, {.start = at, .stop = at + 1}), shapes_[member]);
      }
    }
    return found;
  }

 private:
  // Matrices of one size, whose products are one batch.
  struct Group {
    Size size;
    std::vector<size_t> members;
    Tensor kept;   // (count, rows, columns): errors; between rounds the matrices with them
    Tensor left;   // (count, rows, rank), columns orthonormal
    Tensor right;  // (count, columns, rank), of the update before

    int64_t count() const { return static_cast<int64_t>(members.size()); }
  };

  // Of a factor whose length that member of the size is.
  std::vector<Shape> factor_shapes(int64_t Size::*length) const {
    std::vector<Shape> shapes;
    for (const Group& group : groups_) shapes.push_back(Shape{group.count(), group.size.*length, rank_});
    return shapes;
  }
  std::vector<Shape> left_shapes() const { return factor_shapes(&Size::rows); }
  std::vector<Shape> right_shapes() const { return factor_shapes(&Size::columns); }

  void make_groups(const std::vector<Tensor>& gradients) {
    shapes_ = shapes_of(gradients);
    for (size_t i = 0; i < shapes_.size(); ++i) {
      const Size size = size_of(shapes_[i]);
      auto group = std::ranges::find(groups_, size, &Group::size);
      if (group == groups_.end()) group = groups_.insert(groups_.end(), Group{size, {}, {}, {}, {}});
      group->members.push_back(i);
    }
    std::mt19937 bits(static_cast<std::mt19937::result_type>(seed_));
    for (size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      group.kept = kept_zeros(Shape{group.count(), group.size.rows, group.size.columns}, device_);
      group.left = kept_zeros(left_shapes()[g], device_);
      const Shape shape = right_shapes()[g];
      std::vector<float> guess(static_cast<size_t>(shape.numel()));
      // The same on all ranks: bits, not a distribution, whose algorithm is the library's.
      for (float& value : guess) value = static_cast<float>(bits()) / 4294967296.0f - 0.5f;
      group.right = Tensor::from_vector(guess, shape, &device_);
    }
  }

  // M = gradients and errors; M times the right factor.
  std::vector<Tensor> send_left(const std::vector<Tensor>& gradients) {
    if (groups_.empty()) make_groups(gradients);
    std::vector<Tensor> products;
    for (Group& group : groups_) {
      std::vector<Tensor> matrices;
      for (const size_t member : group.members)
        matrices.push_back(reshape(gradients[member], Shape{group.size.rows, group.size.columns}));
      const Tensor all = stack(matrices) + group.kept;
      products.push_back(matmul(all, group.right));
      group.kept.assign(all);
    }
    return wire_.send(products).lists;
  }

  // The sum of left factors made orthonormal; the transpose of M times that. Kept is what the two do not say of M.
  std::vector<Tensor> send_right(const std::vector<Tensor>& brought) {
    const std::vector<Tensor> left = wire_.sums(brought, left_shapes());
    std::vector<Tensor> bases, products;
    for (size_t g = 0; g < groups_.size(); ++g) {
      bases.push_back(qr(left[g]).q);
      products.push_back(matmul(transpose(groups_[g].kept), bases[g]));
    }
    const FactorLists::Sent sent = wire_.send(products);
    for (size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      const Tensor all = group.kept;
      group.left.assign(bases[g]);
      group.kept.assign(all - matmul(bases[g], transpose(sent.taken[g])));
    }
    return sent.lists;
  }

  int64_t rank_;
  uint64_t seed_;
  FactorLists wire_;
  DeviceContext& device_;
  std::vector<Shape> shapes_;
  std::vector<Group> groups_;
};

}  // namespace

std::unique_ptr<Compression> make_low_rank(const LowRankOptions& options, DeviceContext& device) {
  return std::make_unique<LowRank>(options, device);
}

}  // namespace heddle::train
