// Whole numbers of the host at the ends of i64 through samplers, loaders, datasets, transforms, buckets and readers.
#include "tests/support/host_integers.h"

#include <filesystem>
#include <fstream>

#include "heddle/data/batcher.h"
#include "heddle/data/buckets.h"
#include "heddle/data/collate.h"
#include "heddle/data/csv.h"
#include "heddle/data/image_file.h"
#include "heddle/data/loader.h"
#include "heddle/data/records.h"
#include "heddle/data/text.h"
#include "heddle/data/tokenizer.h"
#include "heddle/data/transforms.h"
#include "tests/support/temporary_folder.h"

namespace heddle::host_integers {
namespace {

using namespace data;

using Lengths = std::vector<int64_t>;

Sample example(int64_t index = 0) { return {Array::scalar(static_cast<int32_t>(index))}; }
DatasetPtr numbers(int64_t size) {
  return generated(size, [](int64_t index, Random&) { return example(index); });
}
Sample pixels(int64_t height, int64_t width) {
  return {Array::of(std::vector<uint8_t>(static_cast<size_t>(height * width), 7), Shape{1, height, width})};
}
struct FiveNumbers final : IterableDataset {
  struct Stream final : SampleStream {
    std::optional<Sample> next() override { return at < 5 ? std::optional(example(at++)) : std::nullopt; }
    int64_t at = 0;
  };
  std::unique_ptr<SampleStream> open(uint64_t) const override { return std::make_unique<Stream>(); }
};
// The examples of an epoch.
int64_t counted(Loader& loader) {
  Sample batch;
  int64_t all = 0;
  while (loader.next(batch)) all += batch[0].shape[0];
  return all;
}

TEST(HostIntegers, Samplers) {
  expect_calls(
      {
          {"sequential", no_number, [](int64_t v) { sequential(v)->order(0); }},
          {"shuffled", no_number, [](int64_t v) { shuffled(v)->order(0); }},
          {"weighted", no_number,
           [](int64_t v) {
             weighted({1, 2}, v)->order(0);
           }},
          {"sharded", no_number, [](int64_t v) { sharded(sequential(10), v, 3)->order(0); }},
          {"sharded", above_zero, [](int64_t v) { EXPECT_EQ(sharded(sequential(10), 0, v)->order(0), Lengths{0}); }},
          {"sharded", above_zero,
           [](int64_t v) {
             EXPECT_EQ(sharded(sequential(10), v > 0 ? v - 1 : v, v)->order(0),
                       Lengths{static_cast<int64_t>((Int{v} - 1) % 10)});
           }},
          {"shuffle", no_number, [](int64_t v) { shuffled_order(v, 1, 0); }},
      },
      {-p31, -1});  // an order of 2^31 examples can be meant
}

TEST(HostIntegers, Loaders) {
  const auto load = [](const LoaderOptions& options) {
    Loader loader(numbers(10), sequential(10), options);
    EXPECT_EQ(counted(loader), 10);
  };
  const auto stream = [](int64_t batch, int64_t first) {
    Loader loader(std::make_shared<FiveNumbers>(), {.batch = batch, .drop_last = false});
    loader.start_epoch(0, first);
    EXPECT_EQ(counted(loader), first > 0 ? 0 : 5);
  };
  const ImageSet set{2, 2, 10, std::vector<uint8_t>(12), {1, 2, 3}};
  const auto images = [&](int64_t batch, bool drop_last, int64_t rows = 2, int64_t columns = 2) {
    ImageSet other = set;
    other.rows = rows;
    other.columns = columns;
    Batcher batcher(other, {.batch = batch, .drop_last = drop_last});
    Batch out;
    EXPECT_TRUE(batcher.next(out));
    EXPECT_EQ(out.size, 3);
    EXPECT_FALSE(batcher.next(out));
  };
  expect_calls({
      {"loader", above_zero, [=](int64_t v) { load({.batch = v, .drop_last = false}); }},
      {"loader", above_zero, [=](int64_t v) { load({.batch = v, .workers = 1, .drop_last = false}); }},
      {"loader", no_number, [=](int64_t v) { load({.batch = v}); }},
      {"loader", above_zero, [=](int64_t v) { load({.batch = 2, .workers = 1, .prefetch = v}); }},
      {"loader", no_number, [](int64_t v) { Loader(numbers(10), sequential(10), {.batch = 2}).start_epoch(0, v); }},
      {"loader", above_zero, [=](int64_t v) { stream(v, 0); }},
      {"loader", above_zero, [=](int64_t v) { stream(1, v); }},
      {"loader", no_number, [=](int64_t v) { stream(p32, v); }},
      {"batcher", above_zero, [=](int64_t v) { images(v, false); }},
      {"batcher", no_number, [=](int64_t v) { images(v, true); }},
      {"batcher", no_number, [=](int64_t v) { images(1, false, v); }},
      {"batcher", no_number, [=](int64_t v) { images(1, false, v, v); }},
      {"batcher", no_number, [&](int64_t v) { Batcher(set, {.batch = 3}).start_epoch(0, v); }},
  });
}

TEST(HostIntegers, Datasets) {
  const auto get = [](const DatasetPtr& from, int64_t index) {
    Random random(0, 0, 0);
    return from->get(index, random)[0].as<int32_t>()[0];
  };
  const DatasetPtr ten = numbers(10), tens = from_arrays({Array::of(std::vector<int32_t>(10), Shape{10})});
  const test::TemporaryFolder folder;
  const std::string path = folder / "numbers.rec";
  pack(*ten, path);
  const auto records = std::make_shared<const RecordFile>(path);
  expect_calls({
      {"generated", above_zero, [=](int64_t v) { EXPECT_EQ(get(numbers(v), 5), 5); }},
      {"generated", no_number, [=](int64_t v) { get(ten, v); }},
      {"first", above_zero, [=](int64_t v) { EXPECT_EQ(first(numbers(most), v)->size(), v); }},
      {"first", above_zero, [=](int64_t v) { EXPECT_EQ(get(first(ten, v), 9), 9); }},
      {"first", no_number, [=](int64_t v) { get(first(ten, 3), v); }},
      {"subset", no_number,
       [=](int64_t v) {
         subset(ten, {1, v});
       }},
      {"subset", no_number,
       [=](int64_t v) {
         get(subset(ten, {1, 2}), v);
       }},
      {"concatenated", no_number,
       [=](int64_t v) {
         get(concatenated({ten, ten}), v);
       }},
      {"concatenated", no_number,
       [](int64_t) {
         concatenated({numbers(most), numbers(1)});
       }},
      {"generated", no_number, [=](int64_t v) { get(transformed(ten, {}), v); }},
      {"from_arrays", no_number, [=](int64_t v) { get(tens, v); }},
      {"records", no_number, [=](int64_t v) { get(records, v); }},
      {"random_split", no_number, [](int64_t v) { random_split(numbers(v > p31 ? v : most), {0.5}); }},
      {"stroke_digits", no_number, [](int64_t v) { stroke_digits(1, v, 0); }},
      {"stroke_digits", no_number, [](int64_t v) { stroke_digits(1, 0, v); }},
  });
}

TEST(HostIntegers, Readers) {
  const test::TemporaryFolder folder;
  const auto file = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
  };
  const CsvTable table(file("a.csv", "a,b\n1,x\n2,y\n"));
  const std::string idx = file("a.idx", std::string("\0\0\x08\x01\0\0\0\0", 8)),
                    odd = file("odd.idx", "\xff\xff\xff\xff");
  const auto as_int = [](int64_t v) { return static_cast<int>(std::clamp<int64_t>(v, INT32_MIN, INT32_MAX)); };
  expect_calls({
      {"csv", no_number, [&](int64_t v) { table.text(v, 0); }},
      {"csv", no_number, [&](int64_t v) { table.number(v, 0); }},
      {"csv", no_number, [&](int64_t v) { table.text(0, static_cast<size_t>(v)); }},
      {"csv", no_number, [&](int64_t v) { table.classes(static_cast<size_t>(v)); }},
      {"idx", no_number, [&](int64_t v) { read_idx(idx, as_int(v)); }},
      {"idx", no_number, [&](int64_t v) { read_idx(odd, as_int(v)); }},
      {"idx", no_number, [&](int64_t v) { read_idx_images(idx, idx, v); }},
  });
}

#ifdef HEDDLE_HAS_PNG
TEST(HostIntegers, FoldersOfImages) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "one");
  write_png(folder / "one/a.png", pixels(2, 2)[0]);
  const ImageFolder images(folder.path());
  Random random(0, 0, 0);
  expect_calls({
      {"image", no_number, [&](int64_t v) { images.path(v); }},
      {"image", no_number, [&](int64_t v) { images.get(v, random); }},
  });
}
#endif

