// Vercel's AI SDK against a running server: its providers of OpenAI's API, and of what is like it.
//
//   node ai_client.mjs BASE_URL MODEL       exits with 1 and says what did not hold
import assert from "node:assert/strict";
import { literally, load, run } from "./client_facts.mjs";

const { embedMany, generateText, Output, stepCountIs, isStepCount = stepCountIs, streamText, tool } = await load("ai");
const { createOpenAI } = await load("@ai-sdk/openai");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { z } = await load("zod");

const [address, model] = process.argv.slice(2);
const baseURL = `${address}/v1`;
const openai = createOpenAI({ baseURL, apiKey: "secret" });
const like = createOpenAICompatible({ name: "bantam", baseURL, apiKey: "secret", includeUsage: true, supportsStructuredOutputs: true });
const asked = { prompt: "Tell me a story", temperature: 0, maxOutputTokens: 20, maxRetries: 0 };
const greet = tool({ description: "Says hello", inputSchema: z.object({ name: z.string().max(8) }), execute: async ({ name }) => `Hello, ${name}` });

const facts = {};
for (const [way, of] of [["chats", openai.chat(model)], ["responses", openai.responses(model)], ["like OpenAI", like(model)]]) {
  facts[`${way}: a text, whole and streamed, is the same`] = async () => {
    const whole = await generateText({ model: of, ...asked });
    assert.equal(whole.finishReason, "length");
    assert.equal(whole.usage.outputTokens, 20);
    const stream = streamText({ model: of, ...asked });
    let text = "";
    for await (const piece of stream.textStream) text += piece;
    assert.equal(text, whole.text);
    assert.equal((await stream.usage).outputTokens, 20);
  };
  facts[`${way}: tools are called, run, and their results read`] = async () => {
    const how = { model: of, ...asked, maxOutputTokens: 200, tools: { greet } };
    const first = await generateText({ ...how, toolChoice: "required" });
    assert.deepEqual([first.toolCalls.map((call) => [call.toolName, Object.keys(call.input)]), first.finishReason], [[["greet", ["name"]]], "tool-calls"]);
    assert.ok(first.toolResults[0].output.startsWith("Hello"));
    const stream = streamText({ ...how, toolChoice: { type: "tool", toolName: "greet" } });
    const calls = [];
    for await (const part of stream.fullStream) if (part.type === "tool-call") calls.push(part.toolName);
    assert.deepEqual(calls, ["greet"]);
    const steps = await generateText({ ...how, stopWhen: isStepCount(2), prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }) });
    assert.equal(steps.steps.length, 2);
    assert.ok(steps.text.length > 0);
  };
  facts[`${way}: objects of a schema`] = async () => {
    const made = await generateText({ model: of, ...asked, maxOutputTokens: 200, output: Output.object({ schema: z.object({ name: z.string().max(8) }) }) });
    assert.deepEqual(Object.keys(made.output), ["name"]);
  };
  facts[`${way}: errors and aborts`] = async () => {
    await assert.rejects(generateText({ model: of, ...asked, temperature: -1 }), (error) => error.statusCode === 400);
    const controller = new AbortController();
    const stream = streamText({ model: of, ...asked, maxOutputTokens: 100000, abortSignal: controller.signal });
    for await (const part of stream.fullStream) {
      if (part.type === "text-delta") controller.abort();
    }
    assert.ok((await generateText({ model: of, ...asked })).text);
  };
}
facts["thoughts come apart"] = async () => {
  const thinks = { ...asked, maxOutputTokens: 100, providerOptions: { bantam: { grammar: literally("<think>Hm, well.</think>On it.") } } };
  const whole = await generateText({ model: like(model), ...thinks });
  assert.deepEqual([whole.reasoningText, whole.text], ["Hm, well.", "On it."]);
  const stream = streamText({ model: like(model), ...thinks });
  let thought = "";
  for await (const part of stream.fullStream) if (part.type === "reasoning-delta") thought += part.text;
  assert.equal(thought, "Hm, well.");
};
facts["embeddings"] = async () => {
  const { embeddings } = await embedMany({ model: openai.textEmbeddingModel?.(model) ?? openai.embeddingModel(model), values: ["The dog ran.", "A cat sat."] });
  assert.deepEqual([embeddings.length, embeddings[0].length], [2, embeddings[1].length]);
};

await run(facts);
