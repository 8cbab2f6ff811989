// Readers of kernels: files, expressions, users' texts, einsum equations, tuning tables, and what the cache folder
// holds.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/cache_files.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/dialect/user_text.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/linalg/einsum.h"
#include "heddle/core/inspect/saved_launch.h"
#include "heddle/core/run/image_bytes.h"
#include "heddle/core/tiles/tuning_table.h"
#include "tests/fuzz/seed_files.h"
#include "tests/fuzz/target.h"

namespace heddle::fuzz {
namespace {

void kernel_file(Bytes input) {
  const KernelFile file = KernelFile::parse(text_of(input), "input.hk");
  const auto refused = [](const auto& use) {
    try {
      use();
    } catch (const UserError&) {
    } catch (const LimitError&) {
    }
  };
  refused([&] { file.instantiate({}).str(); });
  Bindings constants;
  for (const ConstParam& c : file.constants) constants[c.name] = 1000;
  refused([&] { file.groups({}, constants); });
  for (const KernelBuffer& buffer : file.buffers) refused([&] { file.bounds(buffer.name, {}, constants); });
  for (const KernelTunable& tunable : file.tunables) {
    for (const int64_t value : tunable.choices) file.refusal({{tunable.name, value}});
    refused([&] { file.matters(tunable.name, {}); });
  }
}

void expression(Bytes input) {
  const Bindings values = {{"M", 33}, {"N", 0}, {"least", INT64_MIN}, {"most", INT64_MAX}};
  evaluate_expression(text_of(input), values, "input");
}

void user_text(Bytes input) {
  const UserText text("f", text_of(input), {"x", "z"}, {"y"});
  for (const DType dtype : {DType::f32, DType::f64, DType::i64})
    text.block({{"float", "a"}, {"int", "b"}}, {{"float", "c"}}, dtype, true);
  UserText::with_own_names(text_of(input));
  UserText::line_in(text_of(input), "f");
}

// The equation in front of a NUL; operands of the rank that the first bytes behind it say.
void einsum_equation(Bytes input) {
  const std::string_view all = text_of(input);
  const size_t cut = std::min(all.find('\0'), all.size());
  std::vector<Tensor> operands;
  for (const char c : all.substr(cut).substr(0, 4)) {
    std::vector<int64_t> dims(static_cast<uint8_t>(c) % 5, 2);
    operands.push_back(zeros(Shape(dims), DType::f32, &device("reference:0")));
  }
  einsum(all.substr(0, cut), operands);
}

void tuning(Bytes input) {
  const TuningTable table = TuningTable::parse(text_of(input), "input");
  require(TuningTable::parse(table.str(), "copy").str() == table.str(), "tuning: the copy differs");
}

void use_scratch_cache() {
  static const bool set = ::setenv("HEDDLE_CACHE_DIR", (scratch_folder() + "/cache").c_str(), 1) == 0;
  require(set, "no cache folder");
}

// As an entry's payload, and as the whole file of an entry.
void launch(Bytes input) {
  use_scratch_cache();
  const DiskCache cache("launch", 0);
  cache.store("0123", input.data(), input.size());
  if (const auto saved = load_launch("0123")) {
    saved->source.str();
    for (const auto& range : saved->bindings)
      require(range.block < saved->blocks.size() && range.offset + range.size <= saved->blocks[range.block],
              "launch: a binding lies outside");
  }
  write_scratch(cache.path("0123"), std::string(text_of(input)));
  load_launch("0123");
  list_cache(cache_dir(), true);
}

// As it is, and as the body of a pack whose hash fits.
void pack(Bytes input) {
  use_scratch_cache();
  std::string file = "HDLPACK1";
  for (const uint64_t number :
       {cache_version(), uint64_t{1}, uint64_t{input.size()}, hash_bytes(input.data(), input.size())})
    file.append(reinterpret_cast<const char*>(&number), sizeof number);
  file += text_of(input);
  const std::string target = scratch_folder() + "/unpacked";
  for (const std::string& pack : {file, std::string(text_of(input))}) {
    try {
      unpack_cache(file_of(pack), target, NativeCode::trusted);
    } catch (const IoError&) {
    }
  }
}

// As it is, and as what stands behind the head of an image whose checksum fits.
void image(Bytes input) {
  std::vector<uint8_t> file = {'H', 'E', 'D', 'L', 'I', 'M', 'G', '3'};
  const uint64_t sum = hash_bytes(input.data(), input.size());
  const auto* const at = reinterpret_cast<const uint8_t*>(&sum);
  file.insert(file.end(), at, at + sizeof sum);
  file.insert(file.end(), input.begin(), input.end());
  for (const Bytes bytes : {Bytes(file), input}) {
    try {
      const GraphImage read = image_from_bytes(bytes);
      require(image_fault(read).empty(), "image: what was read has a fault");
      require(std::ranges::equal(image_bytes(read), bytes), "image: the copy differs");
      read.launch_count();
      for (const GraphImage::Kernel& kernel : read.kernels) kernel.binary.hash();
    } catch (const IoError&) {
    }
  }
}

}  // namespace

std::vector<Target> kernel_targets() {
  return {
      {"kernel_file",
       kernel_file,
       kernel_file_seeds,
       {"/*\n",
        "*/\n",
        "type T f32 f16\n",
        "in x T\n",
        "out y f32\n",
        "const uint N\n",
        "tune TM 1 [1 2 4] doc\n",
        "fact F 0 [any]\n",
        "let V TM * 2\n",
        "shared float s TM\n",
        "hook H(x) = x\n",
        "group 64\n",
        "grid linear N\n",
        "bounds x 0, N\n",
        "require TM < 4 : no\n",
        "KERNEL\n",
        "#include \"matmul_tiles.hki\" when TM\n",
        "\\\n",
        "9223372036854775807",
        "#"}},
      {"expression",
       expression,
       expression_seeds,
       {"min(", "max(", "ceildiv(", "cond(", "&&", "||", "==", "<=", "least", "most", "M", "-", "(", ")",
        "9223372036854775807", "% -1", "/ -1"}},
      {"user_text",
       user_text,
       user_text_seeds,
       {"for (int i = 0; i < 4; ++i) {", "}", "y = ", "exp(", "if (x > 0)", " else ", "?", ":", "1e-", "0x", ".5", "/*",
        "*/", "//", "T(", "f:12", "u_"}},
      {"einsum",
       einsum_equation,
       einsum_seeds,
       {"->", "...", ",", "ij", "ii", "A", " ", std::string_view("\0\2\2", 3)}},
      {"tuning",
       tuning,
       tuning_seeds,
       {"\"heddle_tuning\": 1", "\"devices\": [", "\"entries\": [", "\"sizes\": [", "\"tunables\": {",
        "\"driver_hash\": \"any\"", "0xffffffffffffffffff", "1e400", "null"}},
      {"launch",
       launch,
       launch_seeds,
       {"\xff\xff\xff\xff\xff\xff\xff\x7f", "HDLCACHE", std::string_view("\1\0\0\0\0\0\0\0", 8)}},
      {"image", image, image_seeds, {"HEDLIMG4", "\xff\xff\xff\xff", std::string_view("\1\0\0\0\0\0\0\0", 8)}},
      {"pack",
       pack,
       pack_seeds,
       {"HDLPACK1", "HDLCACHE", "spirv", "../", std::string_view("\5\0\0\0", 4), "\xff\xff\xff\xff"}},
  };
}

}  // namespace heddle::fuzz
