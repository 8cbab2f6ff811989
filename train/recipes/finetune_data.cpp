#include "heddle/train/recipes/finetune_data.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/data/batcher.h"
#include "heddle/data/chat.h"

namespace heddle::train {
namespace {

constexpr uint64_t held_out_epoch = 0;

// Examples in the template's form, and as tokens.
struct Encoded {
  std::vector<data::ChatExample> examples;
  std::vector<data::ChatTokens> tokens;
};

// Turns that the template does not take are refused, or with --skip-bad left out and counted.
class LeftOut {
 public:
  explicit LeftOut(bool skips) : skips_(skips) {}
  template <class F>
  void guard(const F& encode) {
    try {
      encode();
    } catch (const ValueError& error) {
      if (!skips_) throw;
      if (count_++ == 0) reason_ = error.what();
    }
  }
  void finish(std::vector<std::string>& remarks) const {
    if (count_ > 0)
      remarks.push_back(fmt::format("[finetune] {} examples are left out, the first: {}", count_, reason_));
  }

 private:
  bool skips_;
  int64_t count_ = 0;
  std::string reason_;
};

Encoded encode(const Config& c, std::vector<data::ChatExample> examples, const data::ChatTemplate& form,
               const data::Tokenizer& tokenizer, std::vector<std::string>& remarks) {
  Encoded made;
  LeftOut bad(c.data.skip_broken);
  for (data::ChatExample& example : examples) {
    bad.guard([&] {
      made.tokens.push_back(data::encode_chat(example, form, tokenizer, !c.model_value<Flag>("all_tokens")));
      made.examples.push_back(std::move(example));
    });
  }
  bad.finish(remarks);
  return made;
}

// A book: its end is held out.
ChatData split_text(const Config& c, const data::ChatTokens& all, std::vector<std::string> remarks) {
  const double share = static_cast<double>(all.tokens.size()) * (1 - c.data.validation);
  const auto keep = static_cast<std::ptrdiff_t>(std::llround(share));
  const auto cut = [&](std::ptrdiff_t from, std::ptrdiff_t to) {
    return data::ChatTokens{{all.tokens.begin() + from, all.tokens.begin() + to},
                            {all.trained.begin() + from, all.trained.begin() + to},
                            true};
  };
  const auto end = static_cast<std::ptrdiff_t>(all.tokens.size());
  return {.training = {cut(0, keep)}, .validation = {cut(keep, end)}, .remarks = std::move(remarks)};
}

// Up to the last answer.
std::vector<int32_t> question_of(data::ChatExample example, const data::ChatTemplate& form,
                                 const data::Tokenizer& tokenizer) {
  while (!example.turns.empty() && example.turns.back().role == "assistant") example.turns.pop_back();
  return data::encode_prompt(example.turns, form, tokenizer);
}

// Of each pair the last answer alone is learned: those before are in both.
std::vector<data::PreferencePair> answers_of(std::vector<data::PreferencePair> pairs) {
  for (data::PreferencePair& pair : pairs) {
    for (auto* turns : {&pair.chosen.turns, &pair.rejected.turns}) {
      for (size_t i = 0; i < turns->size(); ++i) (*turns)[i].trained = i + 1 == turns->size();
    }
  }
  return pairs;
}

// Which of `count` examples are held out, by the run's seed.
std::vector<bool> held_out(const Config& c, size_t count) {
  const auto all = static_cast<int64_t>(count);
  const auto held = static_cast<int64_t>(std::ceil(static_cast<double>(all) * c.data.validation));
  if (held < 1 || held >= all)
    throw ValueError(fmt::format("[finetune] --validation {} holds out {} of the {} examples of {}", c.data.validation,
                                 held, all, c.data.path));
  const std::vector<uint32_t> order = data::shuffled_order(all, static_cast<uint64_t>(c.run.seed), held_out_epoch);
  std::vector<bool> is_held(count, false);
  for (int64_t i = 0; i < held; ++i) is_held[order[static_cast<size_t>(i)]] = true;
  return is_held;
}

ChatData read_pairs(const Config& c, const BaseModel& base) {
  data::PreferenceFile file = data::read_preferences(c.data.path, {.skip_bad = c.data.skip_broken});
  const data::ChatTemplate form = template_of(base, c.model_value<Text>("template"));
  ChatData made{.remarks = std::move(file.remarks)};
  std::vector<data::ChatTokens> chosen, rejected;
  std::vector<data::ChatExample> questions;
  LeftOut bad(c.data.skip_broken);
  for (data::PreferencePair& pair : answers_of(std::move(file.pairs))) {
    bad.guard([&] {
      data::ChatTokens other = data::encode_chat(pair.rejected, form, *base.tokenizer);
      chosen.push_back(data::encode_chat(pair.chosen, form, *base.tokenizer));
      rejected.push_back(std::move(other));
      questions.push_back(std::move(pair.chosen));
    });
  }
  bad.finish(made.remarks);
  const std::vector<bool> is_held = held_out(c, chosen.size());
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (is_held[i] && made.prompt.empty()) made.prompt = question_of(questions[i], form, *base.tokenizer);
    (is_held[i] ? made.validation : made.training).push_back(std::move(chosen[i]));
    (is_held[i] ? made.rejected_validation : made.rejected_training).push_back(std::move(rejected[i]));
  }
  return made;
}

}  // namespace

ChatData read_chat_data(const Config& c, const BaseModel& base) {
  if (c.data.path.empty())
    throw ValueError("[finetune] --data is missing: JSON lines of conversations, or a .txt file");
  if (const Text& objective = c.model_value<Text>("objective"); objective == "dpo" || objective == "orpo")
    return read_pairs(c, base);
  data::ChatFile file = data::read_chat_file(c.data.path, {.skip_bad = c.data.skip_broken});
  const bool texts = file.form == "text";
  const data::ChatTemplate form =
      texts ? data::ChatTemplate::named("plain") : template_of(base, c.model_value<Text>("template"));
  std::vector<std::string> remarks = std::move(file.remarks);
  Encoded all = encode(c, std::move(file.examples), form, *base.tokenizer, remarks);
  if (texts && all.tokens.size() == 1) return split_text(c, all.tokens[0], std::move(remarks));
  const std::vector<bool> is_held = held_out(c, all.tokens.size());
  ChatData made{.remarks = std::move(remarks)};
  for (size_t i = 0; i < all.tokens.size(); ++i) {
    if (is_held[i] && made.prompt.empty() && !texts) made.prompt = question_of(all.examples[i], form, *base.tokenizer);
    (is_held[i] ? made.validation : made.training).push_back(std::move(all.tokens[i]));
  }
  return made;
}

}  // namespace heddle::train
