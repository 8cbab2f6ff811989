// Keys of captures: equal structure gives equal keys, and the notes of the sizes name every word that other sizes
// change, and no other. Needs no device.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <set>

#include "heddle/core/base/hash.h"
#include "heddle/core/functions/user/user_kernel.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/record/capture.h"
#include "heddle/heddle.h"
#include "tests/null/null_device.h"

namespace heddle {
namespace {

using test::leaf;
using test::null_device;

// What is recorded on (rows, columns).
using Recorded = std::function<std::vector<Tensor>(int64_t rows, int64_t columns)>;

Capture captured(const Recorded& record, int64_t rows, int64_t columns) {
  eval_pending();
  const std::vector<Tensor> held = record(rows, columns);
  Capture found = capture(held_pending());
  return found;
}

struct Structure {
  const char* name;
  Recorded record;
};

std::vector<Structure> structures() {
  return {
      {"elementwise",
       [](int64_t m, int64_t n) {
         return std::vector{leaf({m, n}) * 2.5 + leaf({m, n})};
       }},
      {"product",
       [](int64_t m, int64_t n) {
         return std::vector{matmul(leaf({m, 5}), leaf({5, n}))};
       }},
      {"strided leaf",
       [](int64_t m, int64_t n) {
         Tensor x = leaf({m, n}) + 0.0;
         eval({x});
         Tensor turned = transpose(x);
         eval({turned});
         return std::vector{exp(turned), sum(slice(turned, 0, {.start = 1}))};
       }},
      {"attributes",
       [](int64_t m, int64_t n) {
         const Tensor x = leaf({m, n});
         return std::vector{concat(
             {pad(x, {{m, 1}, {0, n}}), full({3, 2 * n}, 1.0 / static_cast<double>(n), DType::f32, &null_device())},
             0)};
       }},
      {"loop",
       [](int64_t m, int64_t n) {
         const Tensor x = leaf({m, n});
         return std::vector{scan(
                                [](const std::vector<Tensor>& carry, const std::vector<Tensor>& row) {
                                  const Tensor next = tanh(carry[0] + row[0]);
                                  return Scanned{{next}, {next}};
                                },
                                {zeros({n}, DType::f32, &null_device())}, {x})
                                .ys[0]};
       }},
  };
}

TEST(Keys, EqualStructuresOfOtherTensorsAreEqual) {
  for (const Structure& s : structures()) {
    SCOPED_TRACE(s.name);
    const Capture first = captured(s.record, 7, 9);
    const std::vector<Tensor> between{leaf({3})};  // other addresses
    const Capture second = captured(s.record, 7, 9);
    EXPECT_EQ(first.key, second.key);
    EXPECT_NE(first.key, captured(s.record, 8, 9).key);
  }
}

TEST(Keys, NotesNameEveryWordThatOtherSizesChange) {
  for (const Structure& s : structures()) {
    SCOPED_TRACE(s.name);
    if (std::string_view(s.name) == "loop") continue;  // the sizes of a body are part of its structure
    const Capture a = captured(s.record, 7, 9), b = captured(s.record, 11, 4);
    ASSERT_EQ(a.key.size(), b.key.size());
    std::set<size_t> noted;
    for (const KeySize& size : a.sizes) {
      EXPECT_TRUE(noted.insert(size.at).second) << "noted twice: " << size.at;
      ASSERT_LT(size.node, a.order.size());
      if ((size.which & varies::dimensions) == 0) continue;
      const Node& node = *a.order[size.node];
      EXPECT_EQ(a.key[size.at], static_cast<uint64_t>(node.shape[std::countr_zero(size.which)]));
    }
    for (size_t at = 0; at < a.key.size(); ++at) {
      EXPECT_TRUE(a.key[at] == b.key[at] || noted.contains(at)) << "word " << at << " is a size, and not noted";
    }
    size_t dimensions = 0;
    for (const NodePtr& node : a.order) dimensions += static_cast<size_t>(node->shape.rank());
    EXPECT_EQ(static_cast<size_t>(std::count_if(a.sizes.begin(), a.sizes.end(),
                                                [](const KeySize& size) { return size.which <= varies::dimensions; })),
              dimensions);
  }
}

TEST(Keys, RowsStandForThemselvesByTheirNames) {
  std::set<uint64_t> ids;
  for (const OpDef* row : all_ops()) {
    EXPECT_EQ(row->id, hash_string(row->name)) << row->name;
    EXPECT_TRUE(ids.insert(row->id).second) << row->name << " has the id of another row";
  }
  const Capture sum = captured([](int64_t m, int64_t n) { return std::vector{leaf({m, n}) + leaf({m, n})}; }, 2, 3);
  EXPECT_NE(std::find(sum.key.begin(), sum.key.end(), ops::add_op.id), sum.key.end());
}

TEST(Keys, UsersRowsStandForThemselvesByWhatTheyWereDefinedBy) {
  const auto twice = [](const char* name, const char* text) {
    return elementwise_kernel({.name = name, .inputs = {"x"}, .text = text});
  };
  const auto key = [](const UserKernel& kernel) {
    return captured([&](int64_t m, int64_t n) { return kernel.call({leaf({m, n})}, Caller::current()); }, 2, 3).key;
  };
  const auto doubled = key(twice("key_twice", "out = x + x;"));
  EXPECT_EQ(doubled, key(twice("key_twice", "out = x + x;")));
  EXPECT_NE(doubled, key(twice("key_twice", "out = x * x;")));
  EXPECT_NE(doubled, key(twice("key_thrice", "out = x + x;")));
}

}  // namespace
}  // namespace heddle
