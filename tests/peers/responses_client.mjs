// OpenAI's own client and /v1/responses of a running server.
//
//   node responses_client.mjs BASE_URL MODEL       exits with 1 and says what did not hold
import assert from "node:assert/strict";
import { literally, load, run } from "./client_facts.mjs";

const { default: OpenAI } = await load("openai");

const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${baseURL}/v1`, apiKey: "secret", maxRetries: 0, timeout: 60000 });
const input = "Tell me a story";
const greedy = { model, input, max_output_tokens: 20, temperature: 0 };
const schema = { type: "object", properties: { name: { type: "string", maxLength: 8 } }, required: ["name"], additionalProperties: false };
const tools = [{ type: "function", name: "greet", description: "Says hello", parameters: schema, strict: true }];
const reply = '<think>Hm, well.</think>On it.<tool_call>{"name": "greet", "arguments": {"name": "Lily"}}</tool_call>';
const said = { ...greedy, max_output_tokens: 400, tools, grammar: literally(reply) };

async function refused(kind, status, options) {
  await assert.rejects(client.responses.create({ ...greedy, ...options }), (error) => {
    assert.ok(error instanceof kind, `${error.constructor.name}: ${error.message}`);
    assert.equal(error.status, status);
    return true;
  });
}

/// Items by what they say.
function plain(output) {
  return output.map((item) => [item.type, item.status, item.content?.[0].text ?? item.arguments]);
}

const whole_output = [["reasoning", "completed", "Hm, well."], ["message", "completed", "On it."], ["function_call", "completed", '{"name": "Lily"}']];

const facts = {
  async "a response, whole and streamed, is the same"() {
    const whole = await client.responses.create(greedy);
    assert.deepEqual([whole.object, whole.status, whole.incomplete_details.reason, whole.model], ["response", "incomplete", "max_output_tokens", model]);
    assert.ok(whole.id.startsWith("resp_") && whole.output[0].id.startsWith("msg_"));
    assert.deepEqual([whole.usage.output_tokens, whole.usage.total_tokens], [20, whole.usage.input_tokens + 20]);
    const runner = client.responses.stream(greedy);
    let text = "";
    runner.on("response.output_text.delta", (event) => (text += event.delta));
    const final = await runner.finalResponse();
    assert.equal(text, whole.output_text);
    assert.equal(final.output[0].content[0].text, whole.output_text);
  },
  async "events come in their order, with their numbers"() {
    const events = [];
    for await (const event of await client.responses.create({ ...said, stream: true })) events.push(event);
    assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, i) => i));
    const order = events.map((event) => `${event.type.replace("response.", "")} ${event.output_index ?? ""}`.trim());
    assert.deepEqual(order.filter((entry, i) => entry !== order[i - 1]), [
      "created", "in_progress",
      "output_item.added 0", "content_part.added 0", "reasoning_text.delta 0", "reasoning_text.done 0", "content_part.done 0", "output_item.done 0",
      "output_item.added 1", "content_part.added 1", "output_text.delta 1", "output_text.done 1", "content_part.done 1", "output_item.done 1",
      "output_item.added 2", "function_call_arguments.delta 2", "function_call_arguments.done 2", "output_item.done 2",
      "completed",
    ]);
    const final = events.at(-1).response;
    assert.deepEqual(plain(final.output), whole_output);
    const done = events.filter((event) => event.type === "response.output_item.done").map((event) => event.item);
    assert.deepEqual(done, final.output);
    for (const event of events) {
      if (event.item_id) assert.equal(event.item_id, final.output[event.output_index].id);
    }
  },
  async "thoughts, words and calls are items, and come back"() {
    const whole = await client.responses.create(said);
    assert.deepEqual(plain(whole.output), whole_output);
    assert.ok(whole.usage.output_tokens_details.reasoning_tokens > 0);
    const call = whole.output[2];
    const result = { type: "function_call_output", call_id: call.call_id, output: "done" };
    const asked = { role: "user", content: [{ type: "input_text", text: input }] };
    const next = await client.responses.create({ ...greedy, input: [asked, ...whole.output, result], tools, instructions: "Be brief." });
    assert.equal(next.output[0].type, "message");
    const chained = await client.responses.create({ ...greedy, input: [result], previous_response_id: whole.id, tools });
    const by_hand = await client.responses.create({ ...greedy, input: [asked, ...whole.output, result], tools });
    assert.equal(chained.output_text, by_hand.output_text);
    assert.equal(chained.usage.input_tokens, by_hand.usage.input_tokens);
  },
  async "tools are called when they must be"() {
    for (const tool_choice of ["required", { type: "function", name: "greet" }]) {
      const whole = await client.responses.create({ ...greedy, max_output_tokens: 300, tools, tool_choice });
      assert.deepEqual([whole.output.length, whole.output[0].type, whole.output[0].name], [1, "function_call", "greet"]);
      assert.ok("name" in JSON.parse(whole.output[0].arguments));
    }
  },
  async "schemas are kept to"() {
    const text = { format: { type: "json_schema", name: "person", strict: true, schema } };
    const parsed = await client.responses.parse({ ...greedy, max_output_tokens: 300, text });
    assert.deepEqual(Object.keys(parsed.output_parsed), ["name"]);
  },
  async "responses are kept until they are deleted"() {
    const first = await client.responses.create({ ...greedy, metadata: { a: "b" } });
    assert.deepEqual((await client.responses.retrieve(first.id)).output, first.output);
    assert.equal((await client.responses.retrieve(first.id)).metadata.a, "b");
    const items = [];
    for await (const item of client.responses.inputItems.list(first.id)) items.push(item);
    assert.deepEqual(items.map((item) => item.content[0].text), [input]);
    await client.responses.delete(first.id);
    await assert.rejects(client.responses.retrieve(first.id), OpenAI.NotFoundError);
    await assert.rejects(client.responses.delete(first.id), OpenAI.NotFoundError);
    const forgotten = await client.responses.create({ ...greedy, store: false });
    await assert.rejects(client.responses.retrieve(forgotten.id), OpenAI.NotFoundError);
    await refused(OpenAI.NotFoundError, 404, { previous_response_id: first.id });
  },
  async "errors are of the classes that clients know"() {
    await refused(OpenAI.BadRequestError, 400, { temperature: -1 });
    await refused(OpenAI.BadRequestError, 400, { input: [] });
    await refused(OpenAI.BadRequestError, 400, { input: [{ role: "user", content: [{ type: "input_image", image_url: "data:," }] }] });
    await refused(OpenAI.BadRequestError, 400, { tools: [{ type: "web_search" }] });
    await refused(OpenAI.BadRequestError, 400, { text: { format: { type: "json_schema", name: "x" } } });
    await refused(OpenAI.NotFoundError, 404, { model: "gpt-9" });
  },
  async "an aborted stream leaves the server free"() {
    const stream = await client.responses.create({ ...greedy, max_output_tokens: 100000, ignore_eos: true, stream: true });
    for await (const event of stream) {
      if (event.type === "response.output_text.delta") break;
    }
    stream.controller.abort();
    const answers = await Promise.all([1, 2, 3, 4].map(() => client.responses.create({ ...greedy, max_output_tokens: 2 })));
    assert.equal(answers.length, 4);
  },
};

await run(facts);
