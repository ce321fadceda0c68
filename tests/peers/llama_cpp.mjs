#!/usr/bin/env node
// Greedy tokens and logits from llama.cpp on the CPU, as JSON: what other runs of the same GGUF file are compared with.
import {existsSync, writeFileSync} from "node:fs";
import {dirname, join, resolve} from "node:path";
import {fileURLToPath, pathToFileURL} from "node:url";
import {parseArgs} from "node:util";

const help = `usage: node llama_cpp.mjs MODEL.gguf... [options]

Prints one JSON document:
  {version, system, model, batch, threads, kv, context, vocab,
   prompts: [{prompt, ids, generated, text, prefill_ms, decode_ms, logits?}]}
or, of several models or batches, an array of them: to start takes longer than a small model does.

  --prompt TEXT    a prompt; may be given again. Special tokens in it are text; BOS is added as the model says
  --ids 1,2,3      a prompt as token ids, taken as they are; may be given again
  --vocab KIND     read the vocabulary as this kind (tokenizer.ggml.model) whatever the file says: t5 opens SentencePiece
                   vocabularies without byte tokens, which llama.cpp refuses; give --ids then
  --n N            tokens to generate after each prompt, most probable first (default 100; 0: none). Generation goes on
                   after end-of-text tokens, unless --stop
  --stop           stop at (and keep) the first token that ends a generation
  --logits         also the highest logits after each token of the prompt, with log probabilities
  --top N          how many of them (default 10)
  --embed          in the place of generating the embedding of each prompt, as the file says that it is pooled
  --rank           the same with the score of a file with a classifier, between 0 and 1
  --threads N      threads for evaluation (default 2)
  --context N      tokens of context (default: the longest prompt and N, at least 64)
  --kv TYPE        type of the key-value cache: f16 (default, as llama.cpp), f32 or q8_0 (with flash attention, as
                   llama.cpp wants it)
  --batch N        tokens of one prompt evaluated at once (default 512); may be given again
  --mmap           map the file, whatever the library would choose
  --lora FILE:S    a GGUF adapter of each model in turn, and what it is multiplied by
  --output FILE    where the JSON goes, instead of standard output, on which --vocab makes the addon write a line
  --help           this text

node-llama-cpp is looked for in node_modules beside this file, or in the folder that BANTAM_PEERS names.`;

/** The command line, checked; prints the help or the complaint and ends the process where there is nothing to run. */
function readCommandLine() {
  const count = (text, name, lowest) => {
    const value = Number(text);
    if (!Number.isInteger(value) || value < lowest) throw new Error(`--${name}: expected a whole number from ${lowest}, found ${text}`);
    return value;
  };
  const {values, positionals} = parseArgs({
    allowPositionals: true,
    options: {
      prompt: {type: "string", multiple: true, default: []},
      ids: {type: "string", multiple: true, default: []},
      lora: {type: "string", multiple: true, default: []},
      vocab: {type: "string"},
      n: {type: "string", default: "100"},
      stop: {type: "boolean", default: false},
      logits: {type: "boolean", default: false},
      embed: {type: "boolean", default: false},
      rank: {type: "boolean", default: false},
      mmap: {type: "boolean", default: false},
      top: {type: "string", default: "10"},
      threads: {type: "string", default: "2"},
      context: {type: "string"},
      kv: {type: "string", default: "f16"},
      batch: {type: "string", multiple: true, default: ["512"]},
      output: {type: "string"},
      help: {type: "boolean", default: false}
    }
  });
  if (values.help) {
    console.log(help);
    process.exit(0);
  }
  if (positionals.length === 0) throw new Error("expected a model file; --help tells more");
  for (const path of positionals) if (!existsSync(path)) throw new Error(`${path}: no such file`);
  if (![0, positionals.length].includes(values.lora.length)) throw new Error(`--lora: expected one for each model, found ${values.lora.length}`);
  if (!["f16", "f32", "q8_0"].includes(values.kv)) throw new Error(`--kv: expected f16, f32 or q8_0, found ${values.kv}`);
  if (values.prompt.length + values.ids.length === 0) throw new Error("expected a --prompt or --ids");
  return {
    models: positionals.map((path) => resolve(path)),
    loras: values.lora.map((text) => ({filePath: resolve(text.slice(0, text.lastIndexOf(":"))), scale: Number(text.slice(text.lastIndexOf(":") + 1))})),
    vocab: values.vocab,
    texts: values.prompt,
    ids: values.ids.map((list) => list.split(",").map((id) => count(id, "ids", 0))),
    n: count(values.n, "n", 0),
    stop: values.stop,
    logits: values.logits,
    embed: values.embed,
    rank: values.rank,
    mmap: values.mmap,
    top: count(values.top, "top", 1),
    threads: count(values.threads, "threads", 1),
    context: values.context == null ? null : count(values.context, "context", 1),
    kv: values.kv,
    batches: values.batch.map((size) => count(size, "batch", 1)),
    output: values.output
  };
}

