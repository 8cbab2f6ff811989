#include "heddle/data/chat_flow.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace heddle::data::detail {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view without_spaces(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// Whether one pair of brackets encloses the whole.
bool is_enclosed(std::string_view text) {
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return false;
  int depth = 0;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    depth += (text[i] == '(') - (text[i] == ')');
    if (depth == 0) return false;
  }
  return true;
}

// The end of the literal that begins at `at`; npos where it has none.
size_t literal_end(std::string_view text, size_t at) {
  const char quote = text[at];
  for (size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == quote)
      return i + 1;
  }
  return std::string_view::npos;
}

// Control characters of a text are not taken for the flow's own.
void put_text(std::string& flow, std::string_view text) {
  for (const char c : text) flow += c == '\n' || c == '\t' || static_cast<uint8_t>(c) >= 32 ? c : ' ';
}

std::string unescaped(std::string_view inner) {
  std::string text;
  for (size_t i = 0; i < inner.size(); ++i) {
    if (inner[i] != '\\' || i + 1 == inner.size()) {
      text += inner[i];
      continue;
    }
    const char c = inner[++i];
    text += c == 'n' ? '\n' : c == 't' ? '\t' : c;
  }
  return text;
}

std::string_view without_brackets(std::string_view text) {
  constexpr int most = 4;  // more is none of the forms
  for (int i = 0; i < most && is_enclosed(text = without_spaces(text)); ++i) text = text.substr(1, text.size() - 2);
  return without_spaces(text);
}

// Without spaces and outer brackets; x['y'] as x.y. Empty where it is too long to be one of those that matter.
std::string canonical(std::string_view part) {
  constexpr size_t longest = 256;
  part = without_brackets(part);
  if (part.size() > longest) return {};
  std::string text;
  for (const char c : part)
    if (!is_space(c)) text += c == '"' ? '\'' : c;
  for (size_t at = text.find("['"); at != std::string::npos; at = text.find("['", at)) {
    const size_t end = text.find("']", at);
    if (end == std::string::npos) break;
    text.erase(end, 2);
    text.replace(at, 2, 1, '.');
  }
  return text;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  });
}

// "message.content" and "content", of any variable that is no element of a list.
bool is_field(std::string_view text, std::string_view field) {
  if (text == field) return true;
  const size_t dot = text.find('.');
  return dot != std::string_view::npos && text.substr(dot + 1) == field && is_name(text.substr(0, dot));
}

char character_of(std::string text) {
  if (text == "bos_token") return flow_begin;
  if (text == "eos_token") return flow_end;
  bool is_trimmed = false;
  for (const std::string_view ending : {"|trim", ".strip()"}) {
    if (!text.ends_with(ending)) continue;
    text.erase(text.size() - ending.size());
    text = canonical(text);
    is_trimmed = true;
  }
  if (is_field(text, "content")) return is_trimmed ? flow_trimmed : flow_content;
  if (is_field(text, "role")) return flow_role;
  if (text == "system_message" || text == "messages[0].content") return flow_system;
  return flow_other;
}

// A sum of literals and expressions.
void put_sum(std::string& flow, std::string_view sum) {
  sum = without_brackets(sum);
  int depth = 0;
  size_t begin = 0;
  const auto end_part = [&](size_t end) {
    const std::string_view part = without_spaces(sum.substr(begin, end - begin));
    begin = end + 1;
    if (part.empty()) return;
    const bool is_literal = (part[0] == '\'' || part[0] == '"') && literal_end(part, 0) == part.size();
    if (is_literal)
      put_text(flow, unescaped(part.substr(1, part.size() - 2)));
    else
      flow += character_of(canonical(part));
  };
  for (size_t i = 0; i < sum.size(); ++i) {
    const char c = sum[i];
    if (c == '\'' || c == '"') {
      const size_t end = literal_end(sum, i);
      if (end == std::string_view::npos) break;
      i = end - 1;
      continue;
    }
    depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    if (depth == 0 && (c == '+' || c == '~')) end_part(i);
  }
  end_part(sum.size());
}

// "{% set x = ... %}"; nothing of other tags.
void put_tag(std::string& flow, std::string_view tag) {
  flow += flow_cut;
  tag = without_spaces(tag);
  if (!tag.starts_with("set ")) return;
  const size_t equals = tag.find('=');
  if (equals == std::string_view::npos || tag.substr(equals).starts_with("==")) return;
  put_sum(flow, tag.substr(equals + 1));
  flow += flow_cut;
}

// The end of the tag whose inside begins at `at`: where "%}" stands outside of literals.
size_t tag_end(std::string_view text, size_t at, std::string_view closing) {
  for (size_t i = at; i < text.size(); ++i) {
    if (text.substr(i).starts_with(closing)) return i;
    if (closing == "#}" || (text[i] != '\'' && text[i] != '"')) continue;
    const size_t end = literal_end(text, i);
    if (end == std::string_view::npos) return end;
    i = end - 1;
  }
  return std::string_view::npos;
}

class Flow {
 public:
  explicit Flow(std::string_view text) : text_(text) {}

  std::string run() {
    size_t at = 0;
    while (at < text_.size()) {
      const size_t open = next_tag(at);
      put_raw(text_.substr(at, open - at), open);
      if (open == text_.size()) break;
      at = tag(open);
    }
    return std::move(flow_);
  }

 private:
  size_t next_tag(size_t at) const {
    for (; at + 1 < text_.size(); ++at)
      if (text_[at] == '{' && (text_[at + 1] == '{' || text_[at + 1] == '%' || text_[at + 1] == '#')) return at;
    return text_.size();
  }

  // Text up to a tag, as Hugging Face's library has Jinja treat the white space (trim_blocks, lstrip_blocks).
  void put_raw(std::string_view raw, size_t open) {
    if (trims_) {
      while (!raw.empty() && is_space(raw.front())) raw.remove_prefix(1);
    } else if (after_block_ && raw.starts_with("\n")) {
      raw.remove_prefix(1);
    }
    if (open < text_.size()) {
      const bool dash = open + 2 < text_.size() && text_[open + 2] == '-';
      if (dash) {
        while (!raw.empty() && is_space(raw.back())) raw.remove_suffix(1);
      } else if (text_[open + 1] != '{') {
        const size_t line = raw.find_last_not_of(" \t");
        const bool is_indent =
            line == std::string_view::npos ? (after_block_ || open == raw.size()) : raw[line] == '\n';
        if (is_indent) raw = raw.substr(0, line == std::string_view::npos ? 0 : line + 1);
      }
    }
    put_text(flow_, raw);
  }

  // Where the text goes on behind it.
  size_t tag(size_t open) {
    const char kind = text_[open + 1];
    const std::string_view closing = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    const size_t end = tag_end(text_, open + 2, closing);
    if (end == std::string_view::npos) return text_.size();
    std::string_view inside = text_.substr(open + 2, end - open - 2);
    trims_ = inside.ends_with("-");
    after_block_ = kind != '{';
    if (trims_) inside.remove_suffix(1);
    if (inside.starts_with("-") || inside.starts_with("+")) inside.remove_prefix(1);
    if (kind == '{') put_sum(flow_, inside);
    if (kind == '%') put_tag(flow_, inside);
    return end + 2;
  }

  std::string_view text_;
  std::string flow_;
  bool trims_ = false, after_block_ = false;
};

}  // namespace

std::string chat_flow(std::string_view jinja) { return Flow(jinja).run(); }

}  // namespace heddle::data::detail
