// heddle pack, heddle pack verify
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/data/cifar.h"
#include "heddle/data/csv.h"
#include "heddle/data/datasets.h"
#include "heddle/data/image_file.h"
#include "heddle/data/numpy.h"
#include "heddle/data/preprocess.h"
#include "heddle/data/records.h"
#include "heddle/data/text.h"
#include "heddle/data/tokenizer_file.h"
#include "tools/cli.h"
#include "tools/progress.h"

namespace heddle::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t most_for_statistics = 10'000;

struct PackOptions {
  std::string source, out, kind = "auto", split = "train", label, tokenizer, file;
  int64_t block = 128;
  bool json = false;
};

struct Source {
  data::DatasetPtr dataset;
  data::Preprocessing preprocessing;
  bool images = false;
};

std::string kind_of(const PackOptions& o) {
  if (o.kind != "auto") return o.kind;
  const fs::path path(o.source);
  if (fs::is_directory(path)) {
    if (fs::exists(path / "data_batch_1.bin") || fs::exists(path / "train.bin")) return "cifar";
    if (fs::exists(path / "train-images-idx3-ubyte") || fs::exists(path / "train-images-idx3-ubyte.gz")) return "idx";
    return "images";
  }
  const std::string ending = path.extension().string();
  if (ending == ".csv") return "csv";
  if (ending == ".npy" || ending == ".npz" || ending == ".safetensors") return "arrays";
  if (ending == ".txt") return "text";
  throw ValueError(
      fmt::format("[pack] {}: cannot tell what this is; say --kind images, idx, cifar, csv, arrays or text", o.source));
}

Source open_idx(const PackOptions& o) {
  const data::Split split = data::read_mnist_folder(o.source);
  return {data::dataset_of(o.split == "train" ? split.train : split.test), {}, true};
}

Source open_cifar(const PackOptions& o) {
  const data::ImageClasses sets = data::read_cifar_folder(o.source);
  return {o.split == "train" ? sets.train : sets.test, {.classes = sets.classes}, true};
}

Source open_csv(const PackOptions& o) {
  const data::CsvTable table(o.source);
  data::Preprocessing preprocessing;
  if (!o.label.empty()) preprocessing.classes = table.classes(table.column(o.label));
  return {data::csv_dataset(table, {.label = o.label}), preprocessing};
}

Source open_text(const PackOptions& o) {
  const std::string text = data::read_text(o.source);
  data::TokenizerPtr tokenizer =
      o.tokenizer.empty() ? std::make_shared<data::CharTokenizer>(text) : data::load_tokenizer(o.tokenizer);
  return {data::windows(data::token_stream(tokenizer->encode(text)), o.block), {.tokenizer = tokenizer}};
}

Source open_source(const PackOptions& o) {
  const std::string kind = kind_of(o);
  if (kind == "idx") return open_idx(o);
  if (kind == "cifar") return open_cifar(o);
  if (kind == "csv") return open_csv(o);
  if (kind == "text") return open_text(o);
  if (kind == "arrays") return {data::arrays_dataset(o.source), {}};
  const auto folder = std::make_shared<data::ImageFolder>(o.source);
  return {folder, {.classes = folder->classes()}, true};
}

// Calls f(i) for every record, showing how far it is.
template <class F>
double for_each_record(int64_t count, bool silent, const char* what, F&& f) {
  Progress progress(silent);
  const auto start = Clock::now();
  for (int64_t i = 0; i < count; ++i) {
    f(i);
    if (!progress.due()) continue;
    const double seconds = seconds_since(start), rate = static_cast<double>(i + 1) / seconds;
    progress.show(what, static_cast<double>(i + 1) / static_cast<double>(count),
                  fmt::format("{} of {}  {} examples/s  ETA {}", with_commas(static_cast<double>(i + 1)),
                              with_commas(static_cast<double>(count)), with_commas(rate),
                              clock_time(static_cast<double>(count - i - 1) / rate)));
  }
  return seconds_since(start);
}

void pack(const PackOptions& o) {
  if (o.source.empty() || o.out.empty())
    throw ValueError("[pack] a source and --out are needed; see heddle pack --help");
  Source source = open_source(o);
  if (source.images) source.preprocessing.statistics = data::channel_statistics(*source.dataset, most_for_statistics);
  data::RecordWriter writer(o.out, source.preprocessing.str());
  const double seconds = for_each_record(source.dataset->size(), o.json, "packing", [&](int64_t i) {
    data::Random random(0, 0, static_cast<uint64_t>(i));
    writer.add(source.dataset->get(i, random));
  });
  writer.finish();
  const auto bytes = static_cast<double>(fs::file_size(o.out));
  if (o.json) {
    print_json(
        {{"event", "done"}, {"examples", writer.size()}, {"bytes", bytes}, {"seconds", seconds}, {"out", o.out}});
  } else {
    fmt::print("{} examples, {:.1f} MB in {:.1f} s: {}\n", with_commas(static_cast<double>(writer.size())), bytes / 1e6,
               seconds, o.out);
  }
}

void verify(const PackOptions& o) {
  const data::RecordFile file(o.file);
  data::Random random(0, 0, 0);
  const double seconds = for_each_record(file.size(), o.json, "verifying", [&](int64_t i) { file.get(i, random); });
  Json shapes = Json::array();
  if (file.size() > 0) {
    for (const data::Array& array : file.get(0, random))
      shapes.push_back(fmt::format("{} {}", array.shape.str(), name_of(array.dtype)));
  }
  if (o.json) {
    print_json({{"event", "done"},
                {"examples", file.size()},
                {"first", shapes},
                {"metadata", file.metadata()},
                {"seconds", seconds}});
  } else {
    fmt::print("{}: {} examples are whole, the first of {}\n", o.file, with_commas(static_cast<double>(file.size())),
               shapes.dump());
  }
}

}  // namespace

void add_pack(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand(
      "pack", "Put a data set into one file of records under checksums, for data larger than memory");
  auto options = std::make_shared<PackOptions>();
  PackOptions& o = *options;
  command->add_option("source", o.source,
                      "A folder of images (one folder a class), of MNIST's or CIFAR's files, a .csv, .npy, .npz, "
                      ".safetensors or .txt file");
  command->add_option("--out", o.out, "The file to write");
  command->add_option("--kind", o.kind, "What the source is")
      ->check(CLI::IsMember({"auto", "images", "idx", "cifar", "csv", "arrays", "text"}))
      ->capture_default_str();
  command->add_option("--split", o.split, "Of MNIST's and CIFAR's folders")
      ->check(CLI::IsMember({"train", "test"}))
      ->capture_default_str();
  command->add_option("--label", o.label, "Column of the class, of a CSV file; the others are numbers");
  command->add_option("--tokenizer", o.tokenizer, "Of text (heddle tokenize train); default: one token a character");
  command->add_option("--block", o.block, "Tokens in an example of text")->capture_default_str();
  add_json_option(*command, o.json);
  command->footer("Example:\n  heddle pack photos --out photos.rec\n  heddle pack verify photos.rec");
  CLI::App* check = command->add_subcommand("verify", "Read every record of a file and check it");
  check->add_option("file", o.file, "The file")->required();
  add_json_option(*check, o.json);
  check->footer("Example:\n  heddle pack verify photos.rec");
  check->callback([options] { verify(*options); });
  command->callback([command, options] {
    if (command->get_subcommands().empty()) pack(*options);
  });
}

}  // namespace heddle::tools