/** node-llama-cpp and its llama.cpp for the CPU: the prebuilt one, nothing built or downloaded. */
async function loadLibrary(threads) {
  const home = process.env.BANTAM_PEERS ?? dirname(fileURLToPath(import.meta.url));
  const entry = join(home, "node_modules", "node-llama-cpp", "dist", "index.js");
  if (!existsSync(entry)) throw new Error(`${entry}: not installed; README.md beside this file says how`);
  const library = await import(pathToFileURL(entry).href);
  const llama = await library.getLlama({
    gpu: false,
    build: "never",
    skipDownload: true,
    progressLogs: false,
    maxThreads: threads,
    logger: (level, message) => process.stderr.write(`llama.cpp ${level}: ${message.trimEnd()}\n`),
    logLevel: library.LlamaLogLevel.warn
  });
  return llama;
}

/** Token ids of a text: BOS as the model says, special tokens not parsed. */
function tokenize(model, text) {
  const ids = model.tokenize(text, false);
  return model.tokens.shouldPrependBosToken && model.tokens.bos != null ? [model.tokens.bos, ...ids] : [...ids];
}

/** The most probable next token, again and again. */
async function generate(sequence, model, ids, {n, stop}) {
  const generated = [];
  await sequence.clearHistory();
  const start = performance.now();
  let first = start;
  for await (const token of sequence.evaluate([...ids], {temperature: 0, yieldEogToken: true})) {
    if (generated.length === 0) first = performance.now();
    generated.push(token);
    if (generated.length === n || (stop && model.isEogToken(token))) break;
  }
  const end = performance.now();
  return {generated, prefill_ms: first - start, decode_ms: end - first};
}

/** For each position of the prompt the highest logits of the token that follows. */
async function topLogits(sequence, ids, top) {
  await sequence.clearHistory();
  // Greedy leaves every logit as the model gave it.
  const next = {logits: {filter: {includeTop: top}}, totalLogitWeight: true, options: {temperature: 0}};
  const results = await sequence.controlledEvaluate(ids.map((id) => [id, {generateNext: next}]));
  return results.map(({next: {logits, totalLogitWeight}}, position) => {
    const rows = [...logits].map(([id, logit]) => ({id, logit})).sort((a, b) => b.logit - a.logit || a.id - b.id);
    const logTotal = rows[0].logit + Math.log(totalLogitWeight);
    return {position, top: rows.map(({id, logit}) => ({id, logit, logprob: logit - logTotal}))};
  });
}

