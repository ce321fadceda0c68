// Anthropic's own client against a running server: what it sends, and what it makes of the answers.
//
//   node anthropic_client.mjs BASE_URL MODEL       exits with 1 and says what did not hold
import assert from "node:assert/strict";
import { literally, load, run, served } from "./client_facts.mjs";

const { default: Anthropic } = await load("@anthropic-ai/sdk");

const [baseURL, model] = process.argv.slice(2);
const client = new Anthropic({ baseURL, apiKey: "secret", maxRetries: 0, timeout: 60000 });
const messages = [{ role: "user", content: "Tell me a story" }];
const greedy = { model, messages, max_tokens: 20, temperature: 0 };
const schema = { type: "object", properties: { name: { type: "string", maxLength: 8 } }, required: ["name"], additionalProperties: false };
const tools = [{ name: "greet", description: "Says hello", input_schema: schema }];
const reply = '<think>Hm, well.</think>On it.<tool_call>{"name": "greet", "arguments": {"name": "Lily"}}</tool_call>';
const said = { ...greedy, max_tokens: 400, tools, grammar: literally(reply) };
const blocks = [
  { type: "thinking", thinking: "Hm, well.", signature: "" },
  { type: "text", text: "On it." },
  { type: "tool_use", name: "greet", input: { name: "Lily" } },
];

async function refused(kind, status, type, options, by = client) {
  await assert.rejects(by.messages.create({ ...greedy, ...options }), (error) => {
    assert.ok(error instanceof kind, `${error.constructor.name}: ${error.message}`);
    assert.equal(error.status, status);
    assert.equal(error.error.type, "error");
    assert.equal(error.error.error.type, type);
    return true;
  });
}

/// Blocks without the ids of calls, which are there.
function plain(content) {
  return content.map(({ id, ...block }) => {
    assert.equal(block.type === "tool_use", id !== undefined);
    return block;
  });
}

