// GGUF files: the header, every tensor's bytes, typed metadata, and the vocabulary where there is one.
#include "bantam/io/gguf.hpp"

#include "bantam/text/tokenizer.hpp"
#include "fuzz/fuzz.hpp"
#include "fuzz/readers.hpp"
#include "fuzz/structures.hpp"

namespace bantam::fuzz {

namespace {

void run_gguf(Bytes bytes) {
  static const Scratch folder;
  Choices choices(bytes);
  std::string file = gguf_file(choices).bytes();
  damage(file, choices);
  const auto path = folder.put("model.gguf", file);
  std::shared_ptr<const GgufFile> opened;
  if (!survives([&] { opened = GgufFile::open(path); })) return;
  touch(*opened);
  for (const auto& entry : opened->metadata()) {
    const std::string& key = entry.first;
    require(opened->value(key) == &entry.second, "a key that is listed is found");
    survives([&] { (void)opened->integer(key); });
    survives([&] { (void)opened->number(key); });
    survives([&] { (void)opened->text(key); });
    survives([&] { (void)opened->integers(key); });
    survives([&] { (void)opened->numbers(key); });
  }
  survives([&] { use(Tokenizer::from_gguf(*opened), "a ab\n<s> \xe2\x96\x81 0"); });
}

const Target gguf_target("gguf", run_gguf);

}  // namespace
}  // namespace bantam::fuzz
