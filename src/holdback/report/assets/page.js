"use strict";
// Draws what the page holds compressed, when it is looked at: the page itself must open at once.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const find = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  // Plotly reads some markup in its texts; ours are plain.
  const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

  function element(tag, text = "", classes = "") {
    const made = document.createElement(tag);
    made.textContent = text;
    made.className = classes;
    return made;
  }

  async function unpack(id) {
    if (!("DecompressionStream" in window)) throw new Error("this browser is from before 2023");
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  const once = (make) => {
    const made = new Map();
    return (key = "") => made.get(key) ?? made.set(key, make(key)).get(key);
  };

  const plotly = once(async () => {
    const script = document.createElement("script");
    script.textContent = await unpack("plotly");
    document.head.append(script);
    return window.Plotly;
  });
  const parcel = once(async (number) => JSON.parse(await unpack("parcel-" + number)));

  const buttonOf = (trial) => find(`.trials [data-open="${CSS.escape(trial)}"]`);

  async function lanesOf(trial) {
    const button = buttonOf(trial);
    if (!button) throw new Error("the timeline of " + trial + " is not in this page; holdback show prints it");
    return (await parcel(button.dataset.parcel))[trial];
  }

  // --- themes -------------------------------------------------------------------------------------------------------

  function themed(layout) {
    const line = colour("line");
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, tickcolor: line };
    const themed = {
      ...layout, paper_bgcolor: "transparent", plot_bgcolor: "transparent",
      font: { family: "system-ui, sans-serif", size: 12, color: colour("text") },
      hoverlabel: { ...layout.hoverlabel, bgcolor: colour("raised"), bordercolor: colour("soft"), font: { color: colour("text") } },
    };
    for (const name of ["xaxis", "yaxis"]) themed[name] = { ...axis, ...layout[name] };
    return themed;
  }

  const SETTINGS = { responsive: true, displaylogo: false, displayModeBar: false };
  const drawn = new Map(); // what draws each figure again, for another theme

  // One after the other for each box, and only what is still wanted when its turn comes: the last asked for stays.
  function draw(box, work) {
    drawn.set(box, work);
    box.setAttribute("aria-busy", "true");
    const turn = (box.turn ?? Promise.resolve()).then(() => drawn.get(box) === work && work()).catch((error) => {
      box.replaceChildren(element("p", "Cannot be drawn: " + error.message, "warning"));
    }).finally(() => {
      if (box.turn === turn) box.setAttribute("aria-busy", "false");
    });
    return (box.turn = turn);
  }
  dark.addEventListener("change", () => drawn.forEach((work, box) => draw(box, work)));

  // --- figures about all trials -------------------------------------------------------------------------------------

  async function figure(box) {
    box.source ??= JSON.parse(find("script", box).textContent);
    const { react } = await plotly();
    const place = box.plot ??= box.appendChild(element("div"));
    await react(place, box.source.data, themed(box.source.layout), SETTINGS);
  }

  // --- swim lanes ---------------------------------------------------------------------------------------------------

  const ROW = 40;
  const MARKS = {
    step: { symbol: "diamond", size: 9, colour: "text" },
    fault: { symbol: "line-ns-open", size: 12, colour: "text" },
    truth: { symbol: "line-ns-open", size: 14, colour: "text" },
    shadow: { symbol: "line-ns-open", size: 9, colour: "text" },
    request: { symbol: "circle-open", size: 6, colour: "soft" },
    refused: { symbol: "x", size: 10, colour: "violated" },
    passing: { symbol: "x-open", size: 7, colour: "soft" },
    note: { symbol: "triangle-up", size: 11, colour: "open" },
  };
  const height = (lane) => -lane - 0.14; // its title stands above

  function spans(data) {
    const states = new Map();
    for (const [lane, start, end, state] of data.spans) {
      const trace = states.get(state) ?? {
        type: "bar", orientation: "h", name: state, base: [], x: [], y: [], width: [], text: [],
        marker: { color: colour("s-" + state.replaceAll(" ", "-")) || colour("s-present"), opacity: [] },
        textposition: "none", hovertemplate: "%{text}<extra></extra>",
      };
      states.set(state, trace);
      const [title, kind] = data.lanes[lane];
      trace.base.push(start);
      trace.x.push(Math.max(end - start, 0.001));
      trace.y.push(height(lane));
      trace.width.push(kind === "shadow" ? 0.22 : 0.4);
      trace.marker.opacity.push(kind === "shadow" ? 0.65 : 1);
      trace.text.push(`<b>${plain(state)}</b> ${start.toFixed(2)} s to ${end.toFixed(2)} s<br>${plain(title)}`);
    }
    return [...states.values()];
  }

  function marks(data) {
    const tones = new Map();
    for (const [lane, seconds, number] of data.marks) {
      const [, where, tone, text] = data.entries[number];
      const style = MARKS[tone];
      const trace = tones.get(tone) ?? {
        type: "scatter", mode: "markers", name: tone, x: [], y: [], text: [], customdata: [],
        marker: { symbol: style.symbol, size: style.size, color: colour(style.colour), line: { width: 1.5, color: colour(style.colour) } },
        hovertemplate: "%{text}<extra></extra>",
      };
      tones.set(tone, trace);
      trace.x.push(seconds);
      trace.y.push(height(lane));
      trace.customdata.push(number);
      trace.text.push(`<b>${seconds.toFixed(3)} s</b> ${plain(where)}<br>${wrapped(plain(text))}`);
    }
    return [...tones.values()];
  }

  const wrapped = (text) => text.replace(/(.{60,90}?)[\s/]/g, "$&<br>").slice(0, 900);

  const faults = (data) => data.spans.filter(([lane]) => data.lanes[lane][1] === "fault");

  // Where any fault was in force: drawn once, however many overlap.
  function bands(data) {
    const merged = [];
    for (const [, start, end, state] of faults(data).sort((one, other) => one[1] - other[1])) {
      const last = merged.at(-1);
      if (last && start <= last.x1 + 0.05 && last.state === state) last.x1 = Math.max(last.x1, end);
      else merged.push({ x0: start, x1: end, state });
    }
    const band = { type: "rect", xref: "x", yref: "paper", y0: 0, y1: 1, layer: "below", line: { width: 0 } };
    return merged.map(({ x0, x1, state }) => ({ ...band, x0, x1, fillcolor: colour(state === "blocked" ? "blockband" : "band") }));
  }

  function partingLine(seconds) {
    if (seconds === undefined) return [];
    const line = { color: colour("violated"), width: 2, dash: "dash" };
    return [{ type: "line", xref: "x", yref: "paper", x0: seconds, x1: seconds, y0: 0, y1: 1, line, label: {
      text: "paths part", textposition: "start", textangle: 0, xanchor: "left", font: { color: colour("violated"), size: 11 } } }];
  }

  // Where a title is wider than the picture, its middle is left out: beginning and end tell lanes apart.
  function fitting(title, width) {
    const most = Math.max(12, Math.floor((width - 20) / 5.6));
    return title.length <= most ? title : title.slice(0, Math.ceil(most / 2) - 1) + "…" + title.slice(-Math.floor(most / 2));
  }

  function titles(data, width) {
    const title = { xref: "paper", x: 0, xanchor: "left", yanchor: "middle", showarrow: false, align: "left" };
    const faint = { ...title, font: { size: 11, color: colour("soft") } };
    return data.lanes.map(([name], lane) => ({ ...faint, y: -lane + 0.3, text: plain(fitting(name, width)) }));
  }

  // A step's name above its mark, unless the one before stands there.
  function steps(data, range, width) {
    const room = (range[1] - range[0]) / width;
    const shown = [];
    let free = -Infinity;
    for (const [, seconds, number] of data.marks) {
      const [, , tone, text] = data.entries[number];
      if (tone !== "step" || seconds < range[0] || seconds > range[1]) continue;
      const word = text.split(" ")[0], long = (word.length * 7 + 12) * room;
      const atEdge = seconds + long > range[1];
      if ((atEdge ? seconds - long : seconds) < free) continue;
      free = seconds + (atEdge ? 0 : long);
      shown.push({ x: seconds, y: 0.3, xanchor: atEdge ? "right" : "left", yanchor: "middle", text: plain(word), showarrow: false, xshift: atEdge ? 4 : -4, font: { size: 11, color: colour("text") } });
    }
    return shown;
  }

  function layoutOf(data, range, width, parting) {
    return themed({
      height: (data.lanes.length + (parting === undefined ? 0 : 0.35)) * ROW + 54, barmode: "overlay", bargap: 0, showlegend: false, hovermode: "closest", hoverdistance: 12,
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
      margin: { l: 6, r: 10, t: 6, b: 42 }, hoverlabel: { align: "left" },
      xaxis: { range: [...range], title: { text: "seconds since the trial began" }, zeroline: false },
      yaxis: { range: [-data.lanes.length + (parting === undefined ? 0.45 : 0.1), 0.6], visible: false, fixedrange: true },
      shapes: [...bands(data), ...partingLine(parting)], annotations: labels(data, range, width),
    });
  }

  const labels = (data, range, width) => [...titles(data, width).slice(1), ...steps(data, range, width)];

  function padded(start, end) {
    const margin = (end - start) * 0.03 + 0.01;
    return [start - margin, end + margin];
  }

  const whole = (data) => padded(0, data.seconds);

  function duringFaults(data) {
    const spans = faults(data);
    return spans.length ? padded(Math.min(...spans.map((span) => span[1])), Math.max(...spans.map((span) => span[2]))) : whole(data);
  }

  function legend(data) {
    const states = [...new Set(data.spans.map((span) => span[3]))];
    const made = element("div", "", "legend");
    for (const state of states) {
      const entry = element("span");
      const swatch = entry.appendChild(element("i"));
      swatch.style.background = `var(--s-${CSS.escape(state.replaceAll(" ", "-"))}, var(--s-present))`;
      entry.append(state);
      made.append(entry);
    }
    for (const [tone, words] of [
      ["step", "◆ step"], ["truth", "❘ change"], ["refused", "✖ refused write"],
      ["passing", "✕ conflict, or already gone"], ["request", "○ request"],
    ])
      if (data.entries.some((entry) => entry[2] === tone)) made.append(element("span", words, "t-" + tone));
    return made;
  }

  function tools(data, title, view) {
    const made = element("div", "", "tools");
    made.append(element("strong", title, "title"));
    const buttons = made.appendChild(element("span"));
    const zoom = (factor) => ([low, high]) => {
      const middle = (low + high) / 2, half = ((high - low) / 2) * factor;
      return [middle - half, middle + half];
    };
    for (const [word, label, change] of [
      ["−", "zoom out", zoom(1.6)], ["+", "zoom in", zoom(1 / 1.6)],
      ["◂", "earlier", ([low, high]) => [low - (high - low) / 3, high - (high - low) / 3]],
      ["▸", "later", ([low, high]) => [low + (high - low) / 3, high + (high - low) / 3]],
      ["fault", "while faults were in force", () => duringFaults(data)], ["all", "the whole trial", () => whole(data)],
    ]) {
      const button = buttons.appendChild(element("button", word));
      button.type = "button";
      button.title = label;
      button.setAttribute("aria-label", label);
      button.addEventListener("click", () => view(change));
    }
    return made;
  }

  async function lanes(box, trial, { until, parting, chosen = () => {} } = {}) {
    const [data, library] = await Promise.all([lanesOf(trial), plotly()]);
    const place = element("div");
    const range = () => place.layout.xaxis.range.map(Number);
    const show = (to) => library.relayout(place, { "xaxis.range": to, annotations: labels(data, to, place.clientWidth) });
    box.replaceChildren(tools(data, trial, (change) => show(change(range()))), legend(data), place);
    const from = until === undefined ? whole(data) : padded(0, until);
    const layout = layoutOf(data, from, place.clientWidth, parting);
    await library.newPlot(place, [...spans(data), ...marks(data)], layout, { ...SETTINGS, doubleClick: false });
    place.on("plotly_doubleclick", () => show(whole(data)));
    place.on("plotly_relayout", (change) => {
      if ("xaxis.range[0]" in change) show(range());
    });
    place.on("plotly_click", ({ points }) => points[0].customdata !== undefined && chosen(points[0].customdata));
    return data;
  }

  function lanesBeside(box) {
    const number = (text) => (text === undefined ? undefined : Number(text));
    return lanes(box, box.dataset.trial, { until: number(box.dataset.until), parting: number(box.dataset.parting) });
  }

  // --- the viewer of one trial --------------------------------------------------------------------------------------

  const viewer = find("#viewer");
  const box = find("#viewer-figure");

  function list(data) {
    const listed = data.entries.map(([seconds, lane, tone, text]) => {
      const line = element("li", "", "t-" + tone);
      line.append(element("time", seconds.toFixed(3)), element("span", lane), element("span", text));
      return line;
    });
    find("#viewer-entries").replaceChildren(...listed);
    find('[data-show="shadow"]').parentElement.hidden = !data.entries.some((entry) => entry[2] === "shadow");
  }

  function point(number) {
    const lines = all("#viewer-entries li");
    lines.forEach((line, at) => line.classList.toggle("here", at === number));
    const tone = lines[number].className;
    for (const hidden of ["shadow", "request"]) if (tone.includes("t-" + hidden)) show(hidden, true);
    lines[number].scrollIntoView({ block: "center" });
  }

  function show(tone, on) {
    viewer.classList.toggle("show-" + tone, on);
    find(`[data-show="${tone}"]`).checked = on;
  }

  async function open(trial) {
    const row = buttonOf(trial)?.closest("tr");
    if (!row) return;
    find("#viewer-title").textContent = trial;
    find("#viewer-about").replaceChildren(find(".badge", row).cloneNode(true), " ", find(".why", row).textContent);
    find("#viewer-entries").replaceChildren();
    viewer.dataset.trial = trial;
    viewer.scrollTop = 0;
    if (!viewer.open) viewer.showModal();
    history.replaceState(null, "", "#trial=" + encodeURIComponent(trial));
    await draw(box, async () => {
      const data = await lanes(box, trial, { chosen: point });
      if (viewer.dataset.trial === trial) list(data);
    });
  }

  function step(by) {
    const rows = all(".trials tbody tr:not([hidden]) [data-open]").map((button) => button.dataset.open);
    const next = rows[rows.indexOf(viewer.dataset.trial) + by];
    if (next) open(next);
  }

  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (!button) return;
    if (button.dataset.open) open(button.dataset.open);
    if (button.dataset.step) step(Number(button.dataset.step));
    if ("close" in button.dataset) viewer.close();
    if ("copy" in button.dataset) copy(button);
  });
  viewer.addEventListener("close", () => {
    drawn.delete(box);
    history.replaceState(null, "", location.pathname + location.search);
  });
  all("[data-show]").forEach((input) => input.addEventListener("change", () => show(input.dataset.show, input.checked)));

  async function copy(button) {
    await navigator.clipboard?.writeText(find("code", button.parentElement).textContent);
    button.textContent = "copied";
  }

  // --- the table of trials ------------------------------------------------------------------------------------------

  const experiment = find(".filters select");
  function filter() {
    const groups = new Set(all("input[data-group]:checked").map((input) => input.dataset.group));
    for (const row of all(".trials tbody tr"))
      row.hidden = !groups.has(row.dataset.group) || Boolean(experiment?.value && experiment.value !== row.dataset.experiment);
  }
  all("input[data-group]").forEach((input) => input.addEventListener("change", filter));
  experiment?.addEventListener("change", filter);

  // --- drawn when looked at -----------------------------------------------------------------------------------------

  const watcher = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      draw(target, () => (target.dataset.trial ? lanesBeside(target) : figure(target)));
    }
  }, { rootMargin: "300px" });
  all("main .figure").forEach((each) => watcher.observe(each));

  const asked = /^#trial=(.+)$/.exec(location.hash);
  if (asked) open(decodeURIComponent(asked[1]));
})();
