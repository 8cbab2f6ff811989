#include "tests/fuzz/seed_files.h"

#ifdef HEDDLE_HAS_JPEG
#include <turbojpeg.h>
#endif
#include <zlib.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/cache_files.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/dialect/builtin_files.h"
#include "heddle/core/functions/control/control.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/inspect/saved_launch.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/run/compiled_graph.h"
#include "heddle/core/run/image_binaries.h"
#include "heddle/core/run/image_bytes.h"
#include "heddle/data/image_file.h"
#include "heddle/data/numpy.h"
#include "heddle/data/preprocess.h"
#include "heddle/data/records.h"
#include "heddle/data/table.h"
#include "heddle/data/tokenizer.h"
#include "heddle/io/safetensors.h"
#include "heddle/nn/language_model.h"
#include "heddle/train/checkpoint.h"
#include "heddle/train/config.h"
#include "tests/fuzz/target.h"

namespace heddle::fuzz {
namespace {

using namespace std::string_literals;  // texts with NULs in them
using data::Array;

std::string scratch(const char* name) { return scratch_folder() + "/" + name; }

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string compressed(const std::string& plain, int window_bits) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::string out(plain.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string npy_of(const Array& array) {
  data::write_npy(scratch("seed.npy"), array);
  return read_back(scratch("seed.npy"));
}

// An archive of one entry, stored or deflated, with 32-bit or 64-bit numbers in its directory.
std::string zip_of(const std::string& name, const std::string& content, bool deflated, bool wide) {
  const std::string packed = deflated ? compressed(content, -15) : content;
  const auto crc = static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
  const auto sizes = [&](std::string& out) {
    put(out, wide ? 0xffffffffu : static_cast<uint32_t>(packed.size()));
    put(out, wide ? 0xffffffffu : static_cast<uint32_t>(content.size()));
  };
  const auto head = [&](std::string& out) {
    for (const uint16_t number :
         {uint16_t{45}, uint16_t{0}, static_cast<uint16_t>(deflated ? 8 : 0), uint16_t{0}, uint16_t{0}})
      put(out, number);
    put(out, crc);
    sizes(out);
    put(out, static_cast<uint16_t>(name.size()));
  };
  std::string file = "PK\x03\x04";
  head(file);
  put(file, uint16_t{0});
  file += name + packed;
  const auto directory = static_cast<uint32_t>(file.size());
  std::string extra;
  if (wide) {
    put(extra, uint16_t{1});
    put(extra, uint16_t{16});
    put(extra, uint64_t{content.size()});
    put(extra, uint64_t{packed.size()});
  }
  file += "PK\x01\x02";
  put(file, uint16_t{45});
  head(file);
  put(file, static_cast<uint16_t>(extra.size()));
  file.append(12, '\0');  // comment, disk, attributes
  put(file, uint32_t{0});
  file += name + extra;
  const auto end = static_cast<uint32_t>(file.size());
  if (wide) {
    file += "PK\x06\x06";
    put(file, uint64_t{44});
    file.append(12, '\0');
    put(file, uint64_t{1});
    put(file, uint64_t{1});
    put(file, uint64_t{end - directory});
    put(file, uint64_t{directory});
    file += "PK\x06\x07\0\0\0\0"s;
    put(file, uint64_t{end});
    put(file, uint32_t{1});
  }
  file += "PK\x05\x06\0\0\0\0"s;
  put(file, static_cast<uint16_t>(wide ? 0xffff : 1));
  put(file, static_cast<uint16_t>(wide ? 0xffff : 1));
  put(file, end - directory);
  put(file, wide ? 0xffffffffu : directory);
  put(file, uint16_t{0});
  return file;
}

[[maybe_unused]] Array picture(int64_t channels, int64_t height, int64_t width) {
  std::vector<uint8_t> pixels(static_cast<size_t>(channels * height * width));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 7);
  return Array::of(pixels, Shape{channels, height, width});
}

std::string png_chunk(const std::string& kind, const std::string& content) {
  const std::string named = kind + content;
  const auto crc = static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(named.data()), named.size()));
  return big_endian(static_cast<uint32_t>(content.size())) + named + big_endian(crc);
}

