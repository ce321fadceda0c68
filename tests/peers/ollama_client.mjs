// Ollama's own client against a running server: what it sends, and what it makes of the answers.
//
//   node ollama_client.mjs BASE_URL MODEL       exits with 1 and says what did not hold
import assert from "node:assert/strict";
import { literally, load, run, served } from "./client_facts.mjs";

const { Ollama } = await load("ollama");

const [host, model] = process.argv.slice(2);
const headers = { Authorization: "Bearer secret" };
const client = new Ollama({ host, headers });
const messages = [{ role: "user", content: "Tell me a story" }];
const options = { temperature: 0, num_predict: 20 };
const tools = [{ type: "function", function: { name: "greet", description: "Says hello", parameters: { type: "object", properties: { name: { type: "string" } }, required: ["name"] } } }];
const reply = '<think>Hm, well.</think>On it.<tool_call>{"name": "greet", "arguments": {"name": "Lily"}}</tool_call>';
const said = { model, messages, tools, grammar: literally(reply), options: { num_predict: 400 } };

const facts = {
  async "models are listed"() {
    assert.deepEqual((await client.list()).models.map((one) => one.name), served(model));
    assert.ok((await client.show({ model })).capabilities.includes("completion"));
  },
  async "a chat, whole and streamed, is the same"() {
    const whole = await client.chat({ model, messages, options });
    assert.deepEqual([whole.message.role, whole.done, whole.done_reason, whole.eval_count], ["assistant", true, "length", 20]);
    let text = "", last;
    for await (const part of await client.chat({ model, messages, options, stream: true })) {
      text += part.message.content;
      last = part;
    }
    assert.equal(text, whole.message.content);
    assert.deepEqual([last.done, last.eval_count, last.prompt_eval_count], [true, 20, whole.prompt_eval_count]);
  },
  async "thoughts and calls come apart from the text"() {
    const { message } = await client.chat(said);
    assert.deepEqual([message.thinking, message.content], ["Hm, well.", "On it."]);
    assert.deepEqual(message.tool_calls.map((call) => [call.function.name, call.function.arguments]), [["greet", { name: "Lily" }]]);
    let thinking = "";
    const calls = [];
    for await (const part of await client.chat({ ...said, stream: true, think: true })) {
      thinking += part.message.thinking ?? "";
      calls.push(...(part.message.tool_calls ?? []));
    }
    assert.deepEqual([thinking, calls.length], ["Hm, well.", 1]);
    const next = await client.chat({ ...said, messages: [...messages, message, { role: "tool", tool_name: "greet", content: "Hello" }], grammar: literally("Done.") });
    assert.equal(next.message.content, "Done.");
  },
  async "texts, and schemas"() {
    const whole = await client.generate({ model, prompt: "Once upon a time", raw: true, options });
    let text = "";
    for await (const part of await client.generate({ model, prompt: "Once upon a time", raw: true, options, stream: true })) text += part.response;
    assert.equal(text, whole.response);
    const format = { type: "object", properties: { name: { type: "string", maxLength: 8 } }, required: ["name"], additionalProperties: false };
    const made = await client.chat({ model, messages, format, options: { num_predict: 100 } });
    assert.deepEqual(Object.keys(JSON.parse(made.message.content)), ["name"]);
  },
  async "vectors"() {
    const { embeddings } = await client.embed({ model, input: ["The sea", "A lake"] });
    assert.equal(embeddings.length, 2);
    assert.deepEqual((await client.embeddings({ model, prompt: "The sea" })).embedding, embeddings[0]);
  },
  async "errors say what is wrong"() {
    const refused = (promise, status, words) =>
      assert.rejects(promise, (error) => {
        assert.equal(error.status_code, status);
        assert.match(error.message, words);
        return true;
      });
    await refused(client.chat({ model: "nobody", messages }), 404, /does not exist/);
    await refused(client.chat({ model, messages: [{ role: "cat", content: "x" }] }), 400, /role/);
    await refused(new Ollama({ host }).chat({ model, messages }), 401, /API key/);
  },
  async "a stream that is ended leaves the server free"() {
    const stream = await client.chat({ model, messages, stream: true, options: { num_predict: 50000 } });
    setTimeout(() => stream.abort(), 100);
    await assert.rejects(async () => {
      for await (const part of stream) void part;
    }, { name: "AbortError" });
    assert.equal((await client.chat({ model, messages, options })).eval_count, 20);
  },
};

await run(facts);
