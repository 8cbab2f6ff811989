// Line charts in SVG: smoothing, three x axes, a logarithmic y axis, a cursor with values, zoom by dragging (double click: back).

const svgNs = "http://www.w3.org/2000/svg";

// element("p", {class: "note"}, "text", child ...): what is text is never taken for markup.
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) node.setAttribute(name, value);
  node.append(...children.filter(c => c !== undefined && c !== null));
  return node;
}
function svg(tag, attributes = {}, text) {
  const node = document.createElementNS(svgNs, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function formatNumber(v) {
  if (v === null || v === undefined || Number.isNaN(v)) return "–";
  if (v === 0) return "0";
  const size = Math.abs(v);
  if (size >= 1e7 || size < 1e-4) return v.toExponential(2).replace("e+", "e");
  if (size >= 1000) return Math.round(v).toLocaleString("en");
  return String(Number(v.toPrecision(4)));
}
function formatTime(seconds) {
  const s = Math.round(seconds), two = n => String(n).padStart(2, "0");
  if (seconds < 10) return seconds.toFixed(1) + " s";
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + ":" + two(s % 60);
  return Math.floor(s / 3600) + ":" + two(Math.floor(s / 60) % 60) + ":" + two(s % 60);
}
function formatBytes(bytes) {
  if (!Number.isFinite(bytes)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; bytes >= 1024 && i < 4; ++i) bytes /= 1024;
  return (i === 0 ? bytes : bytes.toFixed(1)) + " " + units[i];
}

// Exponential moving average whose beginning is not pulled towards zero. The weight is that of 200 points: more of them, closer together, are smoothed over the same part of the curve.
function smoothed(values, weight) {
  if (weight === 0) return values;
  weight **= Math.min(1, 200 / values.length);
  let sum = 0, total = 0;
  return values.map(v => {
    if (v === null) return null;
    sum = sum * weight + v * (1 - weight);
    total = total * weight + (1 - weight);
    return sum / total;
  });
}

function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough * 0.999);
  const result = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) result.push(Number((i * step).toPrecision(12)));
  return result;
}
function logTicks(low, high) {
  const result = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); ++e)
    for (const m of high / low < 30 ? [1, 2, 3, 5] : high / low < 1000 ? [1, 3] : [1]) if (m * 10 ** e >= low && m * 10 ** e <= high) result.push(Number((m * 10 ** e).toPrecision(3)));
  return result.length > 1 ? result : [low, high];
}

// What the controls of the page set; charts redraw when it changes.
const view = {smooth: 0.6, axis: "step", log: null, hidden: new Set(), charts: []};  // log: null leaves it to the chart
function redraw() { for (const chart of view.charts) chart.draw(); }

const axes = {
  step: {label: "update", format: v => Math.round(v).toLocaleString("en")},
  epoch: {label: "epoch", format: formatNumber},
  seconds: {label: "time", format: formatTime},
};

const column = 2;  // pixels that one bucket of a dense curve takes