std::string png_of(uint32_t width, uint32_t height, char depth, char kind, char interlaced, const std::string& rows,
                   const std::string& more = "") {
  return "\x89PNG\r\n\x1a\n" +
         png_chunk("IHDR", big_endian(width) + big_endian(height) + depth + kind + std::string(2, '\0') + interlaced) +
         more + png_chunk("IDAT", compressed(rows, 15)) + png_chunk("IEND", "");
}

#ifdef HEDDLE_HAS_JPEG
std::string jpeg_of(int sampling, int flags, int format) {
  const int width = 20, height = 17;
  std::vector<uint8_t> pixels(static_cast<size_t>(3 * width * height));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 5);
  const tjhandle encoder = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  tjCompress2(encoder, pixels.data(), width, 0, height, format, &bytes, &size, sampling, 80, flags);
  std::string file(bytes, bytes + size);
  tjFree(bytes);
  tjDestroy(encoder);
  return file;
}
#endif

std::string small_tokenizer() {
  return data::BpeTokenizer::train("to be or not to be, that is the question", {.vocabulary = 262})->str();
}

}  // namespace

void write_scratch(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

Seeds safetensors_seeds() {
  const std::vector<uint8_t> data(24, 1);
  write_safetensors(scratch("seed"),
                    {{"a", {DType::f32, Shape{2, 3}, data}},
                     {"b", {DType::boolean, Shape{24}, data}},
                     {"c", {DType::i64, Shape{}, {data.data(), 8}}}},
                    {{"format", "pt"}});
  const std::string several = read_back(scratch("seed"));
  write_safetensors(scratch("seed"), {});
  return {several, read_back(scratch("seed"))};
}

Seeds npy_seeds() {
  Seeds seeds = {npy_of(Array::of(std::vector<float>{1, 2, 3, 4, 5, 6}, Shape{2, 3})),
                 npy_of(Array::scalar(int32_t{7})), npy_of(Array::of(std::vector<uint8_t>{}, Shape{0, 3}))};
  std::string turned = seeds[0];
  turned.replace(turned.find("False"), 5, "True ");
  turned.replace(turned.find('<'), 1, ">");
  seeds.push_back(turned);
  return seeds;
}

Seeds npz_seeds() {
  const std::string npy = npy_seeds()[0];
  return {zip_of("a.npy", npy, false, false), zip_of("a.npy", npy, true, false), zip_of("a.npy", npy, true, true),
          zip_of("b", npy, false, true)};
}

Seeds idx_seeds() {
  const std::string labels = "\0\0\x08\x01"s + big_endian(3) + "\1\2\3"s;
  const std::string images = "\0\0\x08\x03"s + big_endian(3) + big_endian(2) + big_endian(2) + std::string(12, 'x');
  return {labels, images, compressed(labels, 15 + 16), compressed(images, 15 + 16)};
}

Seeds cifar_seeds() { return {std::string(1 + 3072, '\3'), std::string(2 + 3072, '\5'), std::string(2 * 3073, '\0')}; }

Seeds png_seeds() {
  Seeds seeds;
#ifdef HEDDLE_HAS_PNG
  for (const int64_t channels : {1, 3}) {
    data::write_png(scratch("seed.png"), picture(channels, 5, 4));
    seeds.push_back(read_back(scratch("seed.png")));
  }
#endif
  seeds.push_back(png_of(9, 2, 1, 0, 0, std::string(6, '\x55')));
  seeds.push_back(png_of(3, 2, 16, 6, 0, std::string(2 * (1 + 24), '\2')));
  seeds.push_back(png_of(4, 4, 8, 4, 1, std::string(64, '\0')));
  seeds.push_back(
      png_of(4, 2, 4, 3, 0, "\0\x01\x10\0\x11\0"s, png_chunk("PLTE", "abcdef") + png_chunk("tRNS", "\x10\xff")));
  seeds.push_back(
      png_of(2, 2, 8, 2, 0, std::string(14, '\0'), png_chunk("gAMA", big_endian(45455)) + png_chunk("tEXt", "a\0b"s)));
  return seeds;
}

Seeds jpeg_seeds() {
#ifndef HEDDLE_HAS_JPEG
  return {"\xff\xd8"};
#else
  return {jpeg_of(TJSAMP_444, 0, TJPF_RGB), jpeg_of(TJSAMP_420, 0, TJPF_RGB), jpeg_of(TJSAMP_GRAY, 0, TJPF_RGB),
          jpeg_of(TJSAMP_422, TJFLAG_PROGRESSIVE, TJPF_RGB)};
#endif
}

Seeds csv_seeds() {
  return {"a,b,c\n1,2.5,x\n-3e2, 4 ,y\n", "label,v\r\n\"x\"\"y\",1\r\n\"a\nb\",2\r\n",
          "\xEF\xBB\xBF"
          "a\n1\n\n2",
          "1,,3\n, ,\n"};
}

Seeds records_seeds() {
  const auto set = data::from_arrays(
      {Array::of(std::vector<float>{1, 2, 3, 4}, Shape{2, 2}), Array::of(std::vector<int32_t>{7, 8}, Shape{2})});
  data::pack(*set, scratch("seed.rec"), "{}");
  const std::string file = read_back(scratch("seed.rec"));
  return {file, file.substr(8, 33), "\1\5\0\7"s, "\0"s};
}

Seeds json_seeds() {
  return {R"({"a":[1,-2.5e3,true,null,"x\n\u00e4"],"b":{}})", "[[[[]]]]", "\"\"", "12345678901234567890",
          "{\"a\":1,\"a\":2}"};
}

Seeds tokenizer_seeds() {
  return {small_tokenizer(), R"({"type":"characters","characters":"abcä "})",
          R"({"type":"bpe","vocab":{"a":0},"merges":[]})"};
}

Seeds tokenizer_json_seeds() {
  const std::string added =
      R"("added_tokens":[{"id":5,"content":"<|a|>","special":true,"rstrip":true},{"id":6,"content":"<b>"}],)";
  const std::string pairs =
      R"("model":{"type":"BPE","unk_token":"o","vocab":{"t":0,"o":1,"to":2,"r":3,"or":4},"merges":["t o",["o","r"]]})";
  const std::string ends = R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<|a|>"}},)"
                           R"({"Sequence":{"id":"A"}}],"special_tokens":{"<|a|>":{"ids":[5]}}},)";
  return {
      "{" + added + ends +
          R"("normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits"},)"
          R"({"type":"ByteLevel"}]},"decoder":{"type":"ByteLevel"},)" +
          pairs + "}",
      "{" + added +
          R"("normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},{"type":"Replace",)"
          R"("pattern":{"String":" "},"content":"_"}]},"pre_tokenizer":{"type":"Split","pattern":{"String":"_"},)"
          R"("behavior":"MergedWithPrevious"},"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":)"
          R"({"String":"_"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ",)"
          R"("start":1,"stop":0}]},)" +
          pairs + "}",
      R"({"pre_tokenizer":{"type":"Metaspace","replacement":"_"},"decoder":{"type":"Metaspace","replacement":"_"},)"
      R"("model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["_",-1.5],["to",-2],["o",-3],["_to",-2.5]]}})"};
}

