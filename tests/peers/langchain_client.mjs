// LangChain's models of OpenAI's API against a running server.
//
//   node langchain_client.mjs BASE_URL MODEL       exits with 1 and says what did not hold
import assert from "node:assert/strict";
import { literally, load, run } from "./client_facts.mjs";

const { ChatOpenAI, OpenAIEmbeddings } = await load("@langchain/openai");
const { HumanMessage, SystemMessage, ToolMessage } = await load("@langchain/core/messages");
const { tool } = await load("@langchain/core/tools");
const { z } = await load("zod");

const [baseURL, model] = process.argv.slice(2);
const configuration = { baseURL: `${baseURL}/v1` };
const chat = (more = {}) => new ChatOpenAI({ model, apiKey: "secret", configuration, temperature: 0, maxTokens: 20, maxRetries: 0, ...more });
const messages = [new SystemMessage("Be brief."), new HumanMessage("Tell me a story")];
const greet = tool(({ name }) => `Hello, ${name}`, { name: "greet", description: "Says hello", schema: z.object({ name: z.string().max(8) }) });
const call = '<tool_call>{"name": "greet", "arguments": {"name": "Lily"}}</tool_call>';

const facts = {};
// Through chats, and through responses.
for (const useResponsesApi of [false, true]) {
  const way = useResponsesApi ? "responses" : "chats";
  const text = (message) => message.text;
  facts[`${way}: a message, whole and streamed, is the same`] = async () => {
    const whole = await chat({ useResponsesApi }).invoke(messages);
    assert.ok(text(whole).length > 0);
    assert.equal(whole.usage_metadata.output_tokens, 20);
    let streamed = "";
    for await (const chunk of await chat({ useResponsesApi }).stream(messages)) streamed += text(chunk);
    assert.equal(streamed, text(whole));
  };
  facts[`${way}: tools are called, and their results come back`] = async () => {
    const bound = chat({ useResponsesApi, maxTokens: 200, modelKwargs: { grammar: literally(call) } }).bindTools([greet]);
    const said = await bound.invoke(messages);
    assert.deepEqual(said.tool_calls.map(({ name, args }) => [name, args]), [["greet", { name: "Lily" }]]);
    const result = await greet.invoke(said.tool_calls[0]);
    assert.ok(result instanceof ToolMessage);
    const next = await chat({ useResponsesApi }).bindTools([greet]).invoke([...messages, said, result]);
    assert.ok(next.usage_metadata.input_tokens > said.usage_metadata.input_tokens);
    let gathered;
    for await (const chunk of await bound.stream(messages)) gathered = gathered === undefined ? chunk : gathered.concat(chunk);
    assert.deepEqual(gathered.tool_calls.map(({ name, args }) => [name, args]), [["greet", { name: "Lily" }]]);
  };
  facts[`${way}: structured output`] = async () => {
    for (const method of ["jsonSchema", "functionCalling"]) {
      const structured = chat({ useResponsesApi, maxTokens: 200 }).withStructuredOutput(z.object({ name: z.string().max(8) }), { name: "person", method });
      assert.deepEqual(Object.keys(await structured.invoke(messages)), ["name"], method);
    }
  };
  facts[`${way}: errors and aborts`] = async () => {
    await assert.rejects(chat({ useResponsesApi, model: "gpt-9" }).invoke(messages), (error) => error.status === 404);
    const controller = new AbortController();
    const endless = chat({ useResponsesApi, maxTokens: 100000, modelKwargs: { ignore_eos: true } });
    await assert.rejects(async () => {
      for await (const chunk of await endless.stream(messages, { signal: controller.signal })) {
        assert.ok(chunk);
        controller.abort();
      }
    });
    assert.ok(await chat({ useResponsesApi }).invoke(messages));
  };
}
facts["several at once"] = async () => {
  const all = await chat({ maxRetries: 6 }).batch([messages, messages, messages]);
  assert.equal(new Set(all.map((one) => one.text)).size, 1);
};
facts["embeddings"] = async () => {
  const vectors = await new OpenAIEmbeddings({ model, apiKey: "secret", configuration, maxRetries: 0 }).embedDocuments(["The dog ran.", "A cat sat."]);
  assert.deepEqual([vectors.length, vectors[0].length], [2, vectors[1].length]);
};

await run(facts);