TEST(HostIntegers, Transforms) {
  const auto apply = [](const Transform& transform) {
    Random random(1, 2, 3);
    const Sample out = transform(pixels(4, 4), random);
    int64_t sum = 0;
    for (const uint8_t pixel : out[0].as<uint8_t>()) sum += pixel;
    return sum;
  };
  Random random(1, 2, 3);
  const DatasetPtr images = generated(3, [](int64_t, Random&) { return pixels(2, 2); });
  expect_calls({
      {"resize", no_number, [](int64_t v) { resize(v, 1); }},
      {"resize", no_number, [](int64_t v) { resize(1, v); }},
      {"centre_crop", no_number, [](int64_t v) { centre_crop(v, v); }},
      {"random_crop", no_number, [](int64_t v) { random_crop(v, 1); }},
      {"random_crop", no_number, [=](int64_t v) { apply(random_crop(2, 2, v)); }},
      {"random_resized_crop", no_number, [](int64_t v) { random_resized_crop(1, v); }},
      {"cutout", above_zero, [=](int64_t v) { EXPECT_EQ(apply(cutout(v)), 0); }},
      {"channel_statistics", above_zero,
       [=](int64_t v) { EXPECT_NEAR(channel_statistics(*images, v).mean[0], 7.0 / 255, 1e-6); }},
      {"cutmix", no_number, [&](int64_t v) { draw_cutmix(1, v, 4, random); }},
      {"cutmix", no_number, [&](int64_t v) { draw_cutmix(1, 4, v, random); }},
      {"cutmix", no_number, [&](int64_t v) { draw_cutmix(1, v, v, random); }},
  });
}

