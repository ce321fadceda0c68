// Opens tokenizers: a folder, one file of either kind, GGUF, native JSON.
#include <algorithm>
#include <memory>
#include <span>

#include "bantam/core/error.hpp"
#include "bantam/core/memory.hpp"
#include "bantam/core/parallel.hpp"
#include "bantam/io/file.hpp"
#include "bantam/io/gguf.hpp"
#include "bantam/io/path_error.hpp"
#include "bantam/text/tokenizer.hpp"
#include "text/base64.hpp"
#include "text/loaders.hpp"
#include "text/tokenizer_data.hpp"

namespace bantam::inline v0 {

namespace {

/// Twice the largest known (Gemma 3: 33 MB of tokenizer.json).
constexpr std::size_t largest_file = std::size_t{64} << 20;

/// JSON begins with a brace, a SentencePiece model with the tag of its first piece.
bool looks_like_json(std::string_view bytes) {
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && bytes[first] == '{';
}

/// Lines of base64, a space and a number. A SentencePiece model begins with a byte below the space.
bool looks_like_ranks(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, std::min(bytes.find('\n'), std::size_t{256}));
  const std::size_t space = line.find(' ');
  return space != std::string_view::npos && space > 0 && bytes_of_base64(line.substr(0, space)) && line.find_first_not_of("0123456789\r", space + 1) == std::string_view::npos;
}

std::string name_of(const std::filesystem::path& file) { return printable(file.string(), 200); }

/// A file whole. What takes the time is clearing the pages that it comes to: large ones, by several threads.
AlignedBuffer<char> read_file(const std::filesystem::path& file) {
  const std::shared_ptr<const MappedFile> source = MappedFile::open(file);
  const std::span<const std::byte> bytes = source->bytes();
  if (bytes.size() > largest_file) fail(Errc::corrupt, name_of(file), ": expected at most ", largest_file, " bytes of text, found more");
  AlignedBuffer<char> text(bytes.size());
  constexpr std::int64_t grain = std::int64_t{4} << 20;
  parallel_for(static_cast<std::int64_t>(bytes.size()), grain, [&](Range range) {
    const auto part = bytes.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(range.end - range.begin));
    source->read(part, reinterpret_cast<std::byte*>(text.data() + range.begin));
  });
  return text;
}

std::string_view text_of(const AlignedBuffer<char>& bytes) { return {bytes.data(), bytes.size()}; }

ReadTokenizer read_tokenizer(std::string_view bytes, std::string_view place) {
  if (bytes.empty()) fail(Errc::corrupt, place, ": the file is empty");
  if (looks_like_json(bytes)) return read_tokenizer_json(bytes, place);
  return {looks_like_ranks(bytes) ? spec_from_tiktoken(bytes, place) : spec_from_sentencepiece(bytes, place)};
}

}  // namespace

Tokenizer Tokenizer::from_folder(const std::filesystem::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "tiktoken.model", "qwen.tiktoken"}) {
    const std::filesystem::path file = folder / name;
    if (path_kind(file) == PathKind::nothing) continue;
    const AlignedBuffer<char> bytes = read_file(file);
    auto [spec, index] = read_tokenizer(text_of(bytes), name_of(file));
    apply_folder(folder, spec, !looks_like_json(text_of(bytes)));
    return Tokenizer(build_tokenizer(std::move(spec), name_of(file), std::move(index)));
  }
  fail_missing(folder, name_of(folder), ": expected tokenizer.json or tokenizer.model, found neither");
}

Tokenizer Tokenizer::from_file(const std::filesystem::path& file) {
  auto [spec, index] = read_tokenizer(text_of(read_file(file)), name_of(file));
  return Tokenizer(build_tokenizer(std::move(spec), name_of(file), std::move(index)));
}

Tokenizer Tokenizer::from_gguf(const GgufFile& file) {
  return Tokenizer(build_tokenizer(spec_from_gguf(file), name_of(file.path())));
}

Tokenizer Tokenizer::from_json(std::string_view json, std::string_view place) {
  const std::string at = printable(place, 200);
  return Tokenizer(build_tokenizer(spec_from_native_json(json, at), at));
}

std::string Tokenizer::to_json() const { return native_json(data_->spec); }

}  // namespace bantam::inline v0
