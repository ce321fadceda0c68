// Paths that lead to no file, and files that change under the reader.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>

#include "bantam/model/model.hpp"
#include "bantam/session/session.hpp"
#include "io/gguf_parse.hpp"
#include "io/safetensors_header.hpp"
#include "tiny_model.hpp"

namespace bantam::test {
namespace {

/// Names of things that are no files, in a folder.
std::vector<std::string> make_odd_things(const TemporaryFolder& folder) {
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  REQUIRE(::mkfifo((folder / "pipe.gguf").c_str(), 0600) == 0);
  REQUIRE(::mkfifo((folder / "pipe.bantam").c_str(), 0600) == 0);
  std::filesystem::create_symlink("loop", folder / "loop");
  std::filesystem::create_symlink("/dev/zero", folder / "device");
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder / "socket").c_str(), sizeof address.sun_path - 1);
  REQUIRE(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  ::close(socket);
  return {"pipe", "pipe.gguf", "pipe.bantam", "loop", "device", "socket"};
}

TEST_CASE("pipes, devices, sockets and links to themselves are refused as models, vocabularies and sessions, at once") {
  const TemporaryFolder folder;
  const TinyModel tiny = TinyModel{}.make();
  tiny.write_folder(folder / "hf");
  const Model model = Model::load(folder / "hf");
  for (const std::string& name : make_odd_things(folder)) {
    CAPTURE(name);
    const auto path = folder / name;
    for (const std::string& error : {error_of([&] { (void)Checkpoint::open(path); }), error_of([&] { (void)open_tokenizer(path); }),
                                     error_of([&] { (void)Session::restore(model, path); })}) {
      CHECK(error.find(name) != std::string::npos);
    }
  }
  CHECK(error_of([&] { (void)Session::restore(model, folder.path()); }).find("found a folder") != std::string::npos);
}

TEST_CASE("a model folder whose files are pipes or links to themselves is refused") {
  const TinyModel tiny = TinyModel{}.make();
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    for (const bool pipe : {true, false}) {
      CAPTURE(name);
      const TemporaryFolder folder;
      tiny.write_folder(folder / "hf");
      const std::filesystem::path path = folder / "hf" / name;
      std::filesystem::remove(path);
      if (pipe) {
        REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
      } else {
        std::filesystem::create_symlink(name, path);
      }
      CHECK(error_of([&] { (void)Checkpoint::open(folder / "hf"); }).find(name) != std::string::npos);
    }
  }
}

TEST_CASE("a model goes on when its file is cut short after it was loaded") {
  const TemporaryFolder folder;
  const TinyModel tiny = TinyModel{}.make();
  tiny.write_folder(folder / "hf");
  Model::load(folder / "hf").save(folder / "m.bantam");
  const std::vector<float> expected = logits_of(Model::load(folder / "m.bantam"), some_tokens());
  const Model model = Model::load(folder / "m.bantam");
  std::filesystem::resize_file(folder / "m.bantam", 0);
  CHECK(logits_of(model, some_tokens()) == expected);
}

TEST_CASE("a file that is cut short between opening and loading is an error, not the end of the process") {
  const TemporaryFolder folder;
  const TinyModel tiny = TinyModel{}.make();
  tiny.write_folder(folder / "hf");
  Model::load(folder / "hf").save(folder / "m.bantam");
  for (const auto& [opened, file] : {std::pair{folder / "hf", folder / "hf" / "model.safetensors"}, std::pair{folder / "m.bantam", folder / "m.bantam"}}) {
    const Checkpoint checkpoint = Checkpoint::open(opened);
    std::filesystem::resize_file(file, 16);
    has(error_of([&] { (void)Model::from_checkpoint(checkpoint); }), "the file ends there now");
  }
}

TEST_CASE("so is one that is cut short while its header or its rows are read") {
  const TemporaryFolder folder;
  TinyModel tiny = TinyModel{}.make();
  tiny.write_folder(folder / "hf");
  write_file(folder / "m.gguf", tiny.gguf().bytes());
  const auto cut_open = [](const std::filesystem::path& path) {
    const auto file = MappedFile::open(path);
    std::filesystem::resize_file(path, 16);
    return file;
  };
  const Checkpoint checkpoint = Checkpoint::open(folder / "hf"), gguf = Checkpoint::open(folder / "m.gguf");
  has(error_of([&] { (void)detail::parse_safetensors(cut_open(folder / "hf" / "model.safetensors")); }), "the file ends there now");
  has(error_of([&] { (void)detail::parse_gguf(cut_open(folder / "m.gguf")); }), "the file ends there now");
  for (const Checkpoint* each : {&checkpoint, &gguf}) {
    RowCodes scratch;
    const CheckpointTensor& tensor = each->tensors()[0];
    std::vector<float> row(static_cast<std::size_t>(tensor.columns));
    has(error_of([&] { each->read_row(tensor, 0, row, scratch); }), "the file ends there now");
  }
}

}  // namespace
}  // namespace bantam::test
