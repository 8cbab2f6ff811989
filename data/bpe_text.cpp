// GPT-2's files, vocab.json and merges.txt, and both in one JSON.
#include "heddle/data/bpe_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/text_stream.h"
#include "heddle/data/unicode.h"
#include "heddle/io/atomic_file.h"
#include "heddle/io/read_file.h"

namespace heddle::data {
namespace detail {
namespace {

bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

}  // namespace

const std::vector<int32_t>& code_of_byte() {
  static const std::vector<int32_t> codes = [] {
    std::vector<int32_t> table(256);
    int32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) table[static_cast<size_t>(byte)] = stands_for_itself(byte) ? byte : next++;
    return table;
  }();
  return codes;
}

std::vector<uint8_t> bytes_in_order() {
  std::vector<uint8_t> bytes(256);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  std::sort(bytes.begin(), bytes.end(), [](uint8_t a, uint8_t b) { return code_of_byte()[a] < code_of_byte()[b]; });
  return bytes;
}

std::string printable_bytes(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += utf8(code_of_byte()[static_cast<uint8_t>(c)]);
  return text;
}

std::optional<std::string> bytes_of_printable(std::string_view text) {
  static const std::unordered_map<int32_t, char> byte_of_code = [] {
    std::unordered_map<int32_t, char> table;
    for (size_t byte = 0; byte < 256; ++byte) table.emplace(code_of_byte()[byte], static_cast<char>(byte));
    return table;
  }();
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    const auto found = byte_of_code.find(c.code);
    if (found == byte_of_code.end()) return {};
    bytes.push_back(found->second);
    at += c.bytes;
  }
  return bytes;
}

}  // namespace detail

namespace {

using OrderedJson = nlohmann::ordered_json;  // what is written
using Merge = BpeTokenizer::Merge;

// Puts a tokenizer together from a vocabulary and merges as text.
class Reader {
 public:
  Reader(const nlohmann::json& vocab, std::string_view where) : where_(where), names_(vocab.size()) {
    if (!vocab.is_object() || vocab.empty()) fail("the vocabulary is not a JSON object of tokens and numbers");
    for (const auto& [name, number] : vocab.items()) {
      if (!number.is_number_unsigned() || number.get<uint64_t>() >= names_.size() ||
          !names_[number.get<size_t>()].empty() || name.empty()) {
        fail(fmt::format("token '{}' has the number {}; {} tokens must have the numbers 0 to {}, each once",
                         shortened(name), shortened(number.dump()), names_.size(), names_.size() - 1));
      }
      names_[number.get<size_t>()] = name;
      token_of_.emplace(name, number.get<int32_t>());
    }
  }

  // `where`: of this merge, in errors.
  void add_merge(const std::string& line, const std::string& where) {
    const size_t space = line.find(' ');
    if (space == 0 || space == std::string::npos || space + 1 == line.size() ||
        line.find(' ', space + 1) != std::string::npos) {
      throw IoError(
          fmt::format("[bpe] {}: '{}' is not two tokens with one space between them", where, shortened(line)));
    }
    const std::string left = line.substr(0, space), right = line.substr(space + 1);
    const auto number = [&](const std::string& name) {
      const auto found = token_of_.find(name);
      if (found == token_of_.end())
        throw IoError(fmt::format("[bpe] {}: token '{}' is not in the vocabulary {}; do the two files belong together?",
                                  where, shortened(name), where_));
      return found->second;
    };
    merges_.push_back({number(left), number(right), number(left + right)});
  }

  // What no merge makes is special, unless it is a byte.
  std::shared_ptr<const BpeTokenizer> finish() {
    std::vector<bool> made(names_.size(), false);
    for (const Merge& merge : merges_) made[static_cast<size_t>(merge.result)] = true;
    std::vector<std::string> tokens;
    std::map<std::string, int32_t> special;
    for (size_t i = 0; i < names_.size(); ++i) {
      std::optional<std::string> bytes = detail::bytes_of_printable(names_[i]);
      const bool is_special = !bytes || (bytes->size() > 1 && !made[i]);
      if (is_special) special.emplace(names_[i], static_cast<int32_t>(i));
      tokens.push_back(is_special ? names_[i] : std::move(*bytes));
    }
    try {
      return std::make_shared<BpeTokenizer>(std::move(tokens), std::move(merges_), std::move(special));
    } catch (const ValueError& error) {
      fail(error.what());
    }
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw IoError(fmt::format("[bpe] {}: {}", where_, shortened(what)));
  }

  std::string where_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, int32_t> token_of_;
  std::vector<Merge> merges_;
};

OrderedJson vocabulary_json(const BpeTokenizer& tokenizer) {
  OrderedJson vocab = OrderedJson::object();
  // Names differ, so each goes to the end: operator[] would compare it with all before it.
  OrderedJson::object_t::Container& entries = vocab.get_ref<OrderedJson::object_t&>();
  for (int32_t i = 0; i < tokenizer.size(); ++i) {
    const std::string& token = tokenizer.text_of(i);
    entries.emplace_back(tokenizer.special().count(token) == 0 ? detail::printable_bytes(token) : token, i);
  }
  return vocab;
}

std::vector<std::string> merge_lines(const BpeTokenizer& tokenizer) {
  std::vector<std::string> lines;
  for (const Merge& merge : tokenizer.merges())
    lines.push_back(detail::printable_bytes(tokenizer.text_of(merge.left)) + " " +
                    detail::printable_bytes(tokenizer.text_of(merge.right)));
  return lines;
}

}  // namespace

std::shared_ptr<const BpeTokenizer> detail::bpe_from_json(const nlohmann::json& json, std::string_view where) {
  Reader reader(json.at("vocab"), where);
  size_t number = 0;
  for (const nlohmann::json& line : json.at("merges"))
    reader.add_merge(line.get<std::string>(), fmt::format("{}: merge {}", where, number++));
  return reader.finish();
}

std::shared_ptr<const BpeTokenizer> BpeTokenizer::load(const std::string& vocab_json, const std::string& merges_txt) {
  Reader reader(parse_json(read_text_file(vocab_json, "bpe"), fmt::format("[bpe] {}", vocab_json)), vocab_json);
  TextInput lines(read_text_file(merges_txt, "bpe"));
  std::string line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const bool is_version = number == 1 && line.rfind("#version", 0) == 0;
    if (!line.empty() && !is_version) reader.add_merge(line, fmt::format("{}:{}", merges_txt, number));
  }
  return reader.finish();
}

void BpeTokenizer::save(const std::string& folder) const {
  require_writable_folder(folder);
  const fs::path in(folder);
  write_file_atomically((in / "vocab.json").string(), vocabulary_json(*this).dump());
  std::string merges = "#version: 0.2\n";
  for (const std::string& line : merge_lines(*this)) merges += line + "\n";
  write_file_atomically((in / "merges.txt").string(), merges);
}

std::string BpeTokenizer::str() const {
  OrderedJson json = OrderedJson::object();
  json["type"] = "bpe";
  json["vocab"] = vocabulary_json(*this);
  json["merges"] = merge_lines(*this);
  return json.dump();
}

}  // namespace heddle::data
