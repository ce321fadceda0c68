// The table of forms. A new family of models is a row here, and a template in the test's folder.
#include "text/reply/forms.hpp"

#include "text/reply/blocks.hpp"

namespace bantam::inline v0::reply {

namespace {

using enum Op;

constexpr Step json_program[] = {{calls}, {leave}};

// <tool_call>{"name": "f", "arguments": {"k": 1}}</tool_call>
constexpr Sign hermes_signs[] = {{"<tool_call>"}, {"<think>"}};
constexpr Begin hermes_begins[] = {{"<tool_call>"}};
constexpr Step hermes_program[] = {{calls}, {space}, {optional, "</tool_call>"}, {leave}};
constexpr std::string_view chatml_ends[] = {"<|im_end|>", "<|end_of_text|>", "<|endoftext|>"};
constexpr Sign ernie_signs[] = {{"<tool_call>", "<response>"}};
constexpr std::string_view ernie_ends[] = {"<response>", "</response>", "<|im_end|>"};

// <tool_call><function=f><parameter=k>\n1\n</parameter></function></tool_call>
constexpr Sign qwen_xml_signs[] = {{"<tool_call>", "<parameter="}};
constexpr Begin qwen_xml_begins[] = {{"<tool_call>", 0}, {"<function=", 2}};
constexpr Step qwen_xml_program[] = {
    {space}, {literal, "<function="},                                               // 0
    {name, ">"}, {literal, ">"}, {open}, {space},                                   // 2
    {when, "</function>", 11}, {literal, "<parameter="}, {key, ">"},                // 6
    {value, "</parameter>"}, {jump, {}, 5},                                         // 9
    {close}, {space}, {optional, "</tool_call>"}, {leave},                          // 11
};
constexpr Sign seed_signs[] = {{"<seed:tool_call>"}};
constexpr Begin seed_begins[] = {{"<seed:tool_call>", 0}, {"<function=", 2}};
constexpr Step seed_program[] = {
    {space}, {literal, "<function="}, {name, ">"}, {literal, ">"}, {open}, {space},
    {when, "</function>", 11}, {literal, "<parameter="}, {key, ">"}, {value, "</parameter>"}, {jump, {}, 5},
    {close}, {space}, {optional, "</seed:tool_call>"}, {leave},
};
constexpr std::string_view seed_ends[] = {"<seed:eos>"};

// <tool_call>f<arg_key>k</arg_key><arg_value>1</arg_value></tool_call>
constexpr Sign glm_signs[] = {{"<arg_key>"}};
constexpr Begin glm_begins[] = {{"<tool_call>"}};
constexpr Step glm_program[] = {
    {space}, {name, "<\n"}, {open}, {space}, {when, "</tool_call>", 10},
    {literal, "<arg_key>"}, {key, "</arg_key>"}, {space}, {literal, "<arg_value>"}, {jump, {}, 12},
    {close}, {leave},
    {value, "</arg_value>"}, {jump, {}, 3},
};
constexpr std::string_view glm_ends[] = {"<|user|>", "<|observation|>", "<|endoftext|>", "</assistant>"};

// <｜DSML｜tool_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="k" string="false">1</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜tool_calls>
constexpr Sign dsml_signs[] = {{"｜DSML｜"}};
constexpr Begin dsml_begins[] = {{"<｜DSML｜function_calls>", 0}, {"<｜DSML｜tool_calls>", 0}, {"<｜DSML｜invoke name=\"", 2}};
constexpr Step dsml_program[] = {
    {space}, {literal, "<｜DSML｜invoke name=\""},                                                 // 0
    {name, "\""}, {literal, "\">"}, {open}, {space},                                             // 2
    {when, "</｜DSML｜invoke>", 15}, {literal, "<｜DSML｜parameter name=\""}, {key, "\""},         // 6
    {when, " string=\"true\">", 13}, {when, " string=\"false\">", 17},                           // 9
    {literal, ">"}, {jump, {}, 19},                                                              // 11
    {value_text, "</｜DSML｜parameter>"}, {jump, {}, 5},                                          // 13
    {close}, {leave},                                                                            // 15
    {value_json, "</｜DSML｜parameter>"}, {jump, {}, 5},                                          // 17
    {value, "</｜DSML｜parameter>"}, {jump, {}, 5},                                               // 19
};
constexpr std::string_view dsml_closers[] = {"</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"};
constexpr std::string_view deepseek_ends[] = {"<｜end▁of▁sentence｜>", "<｜Assistant｜>"};

// <minimax:tool_call><invoke name="f"><parameter name="k">1</parameter></invoke></minimax:tool_call>
constexpr Sign minimax_m2_signs[] = {{"<minimax:tool_call>"}};
constexpr Begin minimax_m2_begins[] = {{"<minimax:tool_call>", 0}, {"<invoke name=\"", 2}};
constexpr Step minimax_m2_program[] = {
    {space}, {literal, "<invoke name=\""}, {name, "\""}, {literal, "\">"}, {open}, {space},
    {when, "</invoke>", 11}, {literal, "<parameter name=\""}, {key, "\">"}, {value, "</parameter>"}, {jump, {}, 5},
    {close}, {leave},
};
constexpr std::string_view minimax_m2_closers[] = {"</minimax:tool_call>"};
constexpr std::string_view minimax_ends[] = {"[e~["};

// As XML all the way down, each tag behind a token of its own.
constexpr Sign minimax_m3_signs[] = {{"]<]minimax[>["}};
constexpr Begin minimax_m3_begins[] = {{"]<]minimax[>[<tool_call>"}};
constexpr Step minimax_m3_program[] = {{block, "]<]minimax[>[</tool_call>"}, {leave}};

// <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"k": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>,
// and since V3.1 <｜tool▁call▁begin｜>f<｜tool▁sep｜>{"k": 1}<｜tool▁call▁end｜>
constexpr Sign deepseek_signs[] = {{"<｜tool▁calls▁begin｜>"}};
constexpr Begin deepseek_begins[] = {{"<｜tool▁calls▁begin｜>", 0}, {"<｜tool▁call▁begin｜>", 2}};
constexpr Step deepseek_program[] = {
    {space}, {literal, "<｜tool▁call▁begin｜>"}, {name, "<"}, {literal, "<｜tool▁sep｜>"}, {space}, {peek, "{", 9},
    {name, "\n`"}, {space}, {optional, "```json"},
    {arguments}, {space}, {optional, "```"}, {space}, {optional, "<｜tool▁call▁end｜>"}, {leave},
};
constexpr std::string_view deepseek_closers[] = {"<｜tool▁calls▁end｜>"};

// <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"k": 1}<|tool_call_end|><|tool_calls_section_end|>
constexpr Sign kimi_signs[] = {{"<|tool_calls_section_begin|>"}};
constexpr Begin kimi_begins[] = {{"<|tool_calls_section_begin|>", 0}, {"<|tool_call_begin|>", 2}};
constexpr Step kimi_program[] = {
    {space}, {literal, "<|tool_call_begin|>"}, {space}, {name, "<\n "}, {space}, {literal, "<|tool_call_argument_begin|>"},
    {arguments}, {space}, {optional, "<|tool_call_end|>"}, {leave},
};
constexpr std::string_view kimi_closers[] = {"<|tool_calls_section_end|>"};

// <|tool_calls|><|tool_call:begin|>ID<|tool_call:name|>f<|tool_call:args|>{"k": 1}<|tool_call:end|><|calls|>
constexpr Sign solar_signs[] = {{"<|tool_call:begin|>"}};
constexpr Begin solar_begins[] = {{"<|tool_calls|>", 0}, {"<|tool_call:begin|>", 2}};
constexpr Step solar_program[] = {
    {space}, {literal, "<|tool_call:begin|>"}, {id, "<"}, {literal, "<|tool_call:name|>"}, {name, "<"}, {literal, "<|tool_call:args|>"},
    {arguments}, {space}, {optional, "<|tool_call:end|>"}, {leave},
};
constexpr std::string_view solar_ends[] = {"<|calls|>", "<|end|>", "<|content|>", "<|begin|>assistant"};

// [TOOL_CALLS]f[ARGS]{"k": 1}, and before that [TOOL_CALLS][{"name": "f", "arguments": {"k": 1}}]
constexpr Sign mistral_signs[] = {{"[TOOL_CALLS]"}};
constexpr Begin mistral_begins[] = {{"[TOOL_CALLS]"}};
constexpr Step mistral_program[] = {
    {space}, {peek, "[{", 11}, {name, "[{ \n"}, {space}, {when, "[CALL_ID]", 7},
    {optional, "[ARGS]"}, {jump, {}, 8}, {id, "["}, {optional, "[ARGS]"}, {arguments}, {leave},
    {calls}, {leave},
};
constexpr std::string_view mistral_ends[] = {"</s>"};

// <function=f>{"k": 1}</function>
constexpr Sign functionary_signs[] = {{"<function=", "</function>"}};
constexpr Begin functionary_begins[] = {{"<function="}};
constexpr Step functionary_program[] = {{name, ">"}, {literal, ">"}, {arguments}, {space}, {optional, "</function>"}, {leave}};
constexpr std::string_view llama_ends[] = {"<|eot_id|>", "<|eom_id|>"};

// <|python_tag|>{"name": "f", "parameters": {"k": 1}}, or only the object
constexpr Sign llama_signs[] = {{"<|start_header_id|>", "\"parameters\": "}, {"<|python_tag|>"}};
constexpr Begin llama_begins[] = {{"<|python_tag|>"}};

// function call<|role_sep|>\n{"name": "f", "arguments": {"k": 1}}
constexpr Sign gigachat_signs[] = {{"<|role_sep|>", "function call"}};
constexpr Begin gigachat_begins[] = {{"<|message_sep|>\n\nfunction call<|role_sep|>\n"}, {"function call<|role_sep|>\n"}};
constexpr std::string_view gigachat_ends[] = {"<|message_sep|>"};

// <tool_calls>[{"name": "f", "arguments": {"k": 1}}]</tool_calls>, a line each, or <tool_call>f\n```json\n{"k": 1}\n```\n</tool_call>
constexpr Sign tool_calls_signs[] = {{"<tool_calls>"}};
constexpr Begin tool_calls_begins[] = {{"<tool_calls>", 0}, {"<tool_call>", 3}};
constexpr Step tool_calls_program[] = {
    {space}, {peek, "[{", 9}, {literal, "<tool_call>"}, {space}, {peek, "{", 9},
    {name, "\n`{"}, {space}, {optional, "```json"}, {jump, {}, 13},
    {calls}, {space}, {optional, "</tool_calls>"}, {leave},
    {arguments}, {space}, {optional, "```"}, {space}, {optional, "</tool_call>"}, {leave},
};
constexpr std::string_view tool_calls_closers[] = {"</tool_calls>", "</tool_call>"};
constexpr std::string_view tool_calls_ends[] = {"<answer>", "</answer>", "<end_of_sentence>"};
constexpr Sign apriel_signs[] = {{"[BEGIN FINAL RESPONSE]"}};
constexpr std::string_view apriel_ends[] = {"[BEGIN FINAL RESPONSE]", "[END FINAL RESPONSE]", "<|end|>"};

// <|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"k": 1}}]<|END_ACTION|>
constexpr Sign command_r7b_signs[] = {{"<|START_ACTION|>"}};
constexpr Begin command_r7b_begins[] = {{"<|START_ACTION|>"}};
constexpr Step command_r7b_program[] = {{calls}, {space}, {optional, "<|END_ACTION|>"}, {leave}};
constexpr std::string_view command_r7b_ends[] = {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>", "<|END_OF_TURN_TOKEN|>"};
// Action:\n```json\n[{"tool_name": "f", "parameters": {"k": 1}}]```
constexpr Sign command_r_signs[] = {{"Action:", "tool_name"}};
constexpr Begin command_r_begins[] = {{"Action:\n```json"}, {"Action: ```json"}};
constexpr Step command_r_program[] = {{calls}, {space}, {optional, "```"}, {leave}};
constexpr std::string_view command_r_ends[] = {"<|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"};

// <|tool_call|>[{"name": "f", "arguments": {"k": 1}}]<|/tool_call|>, or functools[...]
constexpr Sign bar_signs[] = {{"<|/tool_call|>"}, {"functools"}, {"<|tool_call|>"}};
constexpr Begin bar_begins[] = {{"<|tool_call|>"}, {"functools"}};
constexpr Step bar_program[] = {{calls}, {space}, {optional, "<|/tool_call|>"}, {leave}};
constexpr std::string_view bar_ends[] = {"<|end|>", "<|end_of_text|>"};

// <TOOLCALL>[{"name": "f", "arguments": {"k": 1}}]</TOOLCALL>
constexpr Sign toolcall_signs[] = {{"<TOOLCALL>"}};
constexpr Begin toolcall_begins[] = {{"<TOOLCALL>"}};
constexpr Step toolcall_program[] = {{calls}, {space}, {optional, "</TOOLCALL>"}, {leave}};
constexpr std::string_view toolcall_ends[] = {"<SPECIAL_12>"};

// <|tool_call_start|>[f(k=1)]<|tool_call_end|>; LFM2's templates show the tools only
constexpr Sign lfm2_signs[] = {{"<|tool_call_start|>"}, {"<|tool_list_start|>"}, {"List of tools: ", "keep_past_thinking"}, {"<|python_start|>"}};
constexpr Begin lfm2_begins[] = {{"<|tool_call_start|>", 0}, {"<|python_start|>", 2}};
constexpr Step lfm2_program[] = {{block, "<|tool_call_end|>"}, {leave}, {block, "<|python_end|>"}, {leave}};
constexpr std::string_view lfm2_ends[] = {"<|im_end|>", "<|eot|>", "<|eom|>"};

// <|tool_call>call:f{k:1,s:<|"|>text<|"|>}<tool_call|>
constexpr Sign gemma4_signs[] = {{"<|tool_call>"}};
constexpr Begin gemma4_begins[] = {{"<|tool_call>"}};
constexpr Step gemma4_program[] = {{block, "<tool_call|>"}, {leave}};
constexpr std::string_view gemma4_ends[] = {"<turn|>", "<|tool_response>"};

// <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"k": 1}<|call|>
constexpr Sign harmony_signs[] = {{"<|channel|>", "<|message|>"}};
constexpr Step harmony_program[] = {{arguments}, {space}, {optional, "<|call|>"}, {leave}};
constexpr std::string_view harmony_ends[] = {"<|end|>", "<|return|>", "<|call|>"};

// From special to general: the first one whose sign is in a template counts.
constexpr ReplyForm table[] = {
    {.name = "harmony", .signs = harmony_signs, .program = harmony_program, .dropped = harmony_ends, .harmony = true},
    {.name = "gemma4", .signs = gemma4_signs, .think_begin = "<|channel>thought", .think_end = "<channel|>", .begins = gemma4_begins,
     .program = gemma4_program, .dropped = gemma4_ends, .read = read_gemma4, .calls_end_reasoning = true},
    {.name = "minimax-m3", .signs = minimax_m3_signs, .think_begin = "<mm:think>", .think_end = "</mm:think>", .begins = minimax_m3_begins,
     .program = minimax_m3_program, .dropped = minimax_ends, .read = read_minimax_m3},
    {.name = "minimax-m2", .signs = minimax_m2_signs, .think_begin = "<think>", .think_end = "</think>", .begins = minimax_m2_begins,
     .program = minimax_m2_program, .closers = minimax_m2_closers, .dropped = minimax_ends},
    {.name = "deepseek-v3.2", .signs = dsml_signs, .think_begin = "<think>", .think_end = "</think>", .begins = dsml_begins,
     .program = dsml_program, .closers = dsml_closers, .dropped = deepseek_ends, .calls_end_reasoning = true},
    {.name = "deepseek", .signs = deepseek_signs, .think_begin = "<think>", .think_end = "</think>", .begins = deepseek_begins,
     .program = deepseek_program, .closers = deepseek_closers, .dropped = deepseek_ends, .calls_end_reasoning = true},
    {.name = "kimi-k2", .signs = kimi_signs, .think_begin = "<think>", .think_end = "</think>", .begins = kimi_begins, .program = kimi_program,
     .closers = kimi_closers, .dropped = chatml_ends, .numbered_names = true, .calls_end_reasoning = true},
    {.name = "solar-open", .signs = solar_signs, .think_begin = "<|think|>", .think_end = "<|end|>", .begins = solar_begins,
     .program = solar_program, .dropped = solar_ends, .calls_end_reasoning = true},
    {.name = "gigachat", .signs = gigachat_signs, .begins = gigachat_begins, .program = json_program, .dropped = gigachat_ends},
    {.name = "mistral", .signs = mistral_signs, .think_begin = "[THINK]", .think_end = "[/THINK]", .begins = mistral_begins,
     .program = mistral_program, .dropped = mistral_ends, .calls_end_reasoning = true},
    {.name = "seed-oss", .signs = seed_signs, .think_begin = "<seed:think>", .think_end = "</seed:think>", .begins = seed_begins,
     .program = seed_program, .dropped = seed_ends},
    {.name = "qwen-xml", .signs = qwen_xml_signs, .think_begin = "<think>", .think_end = "</think>", .begins = qwen_xml_begins,
     .program = qwen_xml_program, .dropped = chatml_ends, .newline_around_values = true},
    {.name = "glm", .signs = glm_signs, .think_begin = "<think>", .think_end = "</think>", .begins = glm_begins, .program = glm_program,
     .dropped = glm_ends},
    {.name = "apriel", .signs = apriel_signs, .think_begin = "Here are my reasoning steps:", .think_end = "[BEGIN FINAL RESPONSE]",
     .begins = tool_calls_begins, .program = tool_calls_program, .closers = tool_calls_closers, .dropped = apriel_ends},
    {.name = "tool-calls", .signs = tool_calls_signs, .think_begin = "<think>", .think_end = "</think>", .begins = tool_calls_begins,
     .program = tool_calls_program, .closers = tool_calls_closers, .dropped = tool_calls_ends},
    {.name = "command-r7b", .signs = command_r7b_signs, .think_begin = "<|START_THINKING|>", .think_end = "<|END_THINKING|>",
     .begins = command_r7b_begins, .program = command_r7b_program, .dropped = command_r7b_ends, .calls_end_reasoning = true},
    {.name = "command-r", .signs = command_r_signs, .begins = command_r_begins, .program = command_r_program, .dropped = command_r_ends},
    {.name = "phi-4-mini", .signs = bar_signs, .think_begin = "<think>", .think_end = "</think>", .begins = bar_begins, .program = bar_program,
     .dropped = bar_ends},
    {.name = "nemotron-2", .signs = toolcall_signs, .think_begin = "<think>", .think_end = "</think>", .begins = toolcall_begins,
     .program = toolcall_program, .dropped = toolcall_ends},
    {.name = "lfm2", .signs = lfm2_signs, .think_begin = "<think>", .think_end = "</think>", .begins = lfm2_begins, .program = lfm2_program,
     .dropped = lfm2_ends, .read = read_pythonic},
    {.name = "ernie", .signs = ernie_signs, .think_begin = "<think>", .think_end = "</think>", .begins = hermes_begins,
     .program = hermes_program, .dropped = ernie_ends},
    {.name = "functionary", .signs = functionary_signs, .begins = functionary_begins, .program = functionary_program, .dropped = llama_ends},
    {.name = "hermes", .signs = hermes_signs, .think_begin = "<think>", .think_end = "</think>", .begins = hermes_begins,
     .program = hermes_program, .dropped = chatml_ends},
    {.name = "llama-3", .signs = llama_signs, .begins = llama_begins, .program = json_program, .dropped = llama_ends, .bare_json = true},
    {.name = "text"},
};

}  // namespace

List<ReplyForm> forms() { return table; }

}  // namespace bantam::inline v0::reply
