// SHA-256 against the examples of NIST's FIPS 180-4 and its test vectors (CAVP, SHA256ShortMsg).
#include "heddle/io/sha256.h"

#include <gtest/gtest.h>

#include "heddle/core/base/error.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

TEST(Sha256, TheStandardsExamples) {
  EXPECT_EQ(hex_of(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex_of(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex_of(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex_of(sha256("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmn"
                          "opqrsmnopqrstnopqrstu")),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(hex_of(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  const std::vector<uint8_t> one = {0xd3}, four = {0x74, 0xba, 0x25, 0x21};
  EXPECT_EQ(hex_of(sha256(one)), "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1");
  EXPECT_EQ(hex_of(sha256(four)), "b16aa56be3880d18cd41e68384cf1ec8c17680c45a02b1575dc1518923ae8b0e");
}

TEST(Sha256, PiecesGiveWhatTheWholeGives) {
  std::vector<uint8_t> bytes(300);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7);
  for (size_t length = 0; length <= bytes.size(); ++length) {
    const std::span<const uint8_t> all = std::span(bytes).first(length);
    for (const size_t cut : {size_t{0}, length / 3, length / 2, length}) {
      Sha256 hash;
      hash.update(all.first(cut));
      hash.digest();  // changes nothing
      hash.update(all.subspan(cut));
      ASSERT_EQ(hash.digest(), sha256(all)) << length << " in two at " << cut;
    }
  }
}

TEST(Sha256, OfAFile) {
  test::TemporaryFolder folder;
  test::write_bytes(folder / "long", std::vector<uint8_t>(3'000'000, 9));
  EXPECT_EQ(sha256_of_file(folder / "long", "test"), sha256(std::vector<uint8_t>(3'000'000, 9)));
  const std::string text = test::thrown_text<IoError>([&] { sha256_of_file(folder / "none", "test"); });
  EXPECT_TRUE(test::contains(text, "[test] " + (folder / "none") + ": cannot be read"));
}

TEST(Sha256, HexAndBack) {
  const Sha256Digest digest = sha256("abc");
  EXPECT_EQ(parse_sha256(hex_of(digest)), digest);
  EXPECT_FALSE(parse_sha256(""));
  EXPECT_FALSE(parse_sha256(hex_of(digest).substr(1)));
  EXPECT_FALSE(parse_sha256(std::string(63, '0') + "g"));
  EXPECT_FALSE(parse_sha256(std::string(63, '0') + "A"));
}

}  // namespace
}  // namespace heddle
