// Models by their content, whatever they are called, and by their names on the hub.
#include "bantam/model/locate.hpp"

#include <sys/stat.h>

#include <cstdlib>

#include "tiny_model.hpp"

namespace bantam::test {
namespace {

namespace fs = std::filesystem;

/// Sets an environment variable for a scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* const before = std::getenv(name);
    if (before != nullptr) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// A cache with one model, laid out as huggingface_hub does: files are links to blobs.
void make_cache(const fs::path& cache, const std::string& model, const std::string& revision, bool with_reference = true) {
  const fs::path home = cache / ("models--" + model);
  fs::create_directories(home / "blobs");
  fs::create_directories(home / "refs");
  fs::create_directories(home / "snapshots" / revision);
  TinyModel tiny;
  tiny.make().write_folder(home / "blobs");
  for (const auto& entry : fs::directory_iterator(home / "blobs"))
    fs::create_symlink(fs::path("../../blobs") / entry.path().filename(), home / "snapshots" / revision / entry.path().filename());
  if (with_reference) write_file(home / "refs" / "main", revision + "\n");
}

TEST_CASE("files are told by their content whatever they are called") {
  const TemporaryFolder folder;
  TinyModel tiny;
  tiny.make().write_folder(folder / "hf");
  tiny.write_gguf(folder / "a.bin");
  compress_file(Checkpoint::open(folder / "hf"), folder / "b", recipe::rtn("i4"));
  CHECK(kind_of(folder / "hf") == FileKind::folder);
  CHECK(kind_of(folder / "a.bin") == FileKind::gguf);
  CHECK(kind_of(folder / "b") == FileKind::native);
  CHECK(kind_of(folder / "hf" / "model.safetensors") == FileKind::safetensors);
  CHECK(kind_of(folder / "hf" / "tokenizer.json") == FileKind::tokenizer);
  for (const char* name : {"b.gguf", "b.safetensors", "b.bantam", "b.txt"}) {
    fs::copy_file(folder / "b", folder / name);
    CHECK_MESSAGE(Checkpoint::open(folder / name).container() == "bantam", std::string(name));
    CHECK(open_tokenizer(folder / name).vocab_size() == 30);
  }
  for (const char* name : {"a.bantam", "a.safetensors", "a"}) {
    fs::copy_file(folder / "a.bin", folder / name);
    CHECK_MESSAGE(Checkpoint::open(folder / name).container() == "gguf", std::string(name));
  }
  fs::copy_file(folder / "hf" / "model.safetensors", folder / "plain.gguf");
  has(error_of([&] { (void)Checkpoint::open(folder / "plain.gguf"); }), "found plain safetensors");
  write_file(folder / "broken.gguf", "no such thing");
  has(error_of([&] { (void)Checkpoint::open(folder / "broken.gguf"); }), "broken.gguf: ");
}

TEST_CASE("pipes and links that lead round in circles are refused at once") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe.gguf").c_str(), 0600) == 0);
  has(error_of([&] { (void)Checkpoint::open(folder / "pipe.gguf"); }), "found a device or pipe");
  has(error_of([&] { (void)open_tokenizer(folder / "pipe.gguf"); }), "found a device or pipe");
  fs::create_symlink(folder / "circle", folder / "circle");
  has(error_of([&] { (void)Checkpoint::open(folder / "circle"); }), "circle: cannot open");
}

TEST_CASE("a folder without a model says what it holds instead") {
  const TemporaryFolder folder;
  const auto error = [&] { return error_of([&] { (void)Checkpoint::open(folder.path()); }); };
  has(error(), "found an empty folder");
  write_file(folder / "notes.txt", "");
  has(error(), "found notes.txt");
  TinyModel tiny;
  tiny.make().write_folder(folder / "small");
  has(error(), "found folders of models: give one of small");
  fs::create_directory(folder / "native");
  compress_file(Checkpoint::open(folder / "small"), folder / "native" / "a.bantam", recipe::rtn("i4"));
  CHECK(find_model(folder / "native") == folder / "native" / "a.bantam");
  tiny.write_gguf(folder / "one.gguf");
  CHECK(find_model(folder.path()) == folder / "one.gguf");
  CHECK(Checkpoint::open(folder.path()).container() == "gguf");
  tiny.write_gguf(folder / "two.gguf");
  has(error(), "found several files: give one of one.gguf, two.gguf");
  has(error_of([&] { (void)find_model(folder / "on.gguf"); }), "found nothing; did you mean one.gguf?");
}

TEST_CASE("names of the hub are looked up in its local cache") {
  const TemporaryFolder cache;
  const Variable where("HF_HUB_CACHE", cache.path().string());
  make_cache(cache.path(), "Some--Model-1.5B", "0123abcd");
  CHECK(find_model("Some/Model-1.5B") == cache.path() / "models--Some--Model-1.5B" / "snapshots" / "0123abcd");
  CHECK(find_model("Some/Model-1.5B@0123abcd") == find_model("Some/Model-1.5B"));
  CHECK(Checkpoint::open("Some/Model-1.5B").config().layers == 2);
  CHECK(open_tokenizer("Some/Model-1.5B").vocab_size() == 30);
  make_cache(cache.path(), "Other--Model", "77", false);
  CHECK(find_model("Other/Model").filename() == "77");
  has(error_of([] { (void)find_model("Some/Model-1.5B@v2"); }), "`hf download Some/Model-1.5B`");
  const std::string absent = error_of([] { (void)Checkpoint::open("Nobody/Nothing"); });
  has(absent, cache.path().string());
  has(absent, "`hf download Nobody/Nothing`");
}

TEST_CASE("of several files in the hub's cache a tag chooses, as llama.cpp's -hf has it") {
  const TemporaryFolder cache;
  const Variable where("HF_HUB_CACHE", cache.path().string());
  const fs::path snapshot = cache.path() / "models--Some--GGUF" / "snapshots" / "77";
  fs::create_directories(snapshot / "UD-Q4_K_XL");
  TinyModel tiny;
  tiny.make();
  for (const char* name : {"m-Q4_K_M.gguf", "m-Q4_K.gguf", "m.Q8_0.gguf", "mmproj-Q8_0.gguf", "UD-Q4_K_XL/m-UD-Q4_K_XL-00001-of-00002.gguf", "UD-Q4_K_XL/m-UD-Q4_K_XL-00002-of-00002.gguf"})
    tiny.write_gguf(snapshot / name);
  CHECK(find_model("Some/GGUF:Q4_K_M") == snapshot / "m-Q4_K_M.gguf");
  CHECK(find_model("Some/GGUF:q4_k") == snapshot / "m-Q4_K.gguf");
  CHECK(find_model("Some/GGUF@77:q8_0") == snapshot / "m.Q8_0.gguf");
  CHECK(find_model("Some/GGUF:Q4_K_XL").filename() == "m-UD-Q4_K_XL-00001-of-00002.gguf");
  has(error_of([] { (void)find_model("Some/GGUF:Q5_0"); }), "expected one file with Q5_0 in its name, found m-UD-Q4_K_XL-00001-of-00002.gguf, m-Q4_K.gguf, m-Q4_K_M.gguf, m.Q8_0.gguf");
  has(error_of([] { (void)find_model("Some/GGUF:gguf"); }), "expected one file with gguf in its name, found");
  has(error_of([] { (void)find_model("Some/GGUF:../77"); }), "found nothing");
  has(error_of([] { (void)find_model("Some/GGUF"); }), "found several files");
}

TEST_CASE("of a model in parts the first is the model") {
  const TemporaryFolder folder;
  for (const char* name : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf", "mmproj-m.gguf"}) write_file(folder / name, "");
  CHECK(find_model(folder.path()) == folder / "m-00001-of-00003.gguf");
  write_file(folder / "the-first-of-them.gguf", "");
  has(error_of([&] { (void)find_model(folder.path()); }), "give one of m-00001-of-00003.gguf, the-first-of-them.gguf");
}

TEST_CASE("neither names nor references lead out of the hub's cache") {
  const TemporaryFolder cache;
  const Variable where("HF_HUB_CACHE", (cache / "hub").string());
  make_cache(cache / "hub", "A--B", "77");
  TinyModel tiny;
  tiny.make().write_folder(cache / "outside");
  write_file(cache / "secret", "word");
  for (const std::string& name : std::initializer_list<std::string>{"../A/B", "A/..", "A/B@../../../../outside", "A/B@/etc", "A/B@" + (cache / "secret").string(), "/A/B", "A/B/C", "A/", "/", ""}) {
    CAPTURE(name);
    const std::string error = error_of([&] { (void)find_model(name); });
    CHECK(error.find("hf download") == std::string::npos);
    CHECK(error.find("word") == std::string::npos);
  }
  write_file(cache / "hub" / "models--A--B" / "refs" / "main", "../../../outside");
  has(error_of([] { (void)find_model("A/B"); }), "expected a revision");
}

}  // namespace
}  // namespace bantam::test