std::string byte_vocabulary() {
  return nlohmann::ordered_json::parse(
             data::BpeTokenizer::train("", {.vocabulary = 256, .special = {}})->str())["vocab"]
      .dump();
}

Seeds merges_seeds() {
  return {",\"ab\":256,\"<|x|>\":257\0#version: 0.2\na b\n"s, ",\"ab\":256,\"abab\":257\0a b\r\nab ab\r\n"s,
          "{\"a\":0}\0a a\n"s};
}

Seeds preprocessing_seeds() {
  data::Preprocessing images;
  images.transforms = {"to_float", "random_crop 4 4 1", "random_flip 0.5"};
  images.statistics = {{0.5, 0.25, 0.125}, {1, 2, 3}};
  images.classes = {"cat", "dog"};
  data::Preprocessing text;
  text.tokenizer = data::parse_tokenizer(small_tokenizer());
  return {images.str(), text.str()};
}

Seeds table_code_seeds() {
  data::TableCode code;
  code.columns = {{.name = "size", .mean = 0.5, .deviation = 2, .can_miss = true},
                  {.name = "town", .is_number = false, .categories = {"Bonn", "Ulm"}}};
  code.target = {.name = "kind", .classes = {"a", "b"}};
  return {code.str(), R"({"columns":[],"target":{"name":"y","classes":[],"mean":0.1,"deviation":1e-3}})"};
}

