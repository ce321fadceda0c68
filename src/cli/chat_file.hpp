// Conversations as files, for /save and /load.
#pragma once

#include <string>
#include <vector>

#include "bantam/session/session.hpp"

namespace bantam::cli {

struct SavedChat {
  std::string model;  ///< as the command line named it
  std::vector<ChatMessage> messages;
  GenerateOptions generate;  ///< sampling, max_tokens and stop of it are kept
};

/// Writes a chat, complete or not at all. Throws invalid_argument for a name that belongs to something else already, and io.
void save_chat(const std::string& path, const SavedChat& chat);
/// Reads one; what the file does not say of `defaults` stays. Throws not_found, io, corrupt naming file and place.
[[nodiscard]] SavedChat load_chat(const std::string& path, const GenerateOptions& defaults);

}  // namespace bantam::cli
