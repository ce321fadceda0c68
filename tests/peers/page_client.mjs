// The page at / in a headless Chromium: a chat, attachments, Markdown, calls, curves, what is said of the model, and that nothing that a model
// writes runs. BANTAM_PICTURES names a folder for pictures of it.
import assert from "node:assert/strict";
import {mkdtempSync, writeFileSync} from "node:fs";
import {tmpdir} from "node:os";
import path from "node:path";
import {load, run, served} from "./client_facts.mjs";

const url = process.argv[2], pictures = process.env.BANTAM_PICTURES;
const puppeteer = (await load("puppeteer-core")).default;
const browser = await puppeteer.launch({executablePath: process.env.BANTAM_CHROMIUM ?? "/usr/bin/chromium", headless: true, args: ["--no-sandbox", "--disable-gpu"]});
const page = await browser.newPage();
await page.setViewport({width: 1000, height: 900});
const complaints = [];
page.on("console", (line) => ["error", "warn"].includes(line.type()) && complaints.push(`${line.text()} ${line.location().url}`));
page.on("pageerror", (error) => complaints.push(String(error)));

const look = async (name) => pictures && page.screenshot({path: path.join(pictures, `${name}.png`)});
const note = async (number) => (await page.$$eval("article.assistant footer", (all) => all.map((node) => node.textContent)))[number];
const ended = (count) => page.waitForFunction((n) => document.querySelectorAll("article.assistant footer").length >= n && document.getElementById("send").textContent === "Send", {timeout: 60000}, count);

// What other models write: thoughts, Markdown, markup that is none, a call.
const markdown = "# A heading\n\nText with `code`, **strong** and [a link](https://example.org) [none](javascript:alert(1)).\n\n- one\n  - inner\n- two\n\n1. first\n\n" +
  "| a | b |\n|---|---|\n| 1 | 2 |\n\n```js\nlet x = '<b>';\n```\n<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>";
const replies = [
  [{reasoning_content: "First I **think**."}, {content: markdown}, {tool_calls: [{index: 0, id: "call_1", function: {name: "weather", arguments: "{\"city\": "}}]},
   {tool_calls: [{index: 0, function: {arguments: "\"Oslo\"}"}}]}],
  [{content: "Rain."}],
];
const asked = [];

/// Answers the page's chats in the server's place.
async function stand_in() {
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    if (!request.url().endsWith("/v1/chat/completions")) return request.continue();
    const events = replies[asked.length].map((delta) => `data: ${JSON.stringify({choices: [{index: 0, delta, finish_reason: null}]})}\n\n`);
    asked.push(JSON.parse(request.postData()));
    request.respond({status: 200, contentType: "text/event-stream", body: events.join("") + 'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}\n\ndata: [DONE]\n\n'});
  });
}

