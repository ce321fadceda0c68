// Native files: cut short, with flipped bytes, with metadata that does not fit.
#include <nlohmann/json.hpp>

#include "bantam/compress/compress.hpp"
#include "bantam/model/native_file.hpp"
#include "limits.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// Small enough to try every byte of its header.
TinyModel smallest() {
  TinyModel tiny{.dim = 4, .layers = 1, .heads = 2, .kv_heads = 1, .head_dim = 2, .ffn = 3, .vocab = 30};
  return tiny.make();
}

/// The bytes of a native file in two formats.
std::string native_bytes(const TinyModel& tiny) {
  const TemporaryFolder folder;
  tiny.write_folder(folder / "hf");
  compress_file(Checkpoint::open(folder / "hf"), folder / "m.bantam", recipe::rtn("q4").keep("*.q_proj", "f16"));
  return read_file(folder / "m.bantam");
}

std::size_t header_bytes(const std::string& file) {
  std::uint64_t size = 0;
  std::memcpy(&size, file.data(), sizeof size);
  return 8 + static_cast<std::size_t>(size);
}

/// The file with the text of one metadata value changed. The header keeps its size.
std::string with_metadata(const std::string& file, const std::string& key, const std::function<void(std::string&)>& change) {
  const std::size_t header = header_bytes(file);
  auto json = nlohmann::ordered_json::parse(file.substr(8, header - 8));
  auto& metadata = json["__metadata__"];
  std::string value = metadata.at(key);
  change(value);
  metadata[key] = value;
  std::string text = json.dump();
  // Values that grow take the room that spaces fill at the end.
  REQUIRE(text.size() <= header - 8);
  text.resize(header - 8, ' ');
  return file.substr(0, 8) + text + file.substr(header);
}

std::string open_error(const std::string& bytes) {
  const TemporaryFolder folder;
  write_file(folder / "m.bantam", bytes);
  const std::string text = error_of([&] { (void)Checkpoint::open(folder / "m.bantam"); });
  CHECK_MESSAGE(text.starts_with((folder / "m.bantam").string()), text);
  return text;
}

using Library = nlohmann::ordered_json;

/// Changes a metadata value that is JSON.
std::function<void(std::string&)> json_change(std::function<void(Library&)> change) {
  return [change = std::move(change)](std::string& text) {
    Library json = Library::parse(text);
    change(json);
    text = json.dump();
  };
}

TEST_CASE("every beginning of a native file is refused") {
  const std::string file = native_bytes(smallest());
  const TemporaryFolder folder;
  const auto path = folder / "m.bantam";
  // Data is aligned to pages: a step that hits every phase of one, and each byte around each end.
  std::vector<std::size_t> lengths;
  const std::size_t header = header_bytes(file);
  for (std::size_t n = 0; n < file.size(); n += n < header ? 7 : 509) lengths.push_back(n);
  for (std::size_t n = file.size() - 20; n < file.size(); ++n) lengths.push_back(n);
  for (std::size_t n = header - 5; n < header + 5; ++n) lengths.push_back(n);
  for (const std::size_t n : lengths) {
    CAPTURE(n);
    write_file(path, file.substr(0, n));
    (void)error_of([&] { (void)Checkpoint::open(path); });
  }
  write_file(path, file);
  (void)Checkpoint::open(path);
}

TEST_CASE("one flipped byte is refused, found by a hash, or changes nothing that a model is made of") {
  const TinyModel tiny = smallest();
  const std::string file = native_bytes(tiny);
  const std::size_t header = header_bytes(file);
  const TemporaryFolder folder;
  const auto path = folder / "m.bantam";
  write_file(path, file);
  const Checkpoint whole = Checkpoint::open(path);
  const std::string tokenizer = whole.tokenizer().to_json();
  int refused = 0, hashes = 0;
  for (std::size_t at = 0; at < file.size(); at += at < header ? 11 : 97) {
    CAPTURE(at);
    std::string broken = file;
    broken[at] = static_cast<char>(broken[at] ^ (at % 2 == 0 ? 1 : 0x40));
    write_file(path, broken);
    try {
      const Checkpoint checkpoint = Checkpoint::open(path);
      for (const CheckpointTensor& tensor : checkpoint.tensors()) {
        if (tensor.expected_hash != content_hash(tensor.source->parts()[0].bytes)) {
          ++hashes;
          break;
        }
      }
      // Weights of whatever bytes can be loaded.
      (void)Model::from_checkpoint(checkpoint);
    } catch (const Error& error) {
      ++refused;
      CHECK(std::string(error.what()).find("m.bantam") != std::string::npos);
    }
  }
  CHECK(refused > 20);
  CHECK(hashes > 20);
}

