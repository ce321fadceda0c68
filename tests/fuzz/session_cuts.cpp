// A conversation cut anywhere (pieces, saves and restores, forks, truncations) against the same in one go, bit for bit.
#include <cstring>
#include <map>

#include "bantam/compress/compress.hpp"
#include "bantam/kernels/table.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/structures.hpp"

namespace bantam::fuzz {

namespace {

const Model& model_in(const Scratch& folder, std::string_view format) {
  static std::map<std::string_view, Model> models;
  static const Model base = [&] {
    test::TinyModel tiny{.dim = 36, .layers = 2, .heads = 4, .kv_heads = 2, .head_dim = 6, .ffn = 40, .vocab = 30, .context = 300};
    return Model::load(folder.put("base.gguf", tiny.make().gguf().bytes()));
  }();
  const auto found = models.find(format);
  if (found != models.end()) return found->second;
  return models.emplace(format, compress(base, Recipe(find_format(format))).first).first->second;
}

void run_session_cuts(Bytes bytes) {
  static const Scratch folder;
  static constexpr const char* weights[] = {"f32", "i8.row", "i4.g32", "q4k", "nf4.g64"};
  Choices choices(bytes);
  const Model& model = model_in(folder, choices.of(weights));
  const std::string kv = choices.of(std::span<const KvKernels>(kernel_tables().back()->kv)).name;
  const auto options = [&] { return SessionOptions{.threads = static_cast<int>(choices.between(1, 2)), .kv = kv}; };
  std::vector<TokenId> tokens(1 + choices.below(160));
  for (TokenId& token : tokens) token = static_cast<TokenId>(choices.below(30));
  Sampling sampling;
  sampling.seed = choices.raw();
  sampling.repeat_penalty = choices.once_in(2) ? 1.3f : 1.0f;
  const std::int64_t wanted = choices.between(1, 8);

  // In one go.
  Session whole(model, options());
  whole.prefill(tokens);
  const std::vector<float> expected(whole.logits().begin(), whole.logits().end());
  auto stream = whole.stream(std::span<const TokenId>(), {.max_tokens = wanted, .sampling = sampling, .ignore_end = true});
  (void)stream.text();
  const std::vector<TokenId> text = stream.tokens();

  // In pieces.
  Session session(model, options());
  const auto interrupt = [&] {
    switch (choices.below(5)) {
      case 0:
        session.save(folder / "session");
        session = Session::restore(model, folder / "session", options());
        break;
      case 1: {
        Session copy = session.fork();
        if (choices.once_in(2)) copy.prefill(std::span(tokens).first(1));  // what the copy writes is its own
        else session = std::move(copy);
        break;
      }
      default: break;
    }
  };
  for (std::size_t at = 0; at < tokens.size();) {
    const std::size_t count = std::min(tokens.size() - at, 1 + choices.below(70));
    session.prefill(std::span(tokens).subspan(at, count));
    at += count;
    if (choices.once_in(4)) {
      at = choices.below(at + 1);
      session.truncate(static_cast<std::int64_t>(at));
    }
    if (at > 0) interrupt();
  }
  const auto found = session.logits();
  require(std::memcmp(found.data(), expected.data(), found.size_bytes()) == 0, "a text read in pieces gives the logits of the whole");

  const std::int64_t first = choices.between(0, wanted);
  std::vector<TokenId> parts;
  if (first > 0) {
    auto one = session.stream(std::span<const TokenId>(), {.max_tokens = first, .sampling = sampling, .ignore_end = true});
    (void)one.text();
    parts = one.tokens();
    interrupt();
  }
  if (first < wanted) {
    const GenerateOptions rest{.max_tokens = wanted - first, .sampling = sampling, .ignore_end = true};
    auto two = first > 0 ? session.resume(rest) : session.stream(std::span<const TokenId>(), rest);
    (void)two.text();
    parts.insert(parts.end(), two.tokens().begin(), two.tokens().end());
  }
  require(parts == text, "a generation that was interrupted goes on as the whole one");
}

const Target session_cuts_target("session_cuts", run_session_cuts);

}  // namespace
}  // namespace bantam::fuzz
