// What files say of their models, and how far loading is.
#include "bantam/bantam.hpp"
#include "tiny_model.hpp"

using namespace bantam;

TEST_CASE("metadata are the keys of the file, whatever the container, and go along with a model") {
  const test::TemporaryFolder folder;
  test::TinyModel tiny;
  tiny.make();
  tiny.config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  tiny.config["some_list"] = {1, 2};
  tiny.config["nothing"] = nullptr;
  tiny.write_folder(folder / "folder");
  tiny.more_keys = [](test::GgufBuilder& b) { b.key("general.name", "tiny"); };
  tiny.write_gguf(folder / "file.gguf");

  const Model hf = Model::load(folder / "folder");
  const Metadata& of_folder = hf.checkpoint().metadata();
  CHECK(of_folder.at("hidden_size") == "36");
  CHECK(of_folder.at("model_type") == "llama");
  CHECK(of_folder.at("rope_scaling.rope_type") == "linear");
  CHECK(of_folder.at("rope_scaling.factor") == "2.0");
  CHECK(!of_folder.contains("some_list"));
  CHECK(!of_folder.contains("nothing"));

  const Metadata of_gguf = Model::load(folder / "file.gguf").checkpoint().metadata();
  CHECK(of_gguf.at("general.architecture") == "llama");
  CHECK(of_gguf.at("general.name") == "tiny");
  CHECK(of_gguf.at("llama.embedding_length") == "36");
  CHECK(!of_gguf.contains("tokenizer.ggml.tokens"));

  hf.save(folder / "native.bantam");
  CHECK(Model::load(folder / "native.bantam").checkpoint().metadata().at("hidden_size") == "36");
  CHECK(compress(hf, recipe::rtn("i8")).first.checkpoint().metadata() == of_folder);
}

TEST_CASE("keys that repeat a long name above them, and too many of them, are left out") {
  const test::TemporaryFolder folder;
  test::TinyModel tiny;
  tiny.make();
  Json members = Json::object();
  for (int i = 0; i < 20'000; ++i) members[std::to_string(i)] = i;
  tiny.config["few"] = {{"kept", 1}};
  tiny.config["many"] = members;
  // As text: 100 kB and 200 kB. As keys: 2 GB.
  tiny.config[std::string(100'000, 'x')] = std::move(members);
  tiny.write_folder(folder / "folder");
  const Model model = Model::load(folder / "folder");
  const Metadata& metadata = model.checkpoint().metadata();
  CHECK(metadata.size() == 10'000);
  CHECK(metadata.at("few.kept") == "1");
  CHECK(metadata.at("hidden_size") == "36");
  std::size_t bytes = 0;
  for (const auto& [key, value] : metadata) bytes += key.size() + value.size();
  CHECK(bytes < 1'000'000);
}

TEST_CASE("loading tells how far it is, and stops when asked to") {
  const std::filesystem::path demo = std::filesystem::path(BANTAM_SOURCE_DIR) / "models/books4m";
  for (const WeightMemory memory : {WeightMemory::mapped, WeightMemory::huge_pages}) {
    std::vector<std::int64_t> seen;
    std::int64_t last = 0;
    const Model model = Model::load(demo, {.memory = memory, .progress = [&](std::int64_t done, std::int64_t total) {
                                             seen.push_back(done);
                                             last = total;
                                             return true;
                                           }});
    CHECK(std::ranges::is_sorted(seen));
    CHECK(seen.size() > model.tensors().size());
    CHECK(seen.front() == 0);
    CHECK(seen.back() == last);
    CHECK(last > 8'000'000);
    int calls = 0;
    CHECK(test::error_of([&] { (void)Model::load(demo, {.memory = memory, .progress = [&](std::int64_t, std::int64_t) { return ++calls < 5; }}); }) == "cancelled");
    CHECK(calls == 5);
  }
}