TEST_CASE("metadata that does not fit is refused by key") {
  const std::string file = native_bytes(smallest());
  const auto changed = [&](std::string_view key, std::function<void(std::string&)> change) {
    return open_error(with_metadata(file, std::string(key), change));
  };
  has(changed(native::version_key, [](std::string& text) { text = "2"; }), "bantam.version: expected 1, found 2");
  has(changed(native::config_key, [](std::string& text) { text = "{"; }), "json");
  has(changed(native::config_key, json_change([](Library& json) { json["hidden_size"] = 8; })), "shape");
  has(changed(native::config_key, json_change([](Library& json) { json["num_hidden_layers"] = 2; })), "expected tensor model.layers.1.");
  has(changed(native::config_key, json_change([](Library& json) { json["num_hidden_layers"] = 0; })), "num_hidden_layers");
  has(changed(native::config_key, json_change([](Library& json) { json["vocab_size"] = 1 << 30; })), "shape");
  has(changed(native::config_key, json_change([](Library& json) { json["model_type"] = "x"; json["architectures"] = {"X"}; })), "architectures");
  has(changed(native::tensors_key, [](std::string& text) { text = "[]"; }), "as JSON objects");
  has(changed(native::tensors_key, [](std::string& text) { text = "{"; }), "as JSON objects");
  has(changed(native::hashes_key, [](std::string& text) { text = "7"; }), "as JSON objects");
  has(changed(native::tokenizer_key, [](std::string& text) { text = "{}"; }), "m.bantam");
  const std::string down = "model.layers.0.mlp.down_proj.weight";
  const auto entry = [&](std::function<void(Library&)> change) {
    return changed(native::tensors_key, json_change([&](Library& json) { change(json[down]); }));
  };
  has(entry([](Library& e) { e["id"] = 9999; }), down + ": expected a format of this version, found number 9999");
  has(entry([](Library& e) { e["id"] = 99999999999; }), "found number 99999999999");
  has(entry([](Library& e) { e["id"] = -1; }), down + ": expected id and shape (4, 3)");
  has(entry([](Library& e) { e["id"] = "q4"; }), down + ": expected id and shape (4, 3)");
  has(entry([](Library& e) { e["id"] = 0; }), down);
  has(entry([](Library& e) { e["shape"] = {3, 4}; }), down + ": expected id and shape (4, 3)");
  has(entry([](Library& e) { e["shape"] = {4}; }), down + ": expected id and shape (4, 3)");
  has(entry([](Library& e) { e = nullptr; }), down + ": expected id and shape (4, 3)");
  has(entry([](Library& e) { e["id"] = static_cast<int>(find_format("f32").id); }), down + ": expected ");
  has(changed(native::tensors_key, json_change([&](Library& json) { json.erase(down); })), down + ": expected id and shape");
  has(changed(native::hashes_key, json_change([&](Library& json) { json.erase(down); })), down + ": expected its hash, found none");
  has(changed(native::hashes_key, json_change([&](Library& json) { json[down] = 7; })), down + ": expected its hash, found none");
}

TEST_CASE("a native file without one of its keys is refused") {
  const std::string file = native_bytes(smallest());
  const std::size_t header = header_bytes(file);
  for (const std::string_view key : {native::version_key, native::config_key, native::tensors_key, native::tokenizer_key, native::recipe_key, native::hashes_key}) {
    CAPTURE(std::string(key));
    auto json = Library::parse(file.substr(8, header - 8));
    json["__metadata__"].erase(std::string(key));
    std::string text = json.dump();
    text.resize(header - 8, ' ');
    has(open_error(file.substr(0, 8) + text + file.substr(header)), std::string(key));
  }
}

TEST_CASE("every changed bit of a header is refused by opening or found by its hash") {
  const std::string file = native_bytes(smallest());
  const std::size_t header = header_bytes(file);
  const TemporaryFolder folder;
  const auto path = folder / "m.bantam";
  write_file(path, file);
  CHECK(check_header(path) == HeaderHash::right);
  int found_by_hash = 0;
  // Spaces fill the header to 4096 bytes; a few of them are enough.
  const std::size_t end = std::min(header, file.find_last_not_of(' ', header - 1) + 8);
  for (std::size_t at = 0; at < end; at += quick() ? 3 : 1) {
    std::string changed = file;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 7));
    write_file(path, changed);
    try {
      (void)Checkpoint::open(path);
    } catch (const Error&) {
      continue;
    }
    CAPTURE(at);
    CHECK(check_header(path) == HeaderHash::wrong);
    CHECK(error_of([&] { (void)Model::load(path, {.verify = true}); }).find("expected the header that its hash describes") != std::string::npos);
    ++found_by_hash;
  }
  // Bytes of the config, the pieces, the recipe.
  CHECK(found_by_hash > (quick() ? 33 : 100));
}