await run({
  "it asks for the key, and names the model": async () => {
    await page.goto(url);
    await page.waitForFunction(() => document.getElementById("state").textContent.includes("API key"));
    complaints.length = 0;  // of the 401
    await page.click("#settings summary");
    await page.type("#key", "secret");
    await page.type("#max_tokens", "40");
    await page.type("#temperature", "0");
    await page.waitForFunction(() => document.querySelectorAll("#model option").length > 0);
    assert.equal(await page.$eval("#model", (node) => node.value), process.argv[3]);
  },
  "a reply is written and counted": async () => {
    await page.type("#text", "Once upon a time");
    await page.keyboard.press("Enter");
    await ended(1);
    assert.ok((await page.$eval("article.assistant", (node) => node.textContent.length)) > 20);
    assert.match(await note(0), /^\d+ prompt tokens, \d+ of them cached · \d+ generated/);
  },
  "the second turn reads what is new alone": async () => {
    await page.type("#text", "And then?");
    await page.click("#send");
    await ended(2);
    const [, read, there] = (await note(1)).match(/(\d+) prompt tokens, (\d+) of them/);
    assert.ok(there > read / 2, `${there} of ${read}`);
  },
  "a file becomes part of the message": async () => {
    const file = path.join(mkdtempSync(path.join(tmpdir(), "bantam-page-")), "note.txt");
    writeFileSync(file, "a ``` in a text");
    await (await page.$("#attach")).uploadFile(file);
    await page.waitForSelector(".file");
    await page.click("#send");
    await ended(3);
    const said = await page.$$eval("article.user", (all) => all.at(-1).textContent);
    assert.ok(said.startsWith("note.txt:\n````\na ``` in a text\n````"), said);
    await look("chat");
  },
  "a talk outlives a reload": async () => {
    await page.reload();
    await page.waitForFunction(() => document.querySelectorAll("article").length === 6);
  },
  "Markdown becomes nodes, markup stays text, and links lead to the web alone": async () => {
    await stand_in();
    await page.type("#text", "Weather?");
    await page.click("#send");
    await ended(4);
    await look("markdown");
    const seen = await page.$$eval("article.assistant", (all) => {
      const count = (what) => all.at(-1).querySelectorAll(what).length;
      return {thoughts: count("details strong"), headings: count("h1"), inner: count("ul ul li"), ordered: count("ol > li"), cells: count("td"), images: count("img, script"),
              code: all.at(-1).querySelector("pre code").textContent, links: [...all.at(-1).querySelectorAll("a")].map((a) => a.href)};
    });
    assert.deepEqual(seen, {thoughts: 1, headings: 1, inner: 1, ordered: 1, cells: 2, images: 0, code: "let x = '<b>';", links: ["https://example.org/"]});
    assert.equal(await page.title(), "bantam");
  },
  "a call is shown whole, and what a tool answers goes back with it": async () => {
    assert.equal(await page.$eval(".call code", (node) => node.textContent), 'weather({"city": "Oslo"})');
    await page.type(".call textarea", "12 degrees");
    await page.click(".call button");
    await ended(5);
    const [call, answer] = asked[1].messages.slice(-2);
    assert.deepEqual(call, {role: "assistant", content: markdown, reasoning_content: "First I **think**.", tool_calls: [{id: "call_1", type: "function", function: {name: "weather", arguments: '{"city": "Oslo"}'}}]});
    assert.deepEqual(answer, {role: "tool", tool_call_id: "call_1", content: "12 degrees"});
  },
  "curves are drawn": async () => {
    await page.click("nav [data-tab=figures]");
    await page.waitForFunction(() => [...document.querySelectorAll("#figures path")].filter((node) => node.getAttribute("d").includes("L")).length > 4, {timeout: 20000});
    await look("figures");
  },
  "the model is described": async () => {
    await page.click("nav [data-tab=about]");
    await page.waitForSelector("#about tr");
    assert.match(await page.$eval("#about", (node) => node.textContent), /n_ctx/);
  },
  "with what is planned of it": async () => {
    await page.waitForFunction(() => /^fits in memory, about [\d.]+ tok\/s, up to \d+ tokens$/.test(document.getElementById("plan").textContent), {timeout: 60000});
    await look("about");
  },
  "another model is chosen, with its status": async () => {
    const [first, other] = served(process.argv[3]);
    const shown = () => page.$$eval("#model option", (all) => all.map((node) => node.textContent));
    if (other === undefined) return assert.deepEqual(await shown(), [first]);
    assert.deepEqual(await shown(), [first, `${other} (unloaded)`]);
    await page.select("#model", other);
    await page.waitForFunction((name) => document.getElementById("about").textContent.includes(name), {}, other);
    assert.doesNotMatch(await page.$eval("#about", (node) => node.textContent), /n_ctx/);
    await page.waitForFunction(() => document.getElementById("plan").textContent.startsWith("fits in memory"), {timeout: 60000});
    assert.deepEqual(await shown(), [first, `${other} (unloaded)`]);  // nobody loaded it to say so
    // The server answers again.
    page.removeAllListeners("request");
    await page.setRequestInterception(false);
    await page.click("nav [data-tab=chat]");
    await page.click("#fresh");
    await page.type("#text", "Once");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => /generated/.test(document.querySelector("article.assistant footer")?.textContent ?? ""), {timeout: 60000});
    await page.waitForFunction((n) => document.querySelectorAll("#model option")[1].textContent === n, {}, other);
    assert.equal(await page.$eval("#model", (node) => node.value), other);
  },
  "the browser complains of nothing": async () => {
    await browser.close();
    assert.deepEqual(complaints, []);
  },
});