Seeds transform_seeds() {
  return {
      "to_float", "normalise 0.5 0.25", "resize 8 9", "random_resized_crop 8 8 0.1 1 1.3", "random_colour 0.1 0.2 0.3",
      "cutout 4", "random_crop 4 4 1"};
}

Seeds toml_seeds() {
  return {train::Config().str(),
          "[training]\nbatch = 8\n[optimizer]\nlr = 1e-3\n[model]\nwidths = [1, 2]\nx.y = 'text'\n\"a b\" = "
          "\"\"\"two\nlines\"\"\"\n",
          "a = {b = [1, {c = 2}]}\n[[t]]\n"};
}

Seeds config_value_seeds() {
  return {"optimizer.lr=3e-4", "memory.budget=512MiB", "schedule.milestones=1000,2000",
          "model.width=7",     "training.batch=8",     "run.recipe=mnist-mlp"};
}

Seeds numbers_seeds() { return {"1.5", "-0x1.8p-1", "ff", "9223372036854775807", "inf"}; }

Seeds words_seeds() { return {"it's  a test, they'll say: 12 times \n\n\xe3\x80\x80\xc3\xa4", "\xff\xfe plain", "a"}; }

Seeds kernel_file_seeds() {
  Seeds seeds = {
      "/*\ndoc     y = x\ntype    T f32 f16\nin      x T\nout     y T\nconst   uint N\ntune    TM 1 [1 2 4] tile\nfact "
      "   F 0 [any]\nlet     W TM * 2\nshared  float s W\nhook    H(v) = v\ngroup   64, 1\n"
      "grid    linear ceildiv(N, 64 * TM)\nbounds  x 0, N\nrequire TM < 8 && \\\n W > 0 : too large\n*/\nfloat f(float "
      "v) { return v; }\nKERNEL\nSTORE(y, 0, H(f(LOAD(x, 0))));\n"};
  for (const BuiltinFile& file : builtin_files()) {
    if (file.name == "copy.hk" || file.name == "scan.hk" || file.name == "matmul.hk") seeds.emplace_back(file.text);
  }
  return seeds;
}

Seeds expression_seeds() {
  return {"min(M, 4) + ceildiv(M, 2) * 3 - -N", "cond(M > 3 && N == 0, 1, 2) % 7", "((M)) || least <= most", "------7"};
}

Seeds user_text_seeds() {
  return {"x * exp(-z) + 1.5e-3", "T s = 0; for (int i = 0; i < 4; ++i) { s = s + x; } y = s > 1. ? s : 0x1F;",
          "if (isnan(x)) { y = INFINITY; } else if (z > 2) y = 1; else y = T(3); // end", "f:12: u_x u_y"};
}

Seeds einsum_seeds() {
  return {"ij,jk->ik\0\2\2"s, "...ij,...jk->...ik\0\3\3"s, "ii->i\0\2"s, "i,i,i\0\1\1\1"s, "A b -> bA\0\2"s};
}

Seeds tuning_seeds() {
  Seeds seeds = {
      R"({"heddle_tuning": 1, "devices": [{"name": "n", "driver": "d", "driver_hash": "0x12", "target": "opencl", "class": "cpu", "vendor": "0x8086", "entries": [)"
      R"({"body": "matmul", "variant": "nn f32", "sizes": [1, 768], "tunables": {"MR": 6}, "seconds": 1e-4, "default_seconds": 1.2e-4}]}]})",
      R"({"heddle_tuning": 1, "devices": []})"};
  return seeds;
}

Seeds launch_seeds() {
  KernelSource source;
  source.name = "copy";
  source.buffers = {{"x", DType::f32, Access::read, false}, {"y", DType::f32, Access::write, true}};
  source.constants = {{"n", ConstParam::Type::u32}};
  source.shared = {{"s", "float", 4}};
  source.defines = {{"A", "1"}};
  source.body = "STORE(y, 0, LOAD(x, 0));";
  Dispatch dispatch;
  dispatch.bindings = {{BufferId{1}, 0, 16}, {BufferId{2}, 0, 16}};
  dispatch.constants = {4};
  ::setenv("HEDDLE_CACHE_DIR", (scratch_folder() + "/cache").c_str(), 1);
  const DiskCache cache("launch", 0);
  const std::string id = save_launch(source, dispatch, {}, {});
  const auto payload = cache.load(id);
  return {payload ? std::string(payload->begin(), payload->end()) : std::string(), read_back(cache.path(id))};
}

