// /metrics as curves: counters as rates, histograms as means of what came since the last look.

const most = 180;
const seconds = 2;

/** name -> the sum over labels. */
function parse(text) {
  const values = new Map();
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const space = line.lastIndexOf(" ");
    const brace = line.indexOf("{");
    const name = line.slice(0, brace < 0 ? space : brace);
    values.set(name, (values.get(name) ?? 0) + Number(line.slice(space + 1)));
  }
  return values;
}

const rate = (name) => (now, before, passed) => ((now.get(name) ?? 0) - (before.get(name) ?? 0)) / passed;
const gauge = (name, scale = 1) => (now) => (now.get(name) ?? 0) * scale;
const mean = (name, scale) => (now, before) => {
  const count = (now.get(`${name}_count`) ?? 0) - (before.get(`${name}_count`) ?? 0);
  return count > 0 ? (scale * ((now.get(`${name}_sum`) ?? 0) - (before.get(`${name}_sum`) ?? 0))) / count : null;
};

const curves = [
  {title: "Generated tokens", unit: "a second", value: rate("llamacpp:tokens_predicted_total")},
  {title: "Prompt tokens", unit: "a second", value: rate("llamacpp:prompt_tokens_total")},
  {title: "Prompt tokens from the cache", unit: "a second", value: rate("vllm:prefix_cache_hits_total")},
  {title: "Running", unit: "", value: gauge("llamacpp:requests_processing")},
  {title: "Waiting", unit: "", value: gauge("llamacpp:requests_deferred")},
  {title: "Time to first token", unit: "ms", value: mean("vllm:time_to_first_token_seconds", 1000)},
  {title: "Time between tokens", unit: "ms", value: mean("vllm:inter_token_latency_seconds", 1000)},
  {title: "KV cache and states", unit: "MB", value: gauge("bantam:kv_bytes", 1e-6)},
  {title: "Connections", unit: "", value: gauge("bantam:connections")},
];

const short = (value) => (value === null ? "–" : value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2).replace(/\.?0+$/, "") || "0");

function shape(name, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

function draw(svg, samples) {
  const width = 300, height = 80;
  const known = samples.filter((value) => value !== null);
  const top = Math.max(1e-9, ...known) * 1.1;
  const parts = [];
  let pen = "M";
  samples.forEach((value, i) => {
    if (value === null) {
      pen = "M";
      return;
    }
    parts.push(`${pen}${(((i + most - samples.length) / (most - 1)) * width).toFixed(1)} ${(height - (value / top) * height).toFixed(1)}`);
    pen = "L";
  });
  svg.replaceChildren(shape("line", {x1: 0, x2: width, y1: height, y2: height, class: "axis"}), shape("path", {d: parts.join(""), class: "curve"}));
}

/** Looks at the server while `place` is shown. ask(path) fetches, model() is whose figures they are. */
export function show(place, ask, model) {
  const charts = curves.map((curve) => {
    const box = document.createElement("section"), head = document.createElement("h2"), now = document.createElement("output");
    const svg = shape("svg", {viewBox: "0 0 300 80", preserveAspectRatio: "none", role: "img", "aria-label": curve.title});
    head.textContent = curve.title;
    box.append(head, now, svg);
    place.append(box);
    return {...curve, now, svg, samples: []};
  });
  const complaint = document.createElement("p");
  place.append(complaint);
  let before = null, looked = 0, of = null;
  const look = async () => {
    if (place.hidden || document.hidden) {
      before = null;
      return;
    }
    try {
      if (model() !== of) before = null;
      of = model();
      const reply = await ask(`/metrics?model=${encodeURIComponent(of)}`);
      if (!reply.ok) throw new Error(`${reply.status}: set the API key in the chat's settings?`);
      const values = parse(await reply.text()), time = performance.now();
      complaint.textContent = "";
      if (before !== null) {
        for (const chart of charts) {
          const value = chart.value(values, before, (time - looked) / 1000);
          chart.samples.push(value);
          if (chart.samples.length > most) chart.samples.shift();
          chart.now.textContent = `${short(value)} ${value === null ? "" : chart.unit}`;
          draw(chart.svg, chart.samples);
        }
      }
      before = values;
      looked = time;
    } catch (error) {
      complaint.textContent = `The server does not say: ${error.message}`;
    }
  };
  setInterval(look, 1000 * seconds);
  return look;
}
