// Looking for replies in prompts, by what the prompt says up to them and by what they say.
#include "server/replays.hpp"

#include <algorithm>
#include <optional>

#include "io/json.hpp"

namespace bantam::server {

namespace {

/// Without what templates strip, which is Python's white space.
std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  const auto first = std::ranges::find_if_not(text, is_space);
  const auto end = std::ranges::find_if_not(text.rbegin(), std::make_reverse_iterator(first), is_space).base();
  return {first, end};
}

bool same_json(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const Json x = Json::parse_or_null(a), y = Json::parse_or_null(b);
  return !x.is_null() && x == y;
}

/// Whether what a template wrote says what was said. Many templates leave ids out.
bool says_same(const ParsedReply& written, const ParsedReply& said) {
  const auto same_call = [](const ToolCall& a, const ToolCall& b) {
    return a.name == b.name && (a.id.empty() || a.id == b.id) && same_json(a.arguments, b.arguments);
  };
  return trimmed(written.reasoning) == trimmed(said.reasoning) && trimmed(written.text) == trimmed(said.text) &&
         std::ranges::equal(written.calls, said.calls, same_call);
}

}  // namespace

Replays::Replays(const Tokenizer& tokenizer, std::string_view form) : tokenizer_(tokenizer), form_(form) {
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_special(id)) marks_.add(tokenizer.piece(id), id);
  }
}

std::size_t Replays::Entry::bytes() const noexcept {
  std::size_t bytes = prompt.size() + tokens.size() * sizeof(TokenId) + said.reasoning.size() + said.text.size();
  for (const ToolCall& call : said.calls) bytes += sizeof call + call.id.size() + call.name.size() + call.arguments.size();
  return bytes;
}

/// Those whose prompts the prompt begins with, the longest first.
std::vector<Replays::Shared> Replays::beginnings_of(std::string_view prompt) {
  std::vector<Shared> found;
  {
    const std::lock_guard lock(mutex_);
    for (const Shared& entry : entries_) {
      if (prompt.starts_with(entry->prompt)) found.push_back(entry);
    }
  }
  std::ranges::stable_sort(found, std::greater{}, [](const Shared& entry) { return entry->prompt.size(); });
  return found;
}

namespace {

/// What stands behind a prompt, up to each of the special tokens behind that: one of them ends the reply. Read as far as anybody asks.
class Repeated {
 public:
  Repeated(const Literals& marks, std::string_view form, std::string_view text, const ReplyOptions& options)
      : marks_(marks), form_(form), text_(text), options_(options) {}

  /// Where what says the same as `said` ends; none. `work`: bytes that may be read yet.
  [[nodiscard]] std::optional<std::size_t> end_of(const ParsedReply& said, std::size_t& work) {
    for (std::size_t i = 0; i < most || i < found_.size(); ++i) {
      if (i == found_.size() && !read_on(work)) return std::nullopt;
      if (says_same(found_[i].said, said)) return found_[i].end;
    }
    return std::nullopt;
  }

 private:
  // Far more than forms of replies have marks of their own.
  static constexpr std::size_t most = 64;

  bool read_on(std::size_t& work) {
    Literals::Hit mark;
    if (!marks_.find(text_, from_, mark) || mark.begin > work) return false;
    work -= mark.begin;
    from_ = mark.end;
    found_.push_back({mark.begin, parse_reply(text_.substr(0, mark.begin), form_, options_)});
    return true;
  }

  struct Found {
    std::size_t end;
    ParsedReply said;
  };
  const Literals& marks_;
  std::string_view form_, text_;
  ReplyOptions options_;
  std::size_t from_ = 0;
  std::vector<Found> found_;
};

}  // namespace

std::vector<TokenId> Replays::tokens_of(std::string_view prompt, std::string_view tools) {
  // Regenerated replies and branches of a conversation share beginnings; far more than so many are somebody's idea of a joke.
  constexpr int most_lengths = 8;
  constexpr std::size_t most_work = std::size_t{8} << 20;
  const EncodeOptions whole{.add_special = false, .parse_special = true};
  std::optional<Repeated> repeated;
  std::size_t length = prompt.npos, work = most_work;
  int lengths = 0;
  for (const Shared& entry : beginnings_of(prompt)) {
    if (entry->prompt.size() != length) {
      if (++lengths > most_lengths) break;
      length = entry->prompt.size();
      repeated.emplace(marks_, form_, prompt.substr(length), ReplyOptions{.prompt = entry->prompt, .tools = tools, .calls = !tools.empty()});
    }
    const std::optional<std::size_t> end = repeated->end_of(entry->said, work);
    if (!end) continue;
    std::vector<TokenId> tokens = entry->tokens;
    // Texts end at special tokens, wherever they stand.
    const std::vector<TokenId> more = tokenizer_.encode(prompt.substr(length + *end), whole);
    tokens.insert(tokens.end(), more.begin(), more.end());
    touch(entry);
    return tokens;
  }
  return tokenizer_.encode(prompt, whole);
}

std::vector<Replays::Shared> Replays::entries() {
  const std::lock_guard lock(mutex_);
  return {entries_.rbegin(), entries_.rend()};
}

void Replays::touch(const Shared& entry) {
  const std::lock_guard lock(mutex_);
  if (const auto found = std::ranges::find(entries_, entry); found != entries_.end()) entries_.splice(entries_.begin(), entries_, found);
}

void Replays::add(std::string prompt, std::vector<TokenId> tokens, ParsedReply said) {
  const auto entry = std::make_shared<const Entry>(Entry{std::move(prompt), std::move(tokens), std::move(said)});
  if (entry->bytes() > most_bytes) return;
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find_if(entries_, [&](const Shared& other) { return other->tokens == entry->tokens && other->prompt == entry->prompt; });
  if (known != entries_.end()) {
    bytes_ -= (*known)->bytes();
    entries_.erase(known);
  }
  entries_.push_front(entry);
  bytes_ += entry->bytes();
  while (entries_.size() > most || bytes_ > most_bytes) {
    bytes_ -= entries_.back()->bytes();
    entries_.pop_back();
  }
}

}  // namespace bantam::server
