"use strict";
// Draws the pictures of a page from the data in it. Text from data goes into text nodes only.

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const redraws = []; // what has to be drawn anew when the window or the theme changes

// ---- elements and numbers

function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value;
    else if (key in element && typeof value !== "string") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function shape(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function short(value) {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (Math.abs(value) >= size) return digits(value / size) + letter;
  }
  return digits(value);
}

function digits(value) {
  return String(Number(value.toPrecision(3)));
}

function ticks(low, high, most) {
  const rough = (high - low) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((x) => x >= rough);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++) found.push(k * step);
  return found;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function lineColour(place) {
  const chosen = data.colours[place % data.colours.length];
  return chosen === "#000000" ? "var(--seventh)" : chosen;
}

// ---- light and dark

function setUpTheme() {
  const button = document.getElementById("theme");
  const root = document.documentElement;
  const wish = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : wish.matches);
  const show = () => {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Show the page ${dark() ? "light" : "dark"}`);
    redraws.forEach((draw) => draw());
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    show();
  });
  wish.addEventListener("change", show);
  show();
}

// ---- charts of lines

// A chart in `place`. `read()` gives its lines as they are wanted now:
// {name, colour, dash, width, opacity, steps, values, low, high, told}; those that are `told` are
// read out where the pointer or the slider is.
function chart(place, { label, x, y, limits, read }) {
  const picture = shape("svg", { role: "img", "aria-label": label });
  const tip = make("div", { class: "tip", hidden: true });
  const slider = make("input", { type: "range", min: "0", value: "0", "aria-label": `${x}: read the curves` });
  const said = make("p", { class: "read" });
  place.append(picture, tip, slider, said);
  let lines, scales, grid;

  function draw() {
    lines = read();
    const width = Math.max(place.clientWidth, 240);
    const height = Math.round(Math.min(Math.max(width * 0.5, 250), 400));
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.replaceChildren();
    const told = lines.filter((line) => line.told);
    grid = [...new Set(told.flatMap((line) => line.steps))].sort((a, b) => a - b);
    slider.max = String(Math.max(grid.length - 1, 0));
    slider.disabled = !grid.length;
    tip.hidden = true;
    scales = frame(picture, width, height, lines, limits, x, y);
    for (const line of lines) band(picture, scales, line);
    for (const line of lines) path(picture, scales, line);
  }

  function point(index) {
    if (!grid.length) return;
    const at = grid[index];
    picture.querySelectorAll(".pointer").forEach((old) => old.remove());
    const left = scales.x(at);
    picture.append(shape("line", { class: "cursor pointer", x1: left, x2: left, y1: scales.top, y2: scales.bottom }));
    const rows = lines.filter((line) => line.told).map((line) => [line, valueAt(line, at)]).filter((row) => row[1] !== null);
    for (const [line, now] of rows) {
      picture.append(shape("circle", { class: "pointer", cx: left, cy: scales.y(now.value), r: 4, fill: line.colour }));
    }
    rows.sort((a, b) => b[1].value - a[1].value);
    const texts = rows.map(([line, now]) => `${line.name}: ${digits(now.value)}${now.more}`);
    const heading = `${x}: ${short(at)}`;
    tip.replaceChildren(make("strong", {}, heading), ...rows.map(([line], k) => make("div", {}, swatch(line), texts[k])));
    // On a telephone the tip would hide the picture; what it says stands under the slider.
    tip.hidden = place.clientWidth < 500;
    const room = place.clientWidth - tip.offsetWidth;
    tip.style.left = `${Math.max(Math.min(left + 14 > room ? left - tip.offsetWidth - 14 : left + 14, room), 0)}px`;
    tip.style.top = `${picture.getBoundingClientRect().top - place.getBoundingClientRect().top + scales.top}px`;
    said.textContent = `${heading}. ${texts.join("; ")}`;
    slider.value = String(index);
    slider.setAttribute("aria-valuetext", said.textContent);
  }

  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const at = scales.x.back(((event.clientX - box.left) / box.width) * picture.viewBox.baseVal.width);
    point(nearest(grid, at));
  });
  picture.addEventListener("pointerleave", () => {
    tip.hidden = true;
    picture.querySelectorAll(".pointer").forEach((old) => old.remove());
  });
  slider.addEventListener("input", () => point(Number(slider.value)));
  slider.addEventListener("blur", () => (tip.hidden = true));
  redraws.push(draw);
  return draw;
}

function nearest(grid, at) {
  let best = 0;
  grid.forEach((value, k) => {
    if (Math.abs(value - at) < Math.abs(grid[best] - at)) best = k;
  });
  return best;
}

// The value of a line, which is straight between its points and keeps its last.
function valueAt(line, at) {
  const { steps } = line;
  if (!steps.length || at < steps[0]) return null;
  let k = steps.length - 1;
  while (steps[k] > at) k--;
  const next = Math.min(k + 1, steps.length - 1);
  const share = next > k ? (at - steps[k]) / (steps[next] - steps[k]) : 0;
  const mix = (values) => values[k] + share * (values[next] - values[k]);
  const more = line.low ? ` [${digits(mix(line.low))}, ${digits(mix(line.high))}]` : "";
  return { value: mix(line.values), more };
}

function frame(picture, width, height, lines, limits, xName, yName) {
  const xs = lines.flatMap((line) => line.steps);
  const ys = lines.flatMap((line) => [...line.values, ...(line.low || []), ...(line.high || [])]).concat(limits);
  let low = Math.min(...(ys.length ? ys : [0]));
  let high = Math.max(...(ys.length ? ys : [1]));
  if (high - low < 1e-12) [low, high] = [low - 1, high + 1];
  const pad = 0.04 * (high - low);
  const [left, right, top, bottom] = [52, width - 14, 12, height - 40];
  const first = Math.min(0, ...xs);
  const x = scale(first, Math.max(...xs, first + 1), left, right);
  const y = scale(low - pad, high + pad, bottom, top);
  for (const value of ticks(low - pad, high + pad, height / 50)) {
    picture.append(shape("line", { class: "grid", x1: left, x2: right, y1: y(value), y2: y(value) }));
    picture.append(shape("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  }
  for (const value of ticks(x.low, x.high, width / 110)) {
    picture.append(shape("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, short(value)));
  }
  for (const value of limits) {
    picture.append(shape("line", { class: "limit", x1: left, x2: right, y1: y(value), y2: y(value) }));
  }
  picture.append(shape("text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle" }, xName));
  const turned = `translate(12 ${(top + bottom) / 2}) rotate(-90)`;
  picture.append(shape("text", { transform: turned, "text-anchor": "middle" }, 7 * yName.length > bottom - top ? yName.split(" (")[0] : yName));
  return { x, y, top, bottom };
}

function scale(low, high, from, to) {
  const at = (value) => from + ((value - low) / (high - low)) * (to - from);
  at.back = (place) => low + ((place - from) / (to - from)) * (high - low);
  return Object.assign(at, { low, high });
}

function band(picture, { x, y }, line) {
  if (!line.low) return;
  const there = line.steps.map((step, k) => `${x(step)},${y(line.high[k])}`);
  const back = line.steps.map((step, k) => `${x(step)},${y(line.low[k])}`).reverse();
  picture.append(shape("polygon", { points: [...there, ...back].join(" "), fill: line.colour, opacity: 0.16 }));
}

function path(picture, { x, y }, line) {
  const points = line.steps.map((step, k) => `${k ? "L" : "M"}${x(step).toFixed(1)} ${y(line.values[k]).toFixed(1)}`);
  const style = { d: points.join(""), stroke: line.colour, "stroke-width": line.width, opacity: line.opacity };
  if (line.dash) style["stroke-dasharray"] = line.dash;
  picture.append(shape("path", style));
  if (line.steps.length === 1) {
    picture.append(shape("circle", { cx: x(line.steps[0]), cy: y(line.values[0]), r: 3, fill: line.colour }));
  }
}

function swatch(line) {
  const mark = make("span", { class: "swatch", "aria-hidden": "true" });
  mark.style.background = line.colour;
  return mark;
}

function tick(text, checked, change, ...marks) {
  const box = make("input", { type: "checkbox", checked });
  box.addEventListener("change", () => change(box.checked));
  return make("label", {}, box, ...marks, ` ${text}`);
}

// ---- learning curves

function setUpCurves() {
  const controls = document.querySelector("[data-for=curves]");
  if (!controls) return;
  const names = [...new Set(data.panels.flatMap((panel) => panel.methods.map((method) => method.name)))];
  const draws = [];
  for (const place of document.querySelectorAll("[data-curves]")) {
    const panel = data.panels[Number(place.dataset.curves)];
    const hidden = { methods: new Set(), seeds: new Set() };
    const keys = make("fieldset", { class: "keys" }, make("legend", {}, "Shown:"));
    const limits = panel.threshold === null ? [] : [panel.threshold];
    const about = panel.methods.map((method) => {
      const last = method.iqm[method.iqm.length - 1];
      return `${method.name}, ${method.seeds.length} seeds, ends at ${digits(last)}`;
    });
    const draw = chart(place, {
      label: `${panel.environment}: ${panel.label} over steps. ${about.join("; ")}. A table follows.`,
      x: "steps",
      y: panel.label,
      limits,
      read: () => curveLines(panel, names, hidden, controls),
    });
    panel.methods.forEach((method, number) => {
      const line = { colour: lineColour(names.indexOf(method.name)) };
      const turn = (set, key) => (on) => {
        if (on) set.delete(key);
        else set.add(key);
        draw();
      };
      const count = `${method.seeds.length} seed${method.seeds.length === 1 ? "" : "s"}`;
      keys.append(tick(`${method.name} (${count})`, true, turn(hidden.methods, number), swatch(line)));
    });
    const seeds = make("details", {}, make("summary", {}, "Single seeds"));
    for (const [number, method] of panel.methods.entries()) {
      const row = make("fieldset", { class: "keys" }, make("legend", {}, `${method.name}:`));
      method.seeds.forEach((each, k) => {
        const key = `${number}/${k}`;
        const change = (on) => {
          if (on) hidden.seeds.delete(key);
          else hidden.seeds.add(key);
          controls.querySelector("[name=seeds]").checked = true;
          draws.forEach((one) => one());
        };
        row.append(tick(String(each.seed), true, change));
      });
      seeds.append(row);
    }
    keys.append(seeds);
    place.prepend(keys);
    draws.push(draw);
  }
  controls.addEventListener("change", () => draws.forEach((draw) => draw()));
}

function curveLines(panel, names, hidden, controls) {
  const mean = controls.querySelector("[name=statistic]:checked").value === "mean";
  const isOn = (name) => Boolean(controls.querySelector(`[name=${name}]`)?.checked);
  const lines = [];
  panel.methods.forEach((method, number) => {
    if (hidden.methods.has(number)) return;
    const place = names.indexOf(method.name);
    const style = { colour: lineColour(place), dash: place < data.colours.length ? "" : "8 3" };
    if (isOn("seeds")) {
      method.seeds.forEach((each, k) => {
        if (hidden.seeds.has(`${number}/${k}`)) return;
        lines.push({ ...style, name: `${method.name}, seed ${each.seed}`, steps: each.steps, values: each.values, width: 1, opacity: 0.55 });
      });
    }
    if (isOn("exploiting") && method.exploiting) {
      lines.push({ ...style, ...method.exploiting, name: `${method.name}, exploiting`, dash: "5 4", width: 1.5, opacity: 1, told: true });
    }
    const values = mean ? method.mean : method.iqm;
    const around = (sign) => method.spread && values.map((value, k) => value + sign * method.spread[k]);
    lines.push({
      ...style,
      name: method.name,
      steps: method.steps,
      values,
      low: mean ? around(-1) : method.low,
      high: mean ? around(1) : method.high,
      width: 2.2,
      opacity: 1,
      told: true,
    });
  });
  return lines;
}

function setUpCertificates() {
  for (const place of document.querySelectorAll("[data-certificate]")) {
    const found = data.certificates[place.dataset.certificate];
    const lines = Object.entries(found.lines).map(([name, values], k) => {
      return { name, values, steps: found.epochs, colour: lineColour(k), width: 2.2, opacity: 1, told: true };
    });
    const ends = lines.map((line) => `${line.name} ends at ${digits(line.values[line.values.length - 1])}`);
    chart(place, {
      label: `Values over epochs; V* is ${digits(found.optimum)}. ${ends.join("; ")}.`,
      x: "epoch",
      y: "value (dotted: V*)",
      limits: [found.optimum],
      read: () => lines,
    });
    place.prepend(make("p", { class: "keys" }, ...lines.map((line) => make("span", {}, swatch(line), line.name))));
  }
}

// ---- grids

const VIRIDIS = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];

function ramp(stops) {
  const parts = stops.map((text) => [1, 3, 5].map((k) => parseInt(text.slice(k, k + 2), 16)));
  return (share) => {
    const at = Math.min(Math.max(share, 0), 1) * (parts.length - 1);
    const k = Math.min(Math.floor(at), parts.length - 2);
    return parts[k].map((from, i) => Math.round(from + (at - k) * (parts[k + 1][i] - from)));
  };
}

// Counts as [first axis, second axis], from pairs of a gap and a count.
function counts({ shape: [width, height], pairs }) {
  const cells = new Float64Array(width * height);
  for (let k = 0, at = -1; k < pairs.length; k += 2) {
    at += pairs[k] + 1;
    cells[at] = pairs[k + 1];
  }
  return { width, height, cells };
}

function bonus({ shape: [width, height], parts, largest }) {
  const bytes = Uint8Array.from(atob(parts), (letter) => letter.charCodeAt(0));
  return { width, height, cells: Float64Array.from(bytes, (part) => (part / 255) * largest) };
}

// A map of a grid on a canvas. `show(grid, share, name)` draws it: `share` is the place of a value in
// the colours, `name` says the value of a cell.
function map(title, axes, { goal, start }, colours) {
  const heading = make("h4", {}, title);
  const canvas = make("canvas", { role: "img", tabindex: "0" });
  const bar = make("canvas", { "aria-hidden": "true" });
  const said = make("p", { class: "read", "aria-live": "polite" });
  const box = make("div", {}, heading, canvas, bar, said);
  let now = null;
  let cell = null;

  function sides() {
    const width = Math.max(Math.min(box.clientWidth, 620), 200);
    const rows = now ? now.grid.height : 1;
    const flat = now && rows < 5 && now.grid.width > rows;
    return { width, height: flat ? 60 + 40 * rows : Math.round(width * 0.72), left: 48, right: 10, top: 8, bottom: 40 };
  }

  function draw() {
    if (!now) return;
    const { width, height, left, right, top, bottom } = sides();
    const pen = paper(canvas, width, height);
    const [inner, tall] = [width - left - right, height - top - bottom];
    const { grid } = now;
    const small = document.createElement("canvas");
    [small.width, small.height] = [grid.width, grid.height];
    const picture = new ImageData(grid.width, grid.height);
    const paint = ramp(colours());
    for (let i = 0; i < grid.width; i++) {
      for (let j = 0; j < grid.height; j++) {
        const share = now.share(grid.cells[i * grid.height + j]);
        const row = axes[1].whole ? j : grid.height - 1 - j;
        const at = 4 * (row * grid.width + i);
        if (share === null) continue;
        picture.data.set([...paint(share), 255], at);
      }
    }
    small.getContext("2d").putImageData(picture, 0, 0);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(small, left, top, inner, tall);
    decorate(pen, grid, { left, top, inner, tall });
    drawBar(width, left, right);
  }

  function drawBar(width, left, right) {
    const pen = paper(bar, width, 30);
    const paint = ramp(colours());
    for (let k = 0; k < width - left - right; k++) {
      const [r, g, b] = paint(k / (width - left - right - 1));
      pen.fillStyle = `rgb(${r} ${g} ${b})`;
      pen.fillRect(left + k, 0, 1, 9);
    }
    pen.fillStyle = colour("--faint");
    pen.textAlign = "left";
    pen.fillText(now.ends[0], left, 23);
    pen.textAlign = "right";
    pen.fillText(now.ends[1], width - right, 23);
  }

  function decorate(pen, grid, { left, top, inner, tall }) {
    pen.strokeStyle = colour("--line");
    pen.strokeRect(left - 0.5, top - 0.5, inner + 1, tall + 1);
    pen.fillStyle = colour("--faint");
    const ends = (axis, size) => (axes[axis].whole ? [-0.5, size - 0.5] : [axes[axis].low, axes[axis].high]);
    const across = scale(...ends(0, grid.width), left, left + inner);
    const [low, high] = ends(1, grid.height);
    const up = axes[1].whole ? scale(low, high, top, top + tall) : scale(low, high, top + tall, top);
    pen.textAlign = "center";
    for (const value of ticks(across.low, across.high, inner / 80)) {
      if (!axes[0].whole || Number.isInteger(value)) pen.fillText(short(value), across(value), top + tall + 15);
    }
    pen.fillText(axes[0].name, left + inner / 2, top + tall + 33);
    if (grid.height > 1) {
      pen.textAlign = "right";
      for (const value of ticks(low, high, tall / 40)) {
        if (!axes[1].whole || Number.isInteger(value)) pen.fillText(short(value), left - 5, up(value) + 4);
      }
      pen.save();
      pen.translate(11, top + tall / 2);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "center";
      pen.fillText(axes[1].name, 0, 0);
      pen.restore();
    }
    for (const [x, y] of now.dots || []) {
      pen.fillStyle = colour("--ink");
      pen.globalAlpha = 0.55;
      pen.fillRect(across(x) - 1, up(y) - 1, 2.2, 2.2);
      pen.globalAlpha = 1;
    }
    if (start) {
      const [x, y] = [0, 1].map((axis) => (start[0][axis] + start[1][axis]) / 2);
      const wide = Math.max(across(start[1][0]) - across(start[0][0]), 8);
      pen.fillStyle = "#F0E442";
      pen.strokeStyle = "#000000";
      pen.fillRect(across(x) - wide / 2, up(y) - 4, wide, 8);
      pen.strokeRect(across(x) - wide / 2, up(y) - 4, wide, 8);
      label(pen, "start", across(x), up(y) - 9, "center");
    }
    if (goal !== null && goal !== undefined) {
      for (const [style, dash] of [["#ffffff", []], ["#000000", [5, 4]]]) {
        pen.strokeStyle = style;
        pen.setLineDash(dash);
        pen.lineWidth = 2;
        pen.beginPath();
        pen.moveTo(across(goal), top);
        pen.lineTo(across(goal), top + tall);
        pen.stroke();
      }
      pen.setLineDash([]);
      pen.lineWidth = 1;
      label(pen, "goal", across(goal) - 5, top + tall - 6, "right");
    }
    if (cell) {
      const [wide, high2] = [inner / grid.width, tall / grid.height];
      const row = axes[1].whole ? cell[1] : grid.height - 1 - cell[1];
      pen.strokeStyle = colour("--bad");
      pen.lineWidth = 2;
      pen.strokeRect(left + cell[0] * wide - 1, top + row * high2 - 1, wide + 2, high2 + 2);
      pen.lineWidth = 1;
    }
  }

  function tell() {
    if (!cell || !now) return;
    const { grid } = now;
    const [i, j] = cell;
    const where = axes.map((axis, k) => {
      const size = k ? grid.height : grid.width;
      if (axis.whole) return size > 1 ? `${axis.name} ${cell[k]}` : "";
      return `${axis.name} ${digits(axis.low + ((cell[k] + 0.5) / size) * (axis.high - axis.low))}`;
    });
    said.textContent = `${where.filter(Boolean).join(", ")}: ${now.name(grid.cells[i * grid.height + j])}`;
  }

  function choose(i, j) {
    const { grid } = now;
    cell = [Math.min(Math.max(i, 0), grid.width - 1), Math.min(Math.max(j, 0), grid.height - 1)];
    draw();
    tell();
  }

  function leave() {
    cell = null;
    if (now) said.textContent = now.summary;
    draw();
  }

  canvas.addEventListener("pointermove", (event) => {
    if (!now) return;
    const { width, height, left, right, top, bottom } = sides();
    const frame = canvas.getBoundingClientRect();
    const i = Math.floor(((event.clientX - frame.left - left) / (width - left - right)) * now.grid.width);
    const row = Math.floor(((event.clientY - frame.top - top) / (height - top - bottom)) * now.grid.height);
    choose(i, axes[1].whole ? row : now.grid.height - 1 - row);
  });
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("blur", leave);
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!step || !now) return;
    event.preventDefault();
    const [i, j] = cell || [Math.floor(now.grid.width / 2), Math.floor(now.grid.height / 2)];
    choose(i + step[0], j + (axes[1].whole ? -step[1] : step[1]));
  });
  redraws.push(() => box.isConnected && draw());

  // `what`: {grid, share, name, ends, summary, dots}, or words in the place of a map.
  function show(what) {
    const words = typeof what === "string" ? what : what.summary;
    now = typeof what === "string" ? null : what;
    canvas.hidden = now === null;
    bar.hidden = now === null || !now.ends[1];
    if (cell && now && (cell[0] >= now.grid.width || cell[1] >= now.grid.height)) cell = null;
    canvas.setAttribute("aria-label", `${heading.textContent}. ${words}`);
    said.textContent = words;
    draw();
    tell();
  }
  return { box, show };
}

function paper(canvas, width, height) {
  const fine = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [width * fine, height * fine];
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(fine, fine);
  pen.font = "12px system-ui, sans-serif";
  return pen;
}

function label(pen, text, x, y, align) {
  pen.textAlign = align;
  pen.lineWidth = 3;
  pen.strokeStyle = "#ffffff";
  pen.strokeText(text, x, y);
  pen.lineWidth = 1;
  pen.fillStyle = "#000000";
  pen.fillText(text, x, y);
}

// ---- places, epoch by epoch

function setUpPlaces() {
  const place = document.querySelector("[data-places]");
  if (!place) return;
  const choice = chooser("Run", data.places.map((each) => each.name));
  const room = make("div", {});
  place.append(choice.label, room);
  const open = (number) => room.replaceChildren(...landscape(data.places[number]));
  choice.select.addEventListener("change", () => {
    open(choice.select.selectedIndex);
    redraws.forEach((draw) => draw());
  });
  open(0);
}

function chooser(text, names) {
  const select = make("select", {}, ...names.map((name) => make("option", {}, name)));
  const label = make("label", {}, `${text}: `, select);
  label.hidden = names.length < 2;
  return { label, select };
}

function landscape(all) {
  const kinds = {};
  if (all.cover.some(Boolean)) kinds.cover = "the policy that joined";
  if (all.cover.some(Boolean)) kinds.sofar = "all that had joined";
  if (all.exploiting.some(Boolean)) kinds.exploiting = all.acting;
  const options = Object.entries(kinds).map(([kind, text], k) => {
    return make("label", {}, make("input", { type: "radio", name: "visits", value: kind, checked: k === 0 }), ` ${text}`);
  });
  const controls = make("fieldset", { class: "controls" }, make("legend", {}, "Visits of"), ...options);
  const last = all.epochs.length - 1;
  const slider = make("input", { type: "range", min: "0", max: String(last), "aria-label": "epoch" });
  const joined = all.cover.findLastIndex(Boolean);
  slider.value = String(joined < 0 ? last : joined);
  const epoch = make("p", { class: "read" });
  const dark = () => document.documentElement.dataset.theme === "dark" || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  const blues = () => (dark() ? ["#1b3450", "#2f6db0", "#7cb8ff", "#f2f8ff"] : ["#d6e6f5", "#6aaed6", "#2171b5", "#08306b"]);
  const left = map("Visits", all.axes, all, blues);
  const right = map("Bonus", all.axes, all, () => VIRIDIS);
  const maps = make("div", { class: "maps" }, left.box, ...(all.bonus.some(Boolean) ? [right.box] : []));
  const grids = { cover: all.cover.map((x) => x && counts(x)), exploiting: all.exploiting.map((x) => x && counts(x)) };
  let sum = null;
  grids.sofar = grids.cover.map((grid) => {
    if (!grid) return null;
    sum = { ...grid, cells: sum ? sum.cells.map((value, k) => value + grid.cells[k]) : grid.cells };
    return sum;
  });
  const bonuses = all.bonus.map((x) => x && bonus(x));
  const most = (list) => Math.max(1e-12, ...list.filter(Boolean).flatMap((grid) => grid.cells.reduce((a, b) => Math.max(a, b), 0)));
  const largest = most(bonuses);

  function show() {
    const k = Number(slider.value);
    const kind = controls.querySelector(":checked")?.value;
    epoch.textContent = `Epoch ${all.epochs[k]} of ${all.epochs[last]}`;
    slider.setAttribute("aria-valuetext", epoch.textContent);
    const grid = kind && grids[kind][k];
    const none = kind === "exploiting" ? "The checkpoint of this epoch was not kept." : "No policy joined the cover in this epoch.";
    left.show(grid ? visitsShown(grid, most(grids[kind])) : none);
    right.show(bonuses[k] ? bonusShown(bonuses[k], largest) : "The checkpoint of this epoch was not kept.");
  }
  slider.addEventListener("input", show);
  controls.addEventListener("change", show);
  redraws.push(() => maps.isConnected && show());
  return [controls, epoch, slider, maps];
}

function visitsShown(grid, most) {
  const cells = [...grid.cells];
  const visited = cells.filter((count) => count > 0).length;
  const total = cells.reduce((a, b) => a + b, 0);
  return {
    grid,
    share: (count) => (count > 0 ? Math.log(count) / Math.log(Math.max(most, 2)) : null),
    name: (count) => `${short(count)} visits`,
    ends: ["1 visit", `${short(most)} visits`],
    summary: `${short(total)} visits of ${visited} of ${cells.length} cells.`,
  };
}

function bonusShown(grid, largest, unit = "") {
  const cells = [...grid.cells];
  const mean = cells.reduce((a, b) => a + b, 0) / cells.length;
  return {
    grid,
    share: (value) => value / largest,
    name: (value) => `bonus ${digits(value)}${unit}`,
    ends: ["0", `${digits(largest)}${unit}`],
    summary: `From ${digits(cells.reduce((a, b) => Math.min(a, b)))} to ${digits(cells.reduce((a, b) => Math.max(a, b)))}, ${digits(mean)} on average.`,
  };
}

// ---- two bonuses on the visits of one policy

function setUpFigure3() {
  const place = document.querySelector("[data-figure3]");
  if (!place) return;
  const choice = chooser("Run", data.figures3.map((each) => each.name));
  const room = make("div", { class: "maps" });
  place.append(choice.label, room);
  function open(number) {
    const all = data.figures3[number];
    const names = { width: "ENIAC's bonus (width)", kernel: "PC-PG's bonus (kernel)" };
    const dots = map(`Visits of policy ${all.policy}`, all.axes, all, () => VIRIDIS);
    const others = Object.entries(all.bonuses).map(([name, found]) => [name, found, map(names[name] || name, all.axes, all, () => VIRIDIS)]);
    room.replaceChildren(dots.box, ...others.map(([, , one]) => one.box));
    const empty = { width: 1, height: 1, cells: new Float64Array(1) };
    const summary = `${all.dots.length} of its points.`;
    const shown = { grid: empty, share: () => null, name: () => "", ends: ["", ""], summary, dots: all.dots };
    dots.show(shown);
    for (const [name, found, one] of others) {
      const what = bonusShown(bonus({ ...found, largest: 1 }), 1, " of its largest");
      one.show({ ...what, summary: `Curvature ${digits(all.smoothness[name])}; largest ${digits(all.largest[name])}.` });
    }
  }
  choice.select.addEventListener("change", () => open(choice.select.selectedIndex));
  open(0);
}

setUpCurves();
setUpCertificates();
setUpPlaces();
setUpFigure3();
setUpTheme();
let width = 0;
new ResizeObserver(() => {
  if (document.body.clientWidth === width) return;
  width = document.body.clientWidth;
  redraws.forEach((draw) => draw());
}).observe(document.body);
