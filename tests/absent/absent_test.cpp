// A build that lacks an optional library says so where it would be used, and does the rest.
#include <gtest/gtest.h>

#include "heddle/core/base/error.h"
#include "heddle/data/image_file.h"
#include "heddle/data/unicode.h"
#include "heddle/data/words.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using test::contains;
using test::thrown_text;

TEST(Absent, ImagesNameTheDecoderThatIsMissing) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "a.png", {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13});
  test::write_bytes(folder / "b.png", {0xff, 0xd8, 0xff, 0xe0});  // told by the content
  const std::string png = thrown_text<IoError>([&] { data::read_image(folder / "a.png"); });
  EXPECT_TRUE(contains(png, "a.png") && contains(png, "no libpng") && contains(png, "libpng-dev")) << png;
  const std::string jpeg = thrown_text<IoError>([&] { data::read_image(folder / "b.png"); });
  EXPECT_TRUE(contains(jpeg, "b.png") && contains(jpeg, "no libjpeg-turbo") && contains(jpeg, "libturbojpeg0-dev"))
      << jpeg;
  const data::Array pixel = data::Array::of(std::vector<uint8_t>{7}, Shape{1, 1, 1});
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::write_png(folder / "c.png", pixel); }), "no libpng"));
}

TEST(Absent, TextsAreCutUpToTheFirstLetterBeyondAscii) {
  EXPECT_EQ(data::class_of('z'), data::CharacterClass::letter);
  EXPECT_EQ(data::class_of('7'), data::CharacterClass::number);
  EXPECT_EQ(data::class_of(0xA0), data::CharacterClass::space);
  EXPECT_EQ(data::valid_utf8("gr\xC3\xBC\xC3\x9F\xFF"), "gr\xC3\xBC\xC3\x9F\xEF\xBF\xBD");
  const std::string text = thrown_text<ValueError>([] { (void)data::class_of(0xFC); });
  EXPECT_TRUE(contains(text, "U+00FC") && contains(text, "utf8proc")) << text;
}

}  // namespace
}  // namespace heddle
