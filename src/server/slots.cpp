// POST /slots/ID?action=save|restore|erase, as llama.cpp's server has it: what is kept of a text, in a file and back.
#include <algorithm>
#include <charconv>

#include "bantam/core/stopwatch.hpp"
#include "bantam/io/file.hpp"
#include "server/app.hpp"

namespace bantam::server {

namespace {

int slot_of(std::string_view path, int slots) {
  const std::string_view digits = path.substr(std::string_view("/slots/").size());
  int id = -1;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  if (code != std::errc() || end != digits.data() + digits.size() || id < 0 || id >= slots)
    throw bad_request(message("slot: expected 0 to ", slots - 1, ", found ", printable(digits)), "id_slot");
  return id;
}

/// A name of a file in the folder, and no way out of it.
std::string file_name_of(const Fields& fields) {
  const std::string name = fields.text("filename").value_or("");
  constexpr std::size_t longest = 200;
  const bool is_bad = std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '/' || c == '\\' || c == ':' || c == 127; });
  if (name.empty() || name.size() > longest || name.front() == '.' || is_bad)
    throw bad_request(message("filename: expected a name of up to ", longest, " bytes, no path, found ", printable(name)), "filename");
  return name;
}

class SlotFile {
 public:
  SlotFile(const App& app, const Fields& fields) : name_(file_name_of(fields)), path_(std::filesystem::path(app.options.slot_folder) / name_) {
    if (app.options.slot_folder.empty())
      throw ApiError(501, "not_supported_error", "this server was started without --slot-save-path, and saves and restores nothing");
  }

  struct Saved {
    std::int64_t tokens = 0;  ///< 0: nothing is kept, and nothing was written
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] Saved save(Scheduler& scheduler, int slot) const {
    Saved saved;
    speak_of_name([&] {
      AtomicFile file(path_);
      saved.tokens = scheduler.save_text(slot, [&](std::span<const std::byte> piece) { file.write(piece); });
      saved.bytes = file.size();
      if (saved.tokens > 0) file.commit();
    });
    return saved;
  }
  [[nodiscard]] Session restore(const App& app) const {
    const SchedulerOptions& texts = app.options.scheduler;
    std::optional<Session> text;
    speak_of_name([&] { text.emplace(Session::restore(app.engine, path_, {.context = texts.context, .adapters = app.adapters.now(), .memory = texts.memory})); });
    return std::move(*text);
  }
  [[nodiscard]] std::uint64_t size_bytes() const {
    std::error_code gone;
    const std::uintmax_t size = std::filesystem::file_size(path_, gone);
    return gone ? 0 : size;
  }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  /// Where files lie is no client's business.
  template <class Work>
  void speak_of_name(const Work& work) const {
    try {
      work();
    } catch (const Error& error) {
      if (error.code() == Errc::not_found) throw bad_request(message("filename: expected a saved slot, found no ", printable(name_)), "filename");
      if (error.code() == Errc::io) throw ApiError(500, "server_error", message(printable(name_), ": could not be read or written"));
      throw Error(error.code(), line_without(error.what(), path_));
    }
  }

  std::string name_;
  std::filesystem::path path_;
};

}  // namespace

void change_slot(App& app, const std::shared_ptr<Exchange>& exchange) {
  const HttpRequest& request = exchange->request();
  const int slot = slot_of(request.path, app.options.scheduler.parallel);
  Json json = Json::object();
  json["id_slot"] = slot;
  const std::string action = request.parameter("action").value_or("");
  if (action == "erase") {
    json["n_erased"] = app.scheduler.forget_text(slot);
    return app.answer(*exchange, json);
  }
  if (action != "save" && action != "restore")
    throw bad_request(message("action: expected save, restore or erase, found ", printable(request.query)), "action");
  const Json body = parse_body(request);
  const SlotFile file(app, Fields(body));
  json["filename"] = file.name();
  const Stopwatch watch;
  Json timings = Json::object();
  if (action == "save") {
    const SlotFile::Saved saved = file.save(app.scheduler, slot);
    if (saved.tokens == 0) throw bad_request(message("slot ", slot, ": expected a text that ended there, found none"), "id_slot");
    json["n_saved"] = saved.tokens;
    json["n_written"] = saved.bytes;
    timings["save_ms"] = 1000 * watch.seconds();
  } else {
    Session text = file.restore(app);
    json["n_restored"] = text.tokens().size();
    json["n_read"] = file.size_bytes();
    app.scheduler.keep_text(slot, std::move(text));
    timings["restore_ms"] = 1000 * watch.seconds();
  }
  json["timings"] = std::move(timings);
  app.answer(*exchange, json);
}

}  // namespace bantam::server
