// Arrays, pictures and records as files hold them.
#include "tests/fuzz/seed_files.h"

#ifdef HEDDLE_HAS_JPEG
#include <turbojpeg.h>
#endif
#include <zlib.h>

#include "heddle/data/image_file.h"
#include "heddle/data/numpy.h"
#include "heddle/data/records.h"
#include "heddle/io/safetensors.h"
#include "tests/fuzz/target.h"

namespace heddle::fuzz {
namespace {

using namespace std::string_literals;  // texts with NULs in them
using data::Array;

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

}  // namespace

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

}  // namespace heddle::fuzz