TEST_CASE("loading with verify finds a changed bit of any tensor, and reads files whose header has no hash") {
  const std::string file = native_bytes(smallest());
  const TemporaryFolder folder;
  const auto path = folder / "m.bantam";
  write_file(path, file);
  CHECK(Model::load(path, {.verify = true}).fingerprint() == Model::load(path).fingerprint());
  const Checkpoint checkpoint = Checkpoint::open(path);
  for (const CheckpointTensor& tensor : checkpoint.tensors()) {
    std::string changed = file;
    const auto at = static_cast<std::size_t>(tensor.source->parts()[0].bytes.data() - tensor.source->parts()[0].entry->file->bytes().data());
    changed[at] = static_cast<char>(changed[at] ^ 1);
    write_file(folder / "changed.bantam", changed);
    for (const WeightMemory memory : {WeightMemory::mapped, WeightMemory::automatic}) {
      has(error_of([&] { (void)Model::load(folder / "changed.bantam", {.memory = memory, .verify = true}); }), tensor.tensor_name() + " and 0 others");
    }
    CHECK(Model::load(folder / "changed.bantam").fingerprint() != Model::load(path).fingerprint());
  }
  auto json = Library::parse(file.substr(8, header_bytes(file) - 8));
  json["__metadata__"].erase(std::string(native::header_key));
  std::string text = json.dump();
  text.resize(header_bytes(file) - 8, ' ');
  write_file(path, file.substr(0, 8) + text + file.substr(header_bytes(file)));
  CHECK(check_header(path) == HeaderHash::absent);
  (void)Model::load(path, {.verify = true});
  smallest().write_folder(folder / "hf");
  has(error_of([&] { (void)Model::load(folder / "hf", {.verify = true}); }), "expected a native file, which stores hashes, found safetensors");
}

TEST_CASE("models that differ in a norm, a last row or the tokenizer have other fingerprints") {
  const TemporaryFolder folder;
  const auto fingerprint = [&](const std::string& name, const TinyModel& tiny) {
    tiny.write_folder(folder / name);
    return Model::load(folder / name).fingerprint();
  };
  const TinyModel tiny = TinyModel{}.make();
  const std::uint64_t plain = fingerprint("plain", tiny);
  CHECK(plain == fingerprint("again", tiny));
  for (const char* name : {"model.norm.weight", "lm_head.weight", "model.layers.1.mlp.down_proj.weight", "model.layers.0.input_layernorm.weight"}) {
    CAPTURE(name);
    TinyModel other = tiny;
    other.tensor(name).values.back() += 1;
    CHECK(fingerprint(name, other) != plain);
  }
  TinyModel other = tiny;
  other.pieces.back() += "x";
  CHECK(fingerprint("pieces", other) != plain);
}

TEST_CASE("saving what was loaded gives the same bytes") {
  const TinyModel tiny = smallest();
  const TemporaryFolder folder;
  write_file(folder / "a.bantam", native_bytes(tiny));
  const Model model = Model::load(folder / "a.bantam");
  model.save(folder / "b.bantam");
  CHECK((read_file(folder / "a.bantam") == read_file(folder / "b.bantam")));
  CHECK(model.fingerprint() == Model::load(folder / "b.bantam").fingerprint());
}

TEST_CASE("models of one layer, which is dense in many that have experts, are read back from what they are written to") {
  for (const ArchSpec* arch : few_architectures()) {
    CAPTURE(std::string(arch->name));
    const TemporaryFolder folder;
    TinyModel{.arch = arch, .layers = 4}.make().write_folder(folder / "usual");
    // One layer of a hybrid would be one that recurs, beside none that attends.
    if (std::ranges::any_of(Checkpoint::open(folder / "usual").config().specs, [](const LayerSpec& spec) { return recurs(spec.mixer); })) continue;
    TinyModel{.arch = arch, .layers = 1}.make().write_folder(folder / "hf");
    const auto tokens = some_tokens();
    const std::vector<float> expected = logits_of(Model::load(folder / "hf", {.memory = WeightMemory::huge_pages}), tokens);
    for (const Target target : {Target::native, Target::safetensors}) {
      CAPTURE(std::string(name_of(target)));
      const std::filesystem::path path = folder.path() / name_of(target);
      compress_file(Checkpoint::open(folder / "hf"), path, recipe::rtn("f32"), target);
      CHECK(logits_of(Model::load(path, {.memory = WeightMemory::huge_pages}), tokens) == expected);
    }
  }
}

}  // namespace
}  // namespace bantam::test
