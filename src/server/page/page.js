// The page: chats through /v1/chat/completions as any client does, figures, and what the server says of its model.
import {show as showFigures} from "./figures.js";
import {render} from "./markdown.js";

const by = (id) => document.getElementById(id);
const settings = ["system", "temperature", "top_p", "max_tokens", "seed", "tools", "key"];
const largestFile = 1 << 20;

/** In the shape of the API; `seconds` and `tokens` are the page's own. */
let messages = [];
let attached = [];
let running = null;  // an AbortController, while a reply is written

function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

const ask = (path, options = {}) => {
  const key = by("key").value;
  return fetch(path, {...options, headers: {...options.headers, ...(key ? {Authorization: `Bearer ${key}`} : {})}});
};

// ---- What stays over a reload of the tab; keys do too, and end with it.

function remember() {
  const kept = {messages};
  for (const name of settings) kept[name] = by(name).value;
  try {
    sessionStorage.setItem("bantam", JSON.stringify(kept));
  } catch {
    // A long talk may be more than browsers keep: it is on the screen all the same.
  }
}

function recall() {
  try {
    const kept = JSON.parse(sessionStorage.getItem("bantam") ?? "{}");
    messages = kept.messages ?? [];
    for (const name of settings) by(name).value = kept[name] ?? "";
  } catch {
    sessionStorage.removeItem("bantam");
  }
}

// ---- Showing

function callBox(call, answer) {
  const box = element("div", {className: "call"}, element("code", {textContent: `${call.function.name}(${call.function.arguments})`}));
  if (!answer) return box;
  const input = element("textarea", {rows: 2, placeholder: "What the tool answers"});
  box.append(input, element("button", {type: "button", textContent: "Answer", onclick: () => answer(call, input.value)}));
  return box;
}

function view(message, answer) {
  const node = element("article", {className: message.role});
  if (message.role === "assistant") {
    if (message.reasoning_content) {
      node.append(element("details", {open: !message.content && !message.tool_calls?.length}, element("summary", {textContent: "Thoughts"}), render(message.reasoning_content)));
    }
    node.append(render(message.content ?? ""));
    for (const call of message.tool_calls ?? []) node.append(callBox(call, answer));
    if (message.note) node.append(element("footer", {textContent: message.note}));
  } else {
    node.append(element("div", {className: "plain", textContent: message.content}));
  }
  return node;
}

function showAll() {
  const unanswered = (call) => !messages.some((message) => message.tool_call_id === call.id);
  by("talk").replaceChildren(...messages.map((message) => {
    const open = running === null && (message.tool_calls ?? []).some(unanswered);
    return view(message, open ? answerCall : null);
  }));
  by("again").hidden = running !== null || messages.length === 0;
  by("send").textContent = running === null ? "Send" : "Stop";
  by("talk").lastElementChild?.scrollIntoView({block: "end"});
}

function answerCall(call, text) {
  messages.push({role: "tool", tool_call_id: call.id, content: text});
  const last = messages.findLast((message) => message.role === "assistant");
  const waits = last.tool_calls.some((other) => !messages.some((message) => message.tool_call_id === other.id));
  waits ? showAll() : write();
}

// ---- Asking

function request() {
  const body = {model: by("model").value, stream: true, stream_options: {include_usage: true}};
  const system = by("system").value.trim();
  body.messages = [...(system ? [{role: "system", content: system}] : []), ...messages.map(({note, ...message}) => message)];
  for (const name of ["temperature", "top_p", "max_tokens", "seed"]) {
    if (by(name).value !== "") body[name] = Number(by(name).value);
  }
  if (by("tools").value.trim()) body.tools = JSON.parse(by("tools").value);
  return body;
}

/** Calls f(json) for each event of a stream. */
async function readEvents(reply, f) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data: ") && line !== "data: [DONE]") f(JSON.parse(line.slice(6)));
    }
  }
}

function take(message, delta) {
  if (delta.reasoning_content) message.reasoning_content = (message.reasoning_content ?? "") + delta.reasoning_content;
  if (delta.content) message.content += delta.content;
  for (const {index, id, function: f} of delta.tool_calls ?? []) {
    message.tool_calls ??= [];
    const call = (message.tool_calls[index] ??= {id, type: "function", function: {name: "", arguments: ""}});
    call.function.name += f?.name ?? "";
    call.function.arguments += f?.arguments ?? "";
  }
}

/** Asks for the next message of the model. */
async function write() {
  const message = {role: "assistant", content: ""};
  running = new AbortController();
  let shown = null, drawn = 0, usage = null, end = "", timings = null;
  const draw = (now) => {
    if (!now && performance.now() - drawn < 80) return;
    drawn = performance.now();
    const next = view(message, null);
    shown.replaceWith(next);
    shown = next;
    const close = document.documentElement.scrollHeight - window.scrollY - window.innerHeight < 200;
    if (close) shown.scrollIntoView({block: "end"});
  };
  try {
    const body = JSON.stringify(request());
    messages.push(message);
    showAll();
    shown = by("talk").lastElementChild;
    const reply = await ask("/v1/chat/completions", {method: "POST", headers: {"Content-Type": "application/json"}, body, signal: running.signal});
    if (!reply.ok) throw new Error((await reply.json()).error?.message ?? reply.statusText);
    await readEvents(reply, (event) => {
      if (event.error) throw new Error(event.error.message);
      usage = event.usage ?? usage;
      timings = event.timings ?? timings;
      const choice = event.choices?.[0];
      if (!choice) return;
      take(message, choice.delta ?? {});
      end = choice.finish_reason ?? end;
      draw(false);
    });
    const parts = [];
    if (usage) parts.push(`${usage.prompt_tokens} prompt tokens, ${usage.prompt_tokens_details?.cached_tokens ?? 0} of them cached`, `${usage.completion_tokens} generated`);
    if (timings?.predicted_per_second) parts.push(`${timings.predicted_per_second.toFixed(1)} tok/s`);
    if (end === "length") parts.push("cut off at the limit");
    message.note = parts.join(" · ");
  } catch (error) {
    message.note = error.name === "AbortError" ? "stopped" : `failed: ${error.message}`;
    if (!messages.includes(message)) messages.push(message);
  }
  running = null;
  remember();
  showAll();
  readServer();
}