TEST(HostIntegers, LengthsOfTexts) {
  const auto fits = [](int64_t v) { return v > 0 && v <= most - 8; };
  const std::vector<std::vector<int32_t>> texts = {{1, 2}};
  const std::vector<uint32_t> items = {0, 0, 0, 0};
  const Lengths lengths = {3, 5}, eight = {8};
  const Sample two = {Array::of(std::vector<int32_t>{1, 2}, Shape{2})};
  const Sample none = {Array{DType::f32, Shape{p32 + 2, 0}, {}}};
  const TokenStream stream = token_stream({1, 2, 3, 4, 5});
  expect_calls({
      {"choose_buckets", fits,
       [](int64_t v) {
         EXPECT_EQ(choose_buckets(Lengths{v, 5}, 1, 8), Lengths{static_cast<int64_t>((Int{v} + 7) / 8 * 8)});
       }},
      {"choose_buckets", above_zero, [&](int64_t v) { EXPECT_EQ(choose_buckets(lengths, v), lengths); }},
      {"choose_buckets", above_zero, [&](int64_t v) { EXPECT_EQ(choose_buckets(lengths, 2, v), Lengths{v}); }},
      {"buckets", above_zero, [&](int64_t v) { EXPECT_EQ(bucketed_batches(lengths, eight, {.batch = v}).size(), 1U); }},
      {"buckets", below_zero, [&](int64_t v) { EXPECT_EQ(bucket_of(eight, v), 0U); }},
      {"pad_sequences", no_number, [&](int64_t v) { pad_sequences(texts, items, v, 0); }},
      {"pad_sequences", no_number, [&](int64_t v) { pad_sequences(texts, {}, v, 0); }},
      {"padded", no_number,
       [&](int64_t v) {
         padded({.multiple = v})({&two, 1});
       }},
      {"padded", no_number,
       [&](int64_t v) {
         padded({.least = v})({&two, 1});
       }},
      {"padded", no_number,
       [&](int64_t) {
         padded()({&none, 1});
       }},
      {"packed", no_number,
       [&](int64_t v) {
         packed(v)({&two, 1});
       }},
      {"windows", no_number, [&](int64_t v) { windows(stream, v); }},
      {"windows", above_zero, [&](int64_t v) { EXPECT_EQ(windows(stream, 2, v)->size(), 1); }},
      {"random_windows", no_number, [&](int64_t v) { random_windows(stream, v, 1); }},
      {"random_windows", above_zero, [&](int64_t v) { EXPECT_EQ(random_windows(stream, 2, v)->size(), v); }},
  });
}

TEST(HostIntegers, Tokenizers) {
  const auto bytes = BpeTokenizer::train("aa aa", {.vocabulary = 257});
  const CharTokenizer characters("abc");
  const auto as_int = [](int64_t v) { return static_cast<int32_t>(std::clamp<int64_t>(v, INT32_MIN, INT32_MAX)); };
  expect_calls({
      {"BpeTokenizer", no_number, [](int64_t v) { BpeTokenizer::train("aa aa", {.vocabulary = v}); }},
      {"BpeTokenizer", any_number,
       [](int64_t v) {
         EXPECT_EQ(BpeTokenizer::train("aa aa", {.vocabulary = 260, .least_count = v})->merges().empty(), v > 0);
       }},
      {"BpeTokenizer", no_number, [&](int64_t v) { bytes->text_of(as_int(v)); }},
      {"BpeTokenizer", no_number,
       [&](int64_t v) {
         bytes->decode(std::vector<int32_t>{1, as_int(v)});
       }},
      {"CharTokenizer", no_number, [&](int64_t v) { characters.text_of(as_int(v)); }},
      {"tokenizer", above_zero, [&](int64_t v) { check_vocabulary(characters, v); }},
  });
}

}  // namespace
}  // namespace heddle::host_integers
