// Markdown as nodes. Everything is set as text: what a model writes never becomes markup of its own.

function element(name, ...children) {
  const node = document.createElement(name);
  node.append(...children);
  return node;
}

// Each alternative ends at the first sign of its own kind or at the line's end, so that a line is read in linear time.
const inline = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|__([^_\n]+)__|\*([^*\s][^*\n]*)\*|~~([^~\n]+)~~|\[([^\]\n]+)\]\((https?:[^)\s]+|mailto:[^)\s]+)\)/g;

function spans(text) {
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(inline)) {
    nodes.push(text.slice(at, found.index));
    at = found.index + found[0].length;
    const [, code, strong, strong2, em, del, label, href] = found;
    if (code !== undefined) nodes.push(element("code", code));
    else if (strong !== undefined || strong2 !== undefined) nodes.push(element("strong", strong ?? strong2));
    else if (em !== undefined) nodes.push(element("em", em));
    else if (del !== undefined) nodes.push(element("del", del));
    else {
      const link = element("a", label);
      link.href = href;
      link.rel = "noopener noreferrer";
      link.target = "_blank";
      nodes.push(link);
    }
  }
  nodes.push(text.slice(at));
  return nodes;
}

function codeBlock(text, language) {
  const copy = element("button", "Copy");
  copy.type = "button";
  copy.onclick = () => navigator.clipboard?.writeText(text).then(() => (copy.textContent = "Copied"));
  const block = element("pre", element("code", text));
  if (language) block.dataset.language = language;
  const box = element("div", copy, block);
  box.className = "code";
  return box;
}

const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());
const isRule = (line) => /^[|:\-\s]+$/.test(line) && line.includes("-") && line.includes("|");
const item = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

/** A list from line `at` on, those that stand further in as lists of their own. Returns the node and the line behind it. */
function list(lines, at, depth = 0) {
  const [, indent, mark] = lines[at].match(item);
  const node = element(/\d/.test(mark) ? "ol" : "ul");
  if (/\d/.test(mark)) node.start = parseInt(mark, 10);
  while (at < lines.length) {
    const found = lines[at].match(item);
    if (found && found[1].length >= indent.length + 2 && depth < 8 && node.lastChild) {
      const [inner, next] = list(lines, at, depth + 1);
      node.lastChild.append(inner);
      at = next;
    } else if (found && found[1].length >= indent.length) {
      node.append(element("li", ...spans(found[3])));
      ++at;
    } else if (!found && /^\s{2,}\S/.test(lines[at]) && node.lastChild) {
      node.lastChild.append(" ", ...spans(lines[at].trim()));
      ++at;
    } else {
      break;
    }
  }
  return [node, at];
}

function table(lines, at) {
  const head = element("tr", ...cells(lines[at]).map((cell) => element("th", ...spans(cell))));
  const node = element("table", element("thead", head));
  const body = element("tbody");
  for (at += 2; at < lines.length && lines[at].includes("|") && lines[at].trim() !== ""; ++at) {
    body.append(element("tr", ...cells(lines[at]).map((cell) => element("td", ...spans(cell)))));
  }
  node.append(body);
  return [node, at];
}

/** Nodes for a text. */
export function render(text) {
  const lines = text.split("\n");
  const out = document.createDocumentFragment();
  let paragraph = [];
  const flush = () => {
    if (paragraph.length === 0) return;
    const node = element("p");
    paragraph.forEach((line, i) => node.append(...(i > 0 ? [element("br")] : []), ...spans(line)));
    out.append(node);
    paragraph = [];
  };
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const fence = line.match(/^\s*(```+|~~~+)\s*(\S*)/);
    const heading = line.match(/^(#{1,6})\s+(.*)$/);
    if (fence) {
      flush();
      const ends = (other) => other.startsWith(fence[1]) && other.replaceAll(fence[1][0], "") === "";
      let last = at + 1;
      while (last < lines.length && !ends(lines[last].trim())) ++last;
      out.append(codeBlock(lines.slice(at + 1, last).join("\n"), fence[2]));
      at = last + 1;
    } else if (heading) {
      flush();
      out.append(element(`h${heading[1].length}`, ...spans(heading[2])));
      ++at;
    } else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) {
      flush();
      out.append(element("hr"));
      ++at;
    } else if (item.test(line)) {
      flush();
      const [node, next] = list(lines, at);
      out.append(node);
      at = next;
    } else if (line.startsWith(">")) {
      flush();
      const begin = at;
      while (at < lines.length && lines[at].startsWith(">")) ++at;
      out.append(element("blockquote", ...lines.slice(begin, at).flatMap((quoted, i) => [...(i > 0 ? [element("br")] : []), ...spans(quoted.replace(/^>+\s?/, ""))])));
    } else if (line.includes("|") && at + 1 < lines.length && isRule(lines[at + 1])) {
      flush();
      const [node, next] = table(lines, at);
      out.append(node);
      at = next;
    } else {
      if (line.trim() === "") flush();
      else paragraph.push(line);
      ++at;
    }
  }
  flush();
  return out;
}
