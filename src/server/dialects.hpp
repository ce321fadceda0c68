// What translations of other APIs into OpenAI's chats have in common.
#pragma once

#include "server/chat.hpp"

namespace bantam::server {

/// A request of Anthropic's /v1/messages as a chat. Members that mean the same in both are left as they are. Throws ApiError.
[[nodiscard]] Json chat_of_messages(const Json& body);

/// The items that a request of /v1/responses asks about; a text is one.
[[nodiscard]] Json response_input(const Fields& fields);
/// Items as messages of a chat.
[[nodiscard]] Json messages_of_items(const Json& items);
/// A request of /v1/responses as a chat of these messages.
[[nodiscard]] Json chat_of_response(const Json& body, Json messages);

/// A request of Ollama's /api/chat, which has messages, as a chat; and one of /api/generate with its prompt, which the template puts into a turn of the
/// user's. Throw ApiError.
[[nodiscard]] Json chat_of_ollama(const Json& body);
[[nodiscard]] Json chat_of_ollama_prompt(const Json& body, const std::string& prompt);

/// The members of an object but for some.
[[nodiscard]] Json others_of(const Json& object, std::initializer_list<std::string_view> names);
/// A text that must be there.
[[nodiscard]] std::string needed_text(const Fields& fields, std::string_view name);
/// A tool from the members `name`, `description`, `strict`, and its parameters under a name of the API's own.
[[nodiscard]] Json function_tool(const Fields& tool, std::string_view parameters);
/// That one of the tools must be called.
[[nodiscard]] Json named_choice(const std::string& name);
/// response_format from {"type", "name", "schema", "strict"}.
[[nodiscard]] Json format_of(const Fields& format);
/// Sets a variable of the template that the request itself says nothing of.
void set_kwarg(Json& chat, std::string_view name, Json value);
/// Throws ApiError for more than one text, which APIs of one reply have no place for.
void check_single(const Asked& asked);

}  // namespace bantam::server
