// Saved sessions: fields, tokens, pages and sampler states changed, under a hash that is right.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "bantam/kernels/table.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/readers.hpp"
#include "fuzz/structures.hpp"
#include "hostile/gguf_builder.hpp"

namespace bantam::fuzz {

namespace {

const Model& model(const Scratch& folder) {
  static const Model loaded = [&] {
    test::TinyModel tiny{.dim = 8, .layers = 1, .heads = 2, .kv_heads = 1, .head_dim = 4, .ffn = 9, .vocab = 30, .context = 100};
    return Model::load(folder.put("base.gguf", tiny.make().gguf().bytes()));
  }();
  return loaded;
}

void run_session_file(Bytes bytes) {
  static const Scratch folder;
  Choices choices(bytes);
  Session session(model(folder), {.threads = 1, .kv = choices.of(std::span<const KvKernels>(kernel_tables().back()->kv)).name});
  std::vector<TokenId> tokens(1 + choices.below(80));
  for (TokenId& token : tokens) token = static_cast<TokenId>(choices.below(30));
  session.prefill(tokens);
  if (choices.once_in(2)) (void)session.stream("", {.max_tokens = 4, .ignore_end = true}).text();
  session.save(folder / "session");
  std::string file = test::read_file(folder / "session");
  for (std::size_t changes = choices.below(4); changes > 0; --changes) {
    const std::size_t field = 8 * choices.below(16);
    if (field + 8 <= file.size()) file.replace(field, 8, test::little(choices.number()));
  }
  damage(file, choices);
  if (file.size() > 8 && !choices.once_in(8)) file.replace(file.size() - 8, 8, test::little<std::uint64_t>(XXH3_64bits(file.data(), file.size() - 8)));
  const auto path = folder.put("changed", file);
  survives([&] {
    Session restored = Session::restore(model(folder), path, {.threads = 1});
    for (const TokenId id : restored.tokens()) require(id >= 0 && id < 30, "restored tokens are of the vocabulary");
    require(static_cast<std::int64_t>(restored.tokens().size()) <= restored.context(), "restored tokens fit the context");
    restored.save(folder / "again");
    survives([&] { (void)restored.resume({.max_tokens = 3}).text(); });
    survives([&] { (void)restored.stream("ab", {.max_tokens = 3}).text(); });
    survives([&] { restored.truncate(choices.between(0, 80)); });
    survives([&] { restored.prefill("a"); });
  });
}

const Target session_file_target("session_file", run_session_file);

}  // namespace
}  // namespace bantam::fuzz