// Behind the head: a graph with a loop, its kernels as text, and compiled.
Seeds image_seeds() {
  DeviceContext& null = device("null:0");
  const Tensor xs = Tensor::from_vector(std::vector<float>(15, 0.5f), {3, 5}, &null);
  const Scanned loop = scan(
      [](const std::vector<Tensor>& carry, const std::vector<Tensor>& x) {
        const Tensor next = tanh(carry[0] + x[0]);
        return Scanned{{next}, {next * 2.0}};
      },
      {zeros({5}, DType::f32, &null)}, {xs});
  const Tensor sums = sum(loop.ys[0], {1}), products = matmul(xs, transpose(xs)) + 1.0;
  GraphImage image = CompiledGraph::compile(null, capture(held_pending()), true, {})->image();
  Seeds seeds;
  const auto add = [&] {
    const std::vector<uint8_t> bytes = image_bytes(image);
    seeds.emplace_back(bytes.begin() + 16, bytes.end());
  };
  add();
  add_binaries(image, null.caps());
  add();
  eval_pending();
  return seeds;
}

Seeds pack_seeds() {
  launch_seeds();  // fills the cache
  const std::string pack = scratch("seed.pack");
  pack_cache(scratch_folder() + "/cache", pack);
  const std::string file = read_back(pack);
  return {file, file.substr(40)};
}

Seeds checkpoint_seeds() {
  train::save_checkpoint(
      scratch("seed.safetensors"),
      {{{"model.weight", zeros({2, 3}, DType::f32, &device("reference:0"))}}, {{"step", "3"}, {"config", "x"}}});
  return {read_back(scratch("seed.safetensors"))};
}

Seeds run_state_seeds() {
  return {"plateau=0.5 inf 1 0\0step=7\0early_stopping.bad=2\0early_stopping.best=0x1.8p-1"s,
          "random.seed=12\0random.offset=99"s};
}

Seeds model_file_seeds() { return {"classes=a b\0config=[training]\nbatch = 4\n"s, "step=3"}; }

Seeds language_model_seeds() {
  return {nn::describe(nn::GptOptions{.vocabulary = 8, .context = 4, .layers = 1, .heads = 2, .width = 4}),
          nn::describe(nn::RecurrentLmOptions{.vocabulary = 8, .width = 4, .hidden = 4, .layers = 1})};
}

Seeds llama_config_seeds() {
  const std::string sizes = R"("vocab_size":8,"hidden_size":8,"intermediate_size":4,"num_hidden_layers":3,)"
                            R"("num_attention_heads":2,"max_position_embeddings":16,"eos_token_id":[1,2],)";
  return {"{" + sizes +
              R"("model_type":"llama","rope_theta":50,"rope_scaling":{"rope_type":"llama3","factor":8,)"
              R"("low_freq_factor":1,"high_freq_factor":4,"original_max_position_embeddings":8}})",
          "{" + sizes +
              R"("model_type":"gemma3_text","head_dim":4,"sliding_window":2,"rope_parameters":{"full_attention":)"
              R"({"rope_type":"linear","factor":2},"sliding_attention":{"rope_theta":9}}})",
          "{" + sizes +
              R"("model_type":"qwen2","use_sliding_window":true,"sliding_window":2,"max_window_layers":1,)"
              R"("layer_types":["full_attention","sliding_attention","full_attention"]})",
          "{" + sizes + R"("model_type":"phi3","partial_rotary_factor":0.5,"sliding_window":null})"};
}

Seeds report_seeds() {
  return {std::string(R"({"event":"start","device":"d","step":0}
{"event":"step","step":1,"epoch":0,"loss":2.5,"lr":0.1,"grad_norm":null,"seconds":0.5}
{"event":"loader","epoch":1,"fetch":1,"idle":2}
{"event":"eval","step":1,"loss":1,"metrics":{"accuracy":0.5},"confusion":[[1,2],[3,4]],"seconds":1}
{"event":"sample","step":1,"text":"hello","image":"a.png"}
{"event":"resume","step":0}
{"event":"done","step":1}
)") + "\0{\"host\":{\"name\":\"h\"}}\0[training]\nbatch = 3\n"s,
          "{\"event\":\"step\",\"step\":1,\"loss\":1}\n{\"event\":"};
}

}  // namespace heddle::fuzz
