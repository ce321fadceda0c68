// Calls in languages of their own, read once they are whole.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bantam/text/reply.hpp"
#include "text/reply/values.hpp"

namespace bantam::inline v0::reply {

/// Takes the calls of a block.
class CallSink {
 public:
  std::vector<ToolCall> calls;
};

/// call:f{k:1,s:<|"|>text<|"|>,o:{x:[true]}}
[[nodiscard]] bool read_gemma4(std::string_view block, const Tools& tools, CallSink& sink);
/// [f(k=1, s="text"), g()]
[[nodiscard]] bool read_pythonic(std::string_view block, const Tools& tools, CallSink& sink);
/// N<invoke name="f">N<k>1N</k>N</invoke>, where N is ]<]minimax[>[; elements nest for objects, and are called item in arrays
[[nodiscard]] bool read_minimax_m3(std::string_view block, const Tools& tools, CallSink& sink);

/// Whether a text may be the name of a tool.
[[nodiscard]] bool is_name(std::string_view text);

}  // namespace bantam::inline v0::reply