/** What the model makes of whole prompts: their embeddings, or their scores. */
async function readWhole(model, jobs, {embed, threads, context}) {
  const contextSize = context ?? Math.max(64, 1 + Math.max(...jobs.map(({ids}) => ids.length)));
  const options = {contextSize, batchSize: contextSize, threads, ignoreMemorySafetyChecks: true};
  const reader = embed ? await model.createEmbeddingContext(options) : await model.createRankingContext(options);
  const results = [];
  for (const {ids} of jobs) {
    // Ids are taken as they are: the public call would put special tokens of its own between query and document.
    if (embed) results.push({embedding: [...(await reader.getEmbeddingFor(ids)).vector]});
    else results.push({score: await reader._evaluateRankingForInput(ids)});
  }
  await reader.dispose();
  return results;
}

/** One model with one size of batches: a document. */
async function runPrompts(llama, model, path, batch, options) {
  const jobs = [
    ...options.texts.map((prompt) => ({prompt, ids: tokenize(model, prompt)})),
    ...options.ids.map((ids) => ({prompt: null, ids}))
  ];
  if (options.embed || options.rank) {
    const results = await readWhole(model, jobs, options);
    return {version: llama.llamaCppRelease.release, model: path, prompts: jobs.map((job, i) => ({...job, ...results[i]}))};
  }
  const longest = Math.max(...jobs.map(({ids}) => ids.length));
  const kvType = options.kv.toUpperCase();
  const contextSize = options.context ?? Math.max(64, longest + options.n);
  const context = await model.createContext({
    contextSize,
    batchSize: Math.min(batch, contextSize),
    threads: {ideal: options.threads, min: options.threads},
    flashAttention: options.kv === "q8_0",
    experimentalKvCacheKeyType: kvType,
    experimentalKvCacheValueType: kvType,
    ...(options.loras.length === 0 ? {} : {lora: {adapters: [options.loras[options.models.indexOf(path)]]}}),
    ignoreMemorySafetyChecks: true
  });
  const sequence = context.getSequence();
  const prompts = [];
  for (const {prompt, ids} of jobs) {
    if (ids.length === 0) throw new Error("a prompt gives no tokens: the model adds no BOS");
    if (ids.length + options.n > contextSize) throw new Error(`--context: expected at least ${ids.length + options.n}, found ${contextSize}`);
    const run = options.n > 0 ? await generate(sequence, model, ids, options) : {generated: [], prefill_ms: 0, decode_ms: 0};
    prompts.push({
      prompt,
      ids,
      generated: run.generated,
      text: model.detokenize(run.generated, false, ids),
      prefill_ms: run.prefill_ms,
      decode_ms: run.decode_ms,
      ...(options.logits ? {logits: await topLogits(sequence, ids, options.top)} : {})
    });
  }
  const {release, repo} = llama.llamaCppRelease;
  const document = {
    version: `${repo} ${release}`,
    system: llama.systemInfo.trim(),
    model: path,
    batch,
    threads: context.currentThreads,
    kv: options.kv,
    context: contextSize,
    vocab: model.fileInfo.metadata?.tokenizer?.ggml?.tokens?.length ?? null,
    prompts
  };
  await context.dispose();
  return document;
}

async function main() {
  const options = readCommandLine();
  const llama = await loadLibrary(options.threads);
  const documents = [];
  for (const path of options.models) {
    const model = await llama.loadModel({
      modelPath: path,
      gpuLayers: 0,
      ignoreMemorySafetyChecks: true,
      ...(options.mmap ? {useMmap: true} : {}),
      ...(options.vocab == null ? {} : {metadataOverrides: {tokenizer: {ggml: {model: options.vocab}}}})
    });
    try {
      for (const batch of options.batches) documents.push(await runPrompts(llama, model, path, batch, options));
    } catch (error) {
      throw new Error(`${path}: ${error.message}`);
    }
    await model.dispose();
  }
  const json = JSON.stringify(documents.length === 1 ? documents[0] : documents);
  if (options.output == null) console.log(json);
  else writeFileSync(options.output, json + "\n");
  await llama.dispose();
}

main().catch((error) => {
  process.stderr.write(`llama_cpp.mjs: ${error.message}\n`);
  process.exit(1);
});