const facts = {
  async "models are listed"() {
    const ids = [];
    for await (const one of client.models.list()) ids.push(one.id);
    assert.deepEqual(ids, served(model));
    assert.equal((await client.models.retrieve(model)).display_name, model);
  },
  async "a message, whole and streamed, is the same"() {
    const whole = await client.messages.create(greedy);
    assert.deepEqual([whole.type, whole.role, whole.model, whole.stop_reason, whole.stop_sequence], ["message", "assistant", model, "max_tokens", null]);
    assert.equal(whole.usage.output_tokens, 20);
    const stream = client.messages.stream(greedy);
    let text = "";
    stream.on("text", (delta) => (text += delta));
    const final = await stream.finalMessage();
    assert.equal(text, whole.content[0].text);
    assert.deepEqual(final.content, whole.content);
    assert.equal(final.stop_reason, "max_tokens");
    assert.equal(final.usage.output_tokens, 20);
    const read = (usage) => usage.input_tokens + usage.cache_read_input_tokens;
    assert.equal(read(final.usage), read(whole.usage));
    assert.equal(read(whole.usage), (await client.messages.countTokens({ model, messages })).input_tokens);
  },
  async "events come in their order"() {
    const types = [];
    for await (const event of await client.messages.create({ ...greedy, max_tokens: 3, stream: true })) types.push(event.type);
    const deltas = types.filter((type) => type === "content_block_delta");
    assert.deepEqual(types, ["message_start", "content_block_start", ...deltas, "content_block_stop", "message_delta", "message_stop"]);
    const order = [];
    for await (const event of await client.messages.create({ ...said, stream: true })) {
      const what = event.delta?.type ?? event.content_block?.type ?? "";
      const entry = `${event.type} ${event.index ?? ""} ${what}`.trim();
      if (order.at(-1) !== entry) order.push(entry);
    }
    assert.deepEqual(order, [
      "message_start",
      "content_block_start 0 thinking", "content_block_delta 0 thinking_delta", "content_block_delta 0 signature_delta", "content_block_stop 0",
      "content_block_start 1 text", "content_block_delta 1 text_delta", "content_block_stop 1",
      "content_block_start 2 tool_use", "content_block_delta 2 input_json_delta", "content_block_stop 2",
      "message_delta", "message_stop",
    ]);
  },
  async "thoughts, words and calls are blocks, and come back"() {
    const whole = await client.messages.create(said);
    assert.deepEqual(plain(whole.content), blocks);
    assert.equal(whole.stop_reason, "tool_use");
    const final = await client.messages.stream(said).finalMessage();
    assert.deepEqual(plain(final.content), blocks);
    const result = { type: "tool_result", tool_use_id: whole.content[2].id, content: [{ type: "text", text: "done" }] };
    const next = [...messages, { role: "assistant", content: whole.content }, { role: "user", content: [result, { type: "text", text: "And now?" }] }];
    const system = [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }];
    assert.equal((await client.messages.create({ ...greedy, system, messages: next, tools })).content[0].type, "text");
  },
  async "tools are called when they must be"() {
    for (const tool_choice of [{ type: "any" }, { type: "tool", name: "greet" }]) {
      const whole = await client.messages.create({ ...greedy, max_tokens: 300, tools, tool_choice });
      assert.equal(whole.stop_reason, "tool_use");
      assert.deepEqual([whole.content.length, whole.content[0].name, Object.keys(whole.content[0].input)], [1, "greet", ["name"]]);
      const final = await client.messages.stream({ ...greedy, max_tokens: 300, tools, tool_choice }).finalMessage();
      assert.deepEqual(plain(final.content), plain(whole.content));
    }
    const none = await client.messages.create({ ...said, tool_choice: { type: "none" } });
    assert.ok(none.content.every((block) => block.type !== "tool_use"));
  },
  async "stop sequences and top_k"() {
    const whole = await client.messages.create({ ...greedy, max_tokens: 60, stop_sequences: ["."] });
    assert.deepEqual([whole.stop_reason, whole.stop_sequence, whole.content[0].text.includes(".")], ["stop_sequence", ".", false]);
    const one = await client.messages.create({ ...greedy, temperature: 1, top_k: 1 });
    assert.equal(one.content[0].text, (await client.messages.create(greedy)).content[0].text);
  },
  async "a reply that is begun goes on"() {
    const begun = [...messages, { role: "assistant", content: "Once upon a time" }];
    const whole = await client.messages.create({ ...greedy, messages: begun });
    assert.ok(whole.content[0].text.length > 0 && !whole.content[0].text.includes("Once upon"));
  },
  async "thoughts end when their budget does"() {
    const opened = [...messages, { role: "assistant", content: "<think>" }];
    const whole = await client.messages.create({ ...greedy, messages: opened, max_tokens: 60, thinking: { type: "enabled", budget_tokens: 10 } });
    assert.deepEqual(whole.content.map((block) => block.type), ["thinking", "text"]);
  },
  async "errors are of the classes that clients know"() {
    await refused(Anthropic.BadRequestError, 400, "invalid_request_error", { temperature: -1 });
    await refused(Anthropic.BadRequestError, 400, "invalid_request_error", { messages: [] });
    await refused(Anthropic.BadRequestError, 400, "invalid_request_error", { max_tokens: 0 });
    await refused(Anthropic.NotFoundError, 404, "not_found_error", { model: "claude-9" });
    await refused(Anthropic.AuthenticationError, 401, "authentication_error", {}, new Anthropic({ baseURL, apiKey: "wrong", maxRetries: 0 }));
    const image = { type: "image", source: { type: "base64", media_type: "image/png", data: "AAAA" } };
    await refused(Anthropic.BadRequestError, 400, "invalid_request_error", { messages: [{ role: "user", content: [image] }] });
    await refused(Anthropic.BadRequestError, 400, "invalid_request_error", { tools: [{ type: "bash_20250124", name: "bash" }] });
  },
  async "a full queue is a rate limit, which the client waits out"() {
    const endless = { ...greedy, max_tokens: 100000, ignore_eos: true };
    const controllers = Array.from({ length: 12 }, () => new AbortController());
    const busy = controllers.map(({ signal }) => client.messages.create({ ...endless, stream: false }, { signal, timeout: 60000 }).catch((error) => error));
    const first = await Promise.race(busy);
    assert.ok(first instanceof Anthropic.RateLimitError, `${first}`);
    assert.equal(first.error.error.type, "rate_limit_error");
    const patient = new Anthropic({ baseURL, apiKey: "secret", maxRetries: 5, timeout: 60000 });
    const answer = patient.messages.create({ ...greedy, max_tokens: 2 });
    for (const controller of controllers) controller.abort();
    assert.equal((await answer).usage.output_tokens, 2);
    await Promise.all(busy);
  },
  async "an aborted stream leaves the server free"() {
    const stream = client.messages.stream({ ...greedy, max_tokens: 100000, ignore_eos: true });
    for await (const event of stream) {
      if (event.type === "content_block_delta") break;
    }
    stream.abort();
    const answers = await Promise.all([1, 2, 3, 4].map(() => client.messages.create({ ...greedy, max_tokens: 2 })));
    assert.equal(answers.length, 4);
  },
};

await run(facts);
