// Which tokens begin and end texts and turns, by what files say or by the spellings of well-known models.
#include <algorithm>
#include <array>
#include <iterator>

#include "text/loaders.hpp"

namespace bantam::inline v0 {

namespace {

/// Tokens that end a turn in chat or infilling models, as those models' templates use them.
constexpr std::array turn_ends = {
    std::string_view("<|eot_id|>"),        // Llama 3
    std::string_view("<|eom_id|>"),        // Llama 3.1, before a tool's answer
    std::string_view("<|im_end|>"),        // ChatML: Qwen, Yi, SmolLM
    std::string_view("<|end|>"),           // Phi 3, StarChat
    std::string_view("<|endoftext|>"),     // GPT-2, Qwen
    std::string_view("<|end_of_text|>"),   // Llama 3, Granite
    std::string_view("<end_of_turn>"),     // Gemma
    std::string_view("<|end_of_turn|>"),   // OpenChat
    std::string_view("<|END_OF_TURN_TOKEN|>"),  // Command R
    std::string_view("<|eot|>"),           // Llama 4
    std::string_view("<EOT>"),             // Refact, CodeLlama's relatives
    std::string_view("<|return|>"),        // gpt-oss
    std::string_view("<|call|>"),          // gpt-oss, before a tool's answer
    std::string_view("<|calls|>"),         // Solar Open, before a tool's answer
    std::string_view("<turn|>"),           // Gemma 4
    std::string_view("<|tool_response>"),  // Gemma 4, before a tool's answer
    std::string_view("<｜end▁of▁sentence｜>"),  // DeepSeek
    std::string_view("</s>"),
};

constexpr std::array known_bos = {std::string_view("<s>"), std::string_view("<|begin_of_text|>"), std::string_view("<bos>"),
                                  std::string_view("<｜begin▁of▁sentence｜>"), std::string_view("<|startoftext|>")};
constexpr std::array known_eos = {std::string_view("</s>"),  std::string_view("<|end_of_text|>"), std::string_view("<eos>"),
                                  std::string_view("<｜end▁of▁sentence｜>"), std::string_view("<|endoftext|>")};

TokenId control_token(const TokenizerSpec& spec, std::string_view content) {
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    if (spec.types[i] == TokenType::control && spec.pieces[i] == content) return static_cast<TokenId>(i);
  }
  return -1;
}

TokenId first_of(const TokenizerSpec& spec, std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    if (const TokenId id = control_token(spec, name); id >= 0) return id;
  }
  return -1;
}

}  // namespace

std::vector<TokenId> known_ends(const TokenizerSpec& spec) {
  std::vector<TokenId> ends;
  // gpt-oss and Solar Open end parts of a reply, not the reply, with <|end|>: the thoughts, to begin with.
  const bool has_parts = control_token(spec, "<|call|>") >= 0 || control_token(spec, "<|calls|>") >= 0;
  for (std::size_t i = 0; i < spec.pieces.size(); ++i) {
    if (spec.types[i] != TokenType::control || (has_parts && spec.pieces[i] == "<|end|>")) continue;
    if (std::ranges::find(turn_ends, spec.pieces[i]) != turn_ends.end()) ends.push_back(static_cast<TokenId>(i));
  }
  return ends;
}

void add_known_ends(TokenizerSpec& spec) {
  std::vector<bool> listed(spec.pieces.size());
  for (const TokenId id : spec.ends) {
    if (id >= 0 && static_cast<std::size_t>(id) < listed.size()) listed[static_cast<std::size_t>(id)] = true;
  }
  std::ranges::copy_if(known_ends(spec), std::back_inserter(spec.ends), [&](TokenId id) { return !listed[static_cast<std::size_t>(id)]; });
}

void guess_bos_and_eos(TokenizerSpec& spec) {
  if (spec.bos < 0) spec.bos = spec.prefix.empty() ? first_of(spec, known_bos) : spec.prefix.front();
  if (spec.eos < 0) spec.eos = spec.suffix.empty() ? first_of(spec, known_eos) : spec.suffix.back();
}

void set_adds_bos(TokenizerSpec& spec, bool adds) {
  if (spec.bos < 0) return;
  const bool has = !spec.prefix.empty() && spec.prefix.front() == spec.bos;
  if (adds && !has) spec.prefix.insert(spec.prefix.begin(), spec.bos);
  if (!adds && has) spec.prefix.erase(spec.prefix.begin());
}

void set_adds_eos(TokenizerSpec& spec, bool adds) {
  if (spec.eos < 0) return;
  const bool has = !spec.suffix.empty() && spec.suffix.back() == spec.eos;
  if (adds && !has) spec.suffix.push_back(spec.eos);
  if (!adds && has) spec.suffix.pop_back();
}

}  // namespace bantam::inline v0
