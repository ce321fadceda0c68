// OpenAI's own client against a running server: what it sends, and what it makes of the answers.
//
//   node openai_client.mjs BASE_URL MODEL       exits with 1 and says what did not hold
import assert from "node:assert/strict";
import { load, run, served } from "./client_facts.mjs";

const { default: OpenAI } = await load("openai");
const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "secret", maxRetries: 0, timeout: 60000 });
const messages = [{ role: "user", content: "Tell me a story" }];
const schema = { type: "object", properties: { name: { type: "string", maxLength: 8 } }, required: ["name"], additionalProperties: false };
const tools = [{ type: "function", function: { name: "greet", parameters: schema } }];

async function refused(kind, status, options, by = client) {
  await assert.rejects(by.chat.completions.create({ model, messages, ...options }), (error) => {
    assert.ok(error instanceof kind, `${error.constructor.name}: ${error.message}`);
    assert.equal(error.status, status);
    return true;
  });
}

const facts = {
  async "models are listed"() {
    const ids = [];
    for await (const one of client.models.list()) ids.push(one.id);
    assert.deepEqual(ids, served(model));
    assert.equal((await client.models.retrieve(model)).id, model);
  },
  async "a chat, whole and streamed, is the same"() {
    const whole = await client.chat.completions.create({ model, messages, max_tokens: 20, temperature: 0 });
    assert.equal(whole.choices[0].finish_reason, "length");
    assert.equal(whole.usage.completion_tokens, 20);
    const stream = await client.chat.completions.create({ model, messages, max_tokens: 20, temperature: 0, stream: true, stream_options: { include_usage: true } });
    let text = "", usage;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta?.content ?? "";
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, whole.choices[0].message.content);
    assert.equal(usage.total_tokens, whole.usage.total_tokens);
  },
  async "the helper for streams collects a whole answer"() {
    const runner = client.chat.completions.stream({ model, messages, max_tokens: 12, temperature: 0 });
    let text = "";
    runner.on("content", (delta) => (text += delta));
    const final = await runner.finalChatCompletion();
    assert.equal(final.choices[0].message.content, text);
    assert.equal(final.choices[0].finish_reason, "length");
  },
  async "several texts, seeds, stop texts, log probabilities"() {
    const several = await client.chat.completions.create({ model, messages, max_completion_tokens: 8, n: 3, seed: 4, logprobs: true, top_logprobs: 2 });
    assert.equal(several.choices.length, 3);
    const one = await client.chat.completions.create({ model, messages, max_completion_tokens: 8, seed: 5 });
    assert.equal(one.choices[0].message.content, several.choices[1].message.content);
    assert.equal(several.choices[0].logprobs.content.length, 8);
    assert.equal(several.choices[0].logprobs.content[0].top_logprobs.length, 2);
    const stopped = await client.completions.create({ model, prompt: "Once upon a time", max_tokens: 40, temperature: 0, stop: ["."] });
    assert.equal(stopped.choices[0].finish_reason, "stop");
    assert.ok(!stopped.choices[0].text.includes("."));
  },
  async "schemas are kept to"() {
    const format = { type: "json_schema", json_schema: { name: "person", strict: true, schema } };
    const parsed = await client.chat.completions.parse({ model, messages, max_tokens: 300, temperature: 0, response_format: format });
    assert.deepEqual(Object.keys(JSON.parse(parsed.choices[0].message.content)), ["name"]);
  },
  async "tools are called, and run by the client's own helper"() {
    const called = await client.chat.completions.create({ model, messages, max_tokens: 300, temperature: 0, tools, tool_choice: "required" });
    assert.equal(called.choices[0].finish_reason, "tool_calls");
    const call = called.choices[0].message.tool_calls[0];
    assert.equal(call.function.name, "greet");
    assert.ok("name" in JSON.parse(call.function.arguments));
    const runner = client.chat.completions.stream({ model, messages, max_tokens: 300, temperature: 0, tools, tool_choice: { type: "function", function: { name: "greet" } } });
    const final = await runner.finalChatCompletion();
    assert.ok("name" in JSON.parse(final.choices[0].message.tool_calls[0].function.arguments));
    const next = [...messages, called.choices[0].message, { role: "tool", tool_call_id: call.id, content: "done" }];
    assert.ok((await client.chat.completions.create({ model, messages: next, max_tokens: 4 })).choices[0].message);
  },
  async "errors are of the classes that clients know"() {
    await refused(OpenAI.BadRequestError, 400, { temperature: -1 });
    await refused(OpenAI.BadRequestError, 400, { messages: [] });
    await refused(OpenAI.NotFoundError, 404, { model: "gpt-9" });
    await refused(OpenAI.AuthenticationError, 401, {}, new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 }));
  },
  async "a full queue is a rate limit, which the client waits out"() {
    const busy = [];
    const controllers = [];
    for (let i = 0; i < 12; ++i) {
      const controller = new AbortController();
      controllers.push(controller);
      busy.push(client.completions.create({ model, prompt: "Once", max_tokens: 100000, ignore_eos: true }, { signal: controller.signal }).catch((error) => error));
    }
    const first = await Promise.race(busy);
    assert.ok(first instanceof OpenAI.RateLimitError, `${first}`);
    const patient = new OpenAI({ baseURL, apiKey: "secret", maxRetries: 5, timeout: 60000 });
    const answer = patient.completions.create({ model, prompt: "Once", max_tokens: 2 });
    for (const controller of controllers) controller.abort();
    assert.equal((await answer).usage.completion_tokens, 2);
    await Promise.all(busy);
  },
  async "an aborted stream leaves the server free"() {
    const stream = await client.completions.create({ model, prompt: "Once", max_tokens: 100000, ignore_eos: true, stream: true });
    for await (const chunk of stream) {
      assert.ok(chunk.choices);
      break;
    }
    const answers = await Promise.all([1, 2, 3, 4].map(() => client.completions.create({ model, prompt: "Once", max_tokens: 2 })));
    assert.equal(answers.length, 4);
  },
};

await run(facts);
