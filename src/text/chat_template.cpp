// Chat templates: a parsed template, and the variables that a conversation gives it.
#include "bantam/text/chat_template.hpp"

#include <new>

#include "bantam/text/tokenizer.hpp"
#include "text/jinja/json.hpp"
#include "text/jinja/nodes.hpp"
#include "text/jinja/parser.hpp"

namespace bantam::inline v0 {

struct ChatTemplate::Data {
  std::string place;
  jinja::Body body;
};

namespace {

/// Runs f; what the standard library throws becomes an Error.
template <class F>
auto guarded(const std::string& place, F&& f) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    fail(Errc::out_of_memory, place, ": out of memory");
  } catch (const std::exception& error) {
    fail(Errc::corrupt, place, ": ", printable(error.what()));
  }
}

std::string run_template(const ChatTemplate::Data& data, jinja::DictPtr context, std::optional<std::chrono::sys_seconds> now) {
  jinja::Run run(data.place, std::move(context), now);
  const jinja::NewScope scope(run);
  jinja::Capture output(run);
  (void)jinja::execute(run, data.body);
  return std::move(output.text);
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, std::string_view place) {
  const std::string name = printable(place);
  data_ = guarded(name, [&] {
    auto data = std::make_shared<Data>();
    data->place = name;
    data->body = jinja::parse(source, data->place);
    return data;
  });
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages, const ChatOptions& options) const {
  return guarded(data_->place, [&] {
    // Counts what the conversation takes by itself: the template has its own budget.
    jinja::Run run(data_->place, std::make_shared<const jinja::Dict>(), {});
    std::vector<jinja::Value> list;
    list.reserve(messages.size());
    for (const ChatMessage& message : messages) {
      jinja::DictBuilder one(run);
      one.set(run.text("role"), run.text(message.role));
      one.set(run.text("content"), run.text(message.content));
      list.push_back(one.take());
    }
    jinja::DictBuilder context(run);
    context.set(run.text("messages"), run.list(std::move(list)));
    context.set(run.text("add_generation_prompt"), options.add_generation_prompt);
    // What transformers gives templates where there is none: they tell it from a variable that is missing.
    context.set(run.text("tools"), jinja::None());
    context.set(run.text("documents"), jinja::None());
    context.set(run.text("bos_token"), run.text(options.bos_token));
    context.set(run.text("eos_token"), run.text(options.eos_token));
    return run_template(*data_, context.take().as<jinja::DictPtr>(), options.now);
  });
}

std::string ChatTemplate::render_json(std::string_view context_json, std::optional<std::chrono::sys_seconds> now) const {
  return guarded(data_->place, [&] {
    const std::string place = data_->place + ": context";
    const jinja::Value context = jinja::parse_json(context_json, place);
    if (!context.is_dict()) fail(Errc::invalid_argument, place, ": expected a JSON object, found a ", context.type());
    return run_template(*data_, context.as<jinja::DictPtr>(), now);
  });
}

std::string chat_prompt(const Tokenizer& tokenizer, std::span<const ChatMessage> messages, bool add_generation_prompt) {
  if (tokenizer.chat_template().empty()) {
    fail(Errc::unsupported, "chat: expected a model with a chat template, this one has none: use a plain prompt");
  }
  ChatOptions options{.add_generation_prompt = add_generation_prompt};
  if (tokenizer.bos() >= 0) options.bos_token = tokenizer.piece(tokenizer.bos());
  if (tokenizer.eos() >= 0) options.eos_token = tokenizer.piece(tokenizer.eos());
  return ChatTemplate(tokenizer.chat_template()).render(messages, options);
}

}  // namespace bantam::inline v0