// A series: {run, label, color, dashed, markers, smooth, x: {step, epoch, seconds}, y, low, high}. Values may be null; low and high are the extremes of what a y is the mean of.
// `decades`: the y axis is logarithmic where the curve spans more than a factor of 20.
class Chart {
  constructor(host, series, {height = 230, zero = false, decades = false} = {}) {
    Object.assign(this, {host, series, height, zero, decades, zoom: null});
    host.classList.add("chart");
    host.addEventListener("pointermove", e => this.move(e));
    host.addEventListener("pointerleave", () => this.leave());
    host.addEventListener("pointerdown", e => { this.from = this.position(e); });
    host.addEventListener("pointerup", e => this.select(e));
    host.addEventListener("dblclick", () => { this.zoom = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(host);
    view.charts.push(this);
  }

  // Series as they are shown now: only those with the chosen axis, visible, within the zoom.
  visible() {
    return this.series.filter(s => !view.hidden.has(s.run) && (s.x[view.axis] || []).some(v => v !== null)).map(s => ({...s, at: s.x[view.axis], shown: s.smooth ? smoothed(s.y, view.smooth) : s.y}));
  }

  // [low, high] of what is seen; spikes far above the rest (at most one value in fifty) do not squeeze it.
  range(series, xRange) {
    const values = [];
    for (const s of series) s.shown.forEach((v, i) => { if (v !== null && s.at[i] >= xRange[0] && s.at[i] <= xRange[1]) values.push(v); });
    if (view.smooth === 0 || values.length === 0) for (const s of series) values.push(...s.y.filter(v => v !== null));
    values.sort((a, b) => a - b);
    const most = values.length - 1, usual = values[most - Math.floor(values.length / 50)];
    let low = values[0] ?? 0, high = values[most] - low > 4 * (usual - low) ? usual : values[most] ?? 1;
    for (const s of series) if (s.markers) for (const v of s.y) if (v !== null) { low = Math.min(low, v); high = Math.max(high, v); }
    const logarithmic = low > 0 && (view.log ?? (this.decades && high > 20 * low));
    if (logarithmic) return {low: low * 0.85, high: Math.max(high, values[most]) * 1.1, logarithmic};
    if (this.zero) low = Math.min(low, 0);
    if (low === high) { const pad = Math.abs(low) * 0.1 || 0.5; low -= pad; high += pad; }
    const pad = (high - low) * 0.06;
    return {low: this.zero && low === 0 ? 0 : low - pad, high: high + pad, logarithmic};
  }

  draw() {
    const width = this.host.clientWidth;
    if (width === 0) return;
    const left = 52, right = 10, top = 8, bottom = 34, plotWidth = width - left - right, plotHeight = this.height - top - bottom;
    const series = this.visible();
    const all = series.flatMap(s => s.at.filter(v => v !== null));
    let x0 = all.reduce((a, b) => Math.min(a, b), Infinity), x1 = all.reduce((a, b) => Math.max(a, b), -Infinity);
    if (!(x1 > x0)) { x0 = Number.isFinite(x0) ? x0 - 0.5 : 0; x1 = x0 + 1; }
    if (this.zoom && this.zoom.axis === view.axis) [x0, x1] = this.zoom.range;
    const {low, high, logarithmic} = this.range(series, [x0, x1]);
    const scale = v => logarithmic ? Math.log(v) : v;
    const x = v => left + plotWidth * (v - x0) / (x1 - x0), y = v => top + plotHeight * (1 - (scale(v) - scale(low)) / (scale(high) - scale(low)));
    Object.assign(this, {now: series, x, y, left, top, plotWidth, plotHeight, domain: [x0, x1]});

    const clip = "clip" + view.charts.indexOf(this);
    const root = svg("svg", {height: this.height, viewBox: `0 0 ${width} ${this.height}`, role: "img"});
    root.append(svg("clipPath", {id: clip}));
    root.firstChild.append(svg("rect", {x: left - 4, y: top - 4, width: plotWidth + 8, height: plotHeight + 8}));
    for (const t of logarithmic ? logTicks(low, high) : ticks(low, high, 5)) {
      root.append(svg("line", {class: "gridline", x1: left, x2: left + plotWidth, y1: y(t), y2: y(t)}), svg("text", {x: left - 8, y: y(t) + 4, "text-anchor": "end"}, formatNumber(t)));
    }
    root.append(svg("line", {class: "axis", x1: left, x2: left + plotWidth, y1: top + plotHeight, y2: top + plotHeight}));
    const axis = axes[view.axis];
    const places = ticks(x0, x1, Math.max(2, Math.floor(plotWidth / 90))).filter(t => view.axis !== "step" || Number.isInteger(t));
    for (const t of places) root.append(svg("text", {x: x(t), y: top + plotHeight + 16, "text-anchor": "middle"}, axis.format(t)));
    root.append(svg("text", {x: left + plotWidth, y: top + plotHeight + 30, "text-anchor": "end"}, axis.label));
    const curves = svg("g", {"clip-path": `url(#${clip})`});
    for (const s of series) this.curve(curves, s);
    this.overlay = svg("g");
    root.append(curves, this.overlay);
    this.host.replaceChildren(root, this.tip = element("div", {class: "tip", hidden: ""}));
  }

  // "x y" of a point, within what SVG takes.
  place(x, v) { return x.toFixed(1) + " " + Math.max(-1e4, Math.min(1e4, this.y(v))).toFixed(1); }

  // What lies in each column of pixels: the mean of the smoothed values, and the extremes. Null where the points are too few to need it.
  buckets(s) {
    const [x0, x1] = this.domain, inside = s.at.map((v, i) => i).filter(i => s.at[i] !== null && s.at[i] >= x0 && s.at[i] <= x1 && s.y[i] !== null);
    if (inside.length < this.plotWidth / column) return null;
    const all = new Map();
    for (const i of inside) {
      const key = Math.floor(this.x(s.at[i]) / column), b = all.get(key) || {x: (key + 0.5) * column, sum: 0, count: 0, low: Infinity, high: -Infinity};
      b.sum += s.shown[i];
      ++b.count;
      b.low = Math.min(b.low, s.low[i] ?? s.y[i]);
      b.high = Math.max(b.high, s.high[i] ?? s.y[i]);
      all.set(key, b);
    }
    return [...all.values()].sort((a, b) => a.x - b.x);
  }

  curve(into, s) {
    const path = values => {
      let text = "", pen = false;
      values.forEach((v, i) => {
        if (v === null || s.at[i] === null) { pen = false; return; }
        text += (pen ? "L" : "M") + this.place(this.x(s.at[i]), v);
        pen = true;
      });
      return text;
    };
    const line = {class: "curve" + (s.dashed ? " dashed" : ""), stroke: s.color}, buckets = this.buckets(s);
    if (buckets) {
      const upper = buckets.map(b => this.place(b.x, b.high)), lower = buckets.map(b => this.place(b.x, b.low)).reverse();
      into.append(svg("path", {class: "spread", fill: s.color, d: "M" + [...upper, ...lower].join("L") + "Z"}));
      into.append(svg("path", {...line, d: "M" + buckets.map(b => this.place(b.x, b.sum / b.count)).join("L")}));
    } else {
      if (s.smooth && view.smooth > 0) into.append(svg("path", {class: "raw", stroke: s.color, d: path(s.y)}));
      into.append(svg("path", {...line, d: path(s.shown)}));
    }
    if (!s.markers) return;
    const marks = s.shown.map((v, i) => i).filter(i => s.shown[i] !== null && s.at[i] !== null);
    for (const i of marks) into.append(svg("circle", {cx: this.x(s.at[i]), cy: this.y(s.shown[i]), r: marks.length === 1 ? 3.6 : 2.6, fill: s.color}));
    if (marks.length === 1) this.label(into, s, marks[0]);
  }

  // A single point is no curve: it says what it is, towards the middle of the chart.
  label(into, s, i) {
    const x = this.x(s.at[i]), y = this.y(s.shown[i]), leftwards = x > this.left + this.plotWidth / 2;
    into.append(svg("text", {class: "value", x: x + (leftwards ? -9 : 9), y: y < this.top + 14 ? y + 14 : y - 6, "text-anchor": leftwards ? "end" : "start"}, `${s.label} ${formatNumber(s.shown[i])}`));
  }

  position(e) { return Math.max(0, Math.min(this.plotWidth, e.clientX - this.host.getBoundingClientRect().left - this.left)); }
  value(position) { return this.domain[0] + (this.domain[1] - this.domain[0]) * position / this.plotWidth; }

  move(e) {
    if (!this.now || this.now.length === 0) return;
    const at = this.value(this.position(e)), rows = [];
    let nearest = null;
    for (const s of this.now) {
      let best = -1;
      s.at.forEach((v, i) => { if (v !== null && s.shown[i] !== null && (best < 0 || Math.abs(v - at) < Math.abs(s.at[best] - at))) best = i; });
      if (best < 0) continue;
      rows.push({s, i: best});
      if (nearest === null || Math.abs(s.at[best] - at) < Math.abs(nearest - at)) nearest = s.at[best];
    }
    if (rows.length === 0) return;
    this.overlay.replaceChildren(svg("line", {class: "cursor", x1: this.x(nearest), x2: this.x(nearest), y1: this.top, y2: this.top + this.plotHeight}));
    if (this.from !== undefined && e.buttons === 1) {
      const a = Math.min(this.from, this.position(e)), b = Math.max(this.from, this.position(e));
      this.overlay.append(svg("rect", {class: "band", x: this.left + a, y: this.top, width: b - a, height: this.plotHeight}));
    }
    const table = element("table");
    for (const {s, i} of rows) {
      this.overlay.append(svg("circle", {cx: this.x(s.at[i]), cy: this.y(s.shown[i]), r: 3.4, fill: s.color}));
      const dot = element("i", {style: `background:${s.color}`});
      table.append(element("tr", {}, element("td", {}, dot, s.label), element("td", {}, formatNumber(s.shown[i])), element("td", {}, s.at[i] === nearest ? "" : "at " + axes[view.axis].format(s.at[i]))));
    }
    this.tip.replaceChildren(element("b", {}, axes[view.axis].label + " " + axes[view.axis].format(nearest)), table);
    this.tip.hidden = false;
    const beside = this.x(nearest) + 14, fits = beside + this.tip.offsetWidth < this.host.clientWidth;
    this.tip.style.left = (fits ? beside : Math.max(0, this.x(nearest) - 14 - this.tip.offsetWidth)) + "px";
    this.tip.style.top = this.top + 6 + "px";
  }
  leave() {
    this.from = undefined;
    if (this.overlay) this.overlay.replaceChildren();
    if (this.tip) this.tip.hidden = true;
  }
  select(e) {
    const to = this.position(e), from = this.from;
    this.from = undefined;
    if (from === undefined || Math.abs(to - from) < 8) return;
    this.zoom = {axis: view.axis, range: [this.value(Math.min(from, to)), this.value(Math.max(from, to))]};
    this.draw();
  }
}