// ---- What people do

function send(event) {
  event?.preventDefault();
  if (running !== null) return running.abort();
  const text = by("text").value;
  if (text.trim() === "" && attached.length === 0) return;
  const fence = (content) => "`".repeat(Math.max(3, ...(content.match(/`+/g) ?? []).map((ticks) => ticks.length + 1)));
  const files = attached.map(({name, content}) => `${name}:\n${fence(content)}\n${content}\n${fence(content)}`);
  messages.push({role: "user", content: [...files, text].filter((part) => part !== "").join("\n\n")});
  by("text").value = "";
  attached = [];
  showFiles();
  write();
}

function showFiles() {
  by("files").replaceChildren(...attached.map((file) => {
    const drop = () => {
      attached = attached.filter((other) => other !== file);
      showFiles();
    };
    return element("span", {className: "file"}, file.name, element("button", {type: "button", textContent: "×", title: "Leave it out", onclick: drop}));
  }));
}

async function attach() {
  for (const file of by("attach").files) {
    const content = file.size > largestFile ? null : await file.text();
    if (content === null || content.includes("\0")) {
      by("state").textContent = `${file.name}: expected a text of at most 1 MB`;
    } else {
      attached.push({name: file.name, content});
    }
  }
  by("attach").value = "";
  showFiles();
}

function writeAgain() {
  while (messages.length > 0 && messages.at(-1).role === "assistant") messages.pop();
  if (messages.length > 0) write();
}

// ---- The server

function rows(json, path = "") {
  return Object.entries(json ?? {}).flatMap(([name, value]) => {
    const whole = path ? `${path}.${name}` : name;
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return rows(value, whole);
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return [element("tr", {}, element("th", {textContent: whole}), element("td", {}, text.length > 200 ? element("details", {}, element("summary", {textContent: `${text.length} characters`}), element("pre", {textContent: text})) : text))];
  });
}

async function readServer() {
  try {
    const reply = await ask("/v1/models");
    if (reply.status === 401) return void (by("state").textContent = "This server wants an API key: see Settings.");
    const {data} = await reply.json();
    const chosen = by("model").value;
    // Of several models each has a status, and looking at one is no reason to load it.
    const shown = ({id, status}) => (status && status.value !== "loaded" ? `${id} (${status.value})` : id);
    by("model").replaceChildren(...data.map((one) => element("option", {value: one.id, textContent: shown(one), title: one.status?.error ?? ""})));
    if (data.some(({id}) => id === chosen)) by("model").value = chosen;
    const chosenOne = data.find(({id}) => id === by("model").value);
    const isThere = !chosenOne.status || chosenOne.status.value === "loaded";
    const properties = isThere ? await (await ask(`/props?model=${encodeURIComponent(chosenOne.id)}`)).json() : {};
    by("about").replaceChildren(element("table", {}, element("tbody", {}, ...rows(chosenOne), ...rows(properties))));
    if (!plans.has(chosenOne.id)) by("plan").textContent = "";
    by("state").textContent = "";
  } catch (error) {
    by("state").textContent = `The server does not answer: ${error.message}`;
  }
}

/** What `bantam plan` says of the model that is chosen: asked for where somebody looks, as the server measures the machine for it once. */
const plans = new Map();
async function readPlan() {
  const model = by("model").value;
  if (!model) return;
  by("plan").textContent = "";
  if (!plans.has(model)) {
    const reply = await ask(`/plan?model=${encodeURIComponent(model)}`).catch(() => null);
    const plan = await reply?.json().catch(() => null);
    if (!reply?.ok || !plan) return;
    plans.set(model, plan);
  }
  if (by("model").value !== model) return;
  const plan = plans.get(model);
  const parts = [plan.fits ? (plan.streamed_bytes_per_token > 0 ? "runs from its file" : "fits in memory") : "does not fit here"];
  if (plan.fits && plan.generate_tok_s) parts.push(`about ${plan.generate_tok_s.toFixed(plan.generate_tok_s < 10 ? 1 : 0)} tok/s`);
  if (plan.fits) parts.push(`up to ${plan.largest_context} tokens`);
  by("plan").textContent = parts.join(", ");
}

const lookAtFigures = showFigures(by("figures"), ask, () => by("model").value);
for (const button of document.querySelectorAll("nav button")) {
  button.onclick = () => {
    for (const tab of document.querySelectorAll(".tab")) tab.hidden = tab.id !== button.dataset.tab;
    for (const other of document.querySelectorAll("nav button")) other.classList.toggle("chosen", other === button);
    if (button.dataset.tab === "figures") lookAtFigures();
    if (button.dataset.tab === "about") readServer().then(readPlan);
  };
}
by("ask").onsubmit = send;
by("attach").onchange = attach;
by("again").onclick = writeAgain;
by("fresh").onclick = () => {
  running?.abort();
  messages = [];
  remember();
  showAll();
};
by("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing && running === null) send(event);
};
by("settings").onchange = remember;
by("key").onchange = () => {
  remember();
  readServer();
};
by("model").onchange = () => readServer().then(readPlan);
recall();
showAll();
readServer();
