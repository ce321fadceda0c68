// {"bantam_chat":1,"model":...,"settings":{...},"messages":[{"role":...,"content":...},...]}
#include "chat_file.hpp"

#include <sys/stat.h>

#include <cmath>

#include "bantam/io/file.hpp"
#include "io/json.hpp"

namespace bantam::cli {

namespace {

constexpr std::string_view version_key = "bantam_chat";
// More text than any context holds.
constexpr std::size_t largest_chat = 64 << 20;

struct Setting {
  const char* name;
  float Sampling::*value;
};
constexpr Setting numbers[] = {{"temperature", &Sampling::temperature},
                               {"top_p", &Sampling::top_p},
                               {"min_p", &Sampling::min_p},
                               {"typical", &Sampling::typical_p},
                               {"repeat_penalty", &Sampling::repeat_penalty},
                               {"frequency_penalty", &Sampling::frequency_penalty},
                               {"presence_penalty", &Sampling::presence_penalty}};
constexpr std::pair<const char*, int Sampling::*> counts[] = {{"top_k", &Sampling::top_k}, {"repeat_last_n", &Sampling::repeat_last_n}};

bool exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

}  // namespace

void save_chat(const std::string& path, const SavedChat& chat) {
  if (exists(path)) {
    const auto is_chat = [&] {
      try {
        return Json::parse_or_null(read_text_file(path, largest_chat)).contains(version_key);
      } catch (const Error&) {
        return false;
      }
    };
    if (!is_chat()) fail(Errc::invalid_argument, printable(path, 400), ": expected a new name or a saved chat, found something else");
  }
  const Sampling& sampling = chat.generate.sampling;
  Json settings = Json::object();
  for (const Setting& setting : numbers) settings[setting.name] = static_cast<double>(sampling.*setting.value);
  for (const auto& [name, value] : counts) settings[name] = sampling.*value;
  settings["seed"] = sampling.seed;
  settings["max_tokens"] = chat.generate.max_tokens;
  settings["stop"] = chat.generate.stop;
  Json json = {{std::string(version_key), 1}, {"model", chat.model}, {"settings", std::move(settings)}, {"messages", Json::array()}};
  for (const ChatMessage& message : chat.messages) json["messages"].push_back({{"role", message.role}, {"content", message.content}});
  write_file(path, json.dump({.indent = 1, .replace_invalid = true}) + "\n");
}

SavedChat load_chat(const std::string& path, const GenerateOptions& defaults) {
  const std::string place = printable(path, 400);
  const Json json = Json::parse(read_text_file(path, largest_chat), place);
  const auto wrong = [&](std::string_view what) { fail(Errc::corrupt, place, ": expected ", what, ", as /save writes it"); };
  const Json* const version = json.find(version_key);
  if (version == nullptr) wrong("a saved chat");
  if (!version->is_number_unsigned() || version->get<std::uint64_t>() != 1) wrong("bantam_chat 1");
  SavedChat chat{.model = {}, .messages = {}, .generate = defaults};
  try {
    if (const Json* model = json.find("model")) chat.model = model->string();
    for (const Json& message : json.at("messages")) chat.messages.push_back({std::string(message.at("role").string()), std::string(message.at("content").string())});
    const Json* const settings = json.find("settings");
    if (settings == nullptr) return chat;
    Sampling& sampling = chat.generate.sampling;
    for (const Setting& setting : numbers) {
      if (const Json* value = settings->find(setting.name)) sampling.*setting.value = value->get<float>();
    }
    for (const auto& [name, value] : counts) {
      if (const Json* found = settings->find(name)) sampling.*value = found->get<int>();
    }
    if (const Json* seed = settings->find("seed")) sampling.seed = seed->get<std::uint64_t>();
    if (const Json* most = settings->find("max_tokens")) chat.generate.max_tokens = most->get<std::int64_t>();
    if (const Json* stop = settings->find("stop")) chat.generate.stop = stop->get<std::vector<std::string>>();
    Sampling plain = sampling;
    plain.logit_bias.clear();  // not from the file
    const Sampler checked(plain, 1);
  } catch (const Error& error) {
    fail(Errc::corrupt, place, ": ", error.what());
  }
  if (chat.generate.max_tokens < -1) wrong("max_tokens of at least -1");
  for (const std::string& stop : chat.generate.stop) {
    if (stop.empty()) wrong("stop texts of at least one character");
  }
  return chat;
}

}  // namespace bantam::cli
