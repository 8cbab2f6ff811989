// The page: what stands in the data block, drawn section by section.

const runs = JSON.parse(document.getElementById("runs").textContent);
const main = document.querySelector("main");
const color = run => `var(--c${runs.indexOf(run) % 8})`;
const several = runs.length > 1;

function section(title) { main.append(element("h2", {}, title)); }
function panel(title, ...keys) {
  const node = element("div", {class: "panel"}, element("header", {}, element("h3", {}, title), ...keys));
  return node;
}
const key = (kind, text) => element("span", {class: "key"}, element("i", {class: kind}), text);
const last = list => list[list.length - 1];
const finite = list => (list || []).filter(v => v !== null);

// ---- head and controls

function head() {
  const first = runs[0];
  main.append(element("h1", {}, several ? `${runs.length} runs compared` : first.name));
  const started = runs.map(r => r.environment.started).filter(Boolean).sort()[0];
  const parts = [[...new Set(runs.map(r => r.start.recipe).filter(Boolean))].join(", "), [...new Set(runs.map(deviceName).filter(Boolean))].join(", "), started && started.replace("T", " ").replace("Z", " UTC")];
  main.append(element("p", {class: "sub"}, parts.filter(Boolean).join("  ·  ")));
}
function deviceName(run) {
  const device = run.environment.device;
  return device ? `${device.id} (${device.name})` : run.start.device;
}

function choice(name, options) {
  const group = element("span", {class: "choice", role: "group", "aria-label": name});
  for (const [text, chosen, choose] of options) {
    const button = element("button", {type: "button", "aria-pressed": chosen}, text);
    button.onclick = () => {
      for (const b of group.children) b.setAttribute("aria-pressed", b === button);
      choose();
      redraw();
    };
    group.append(button);
  }
  return group;
}

function controls() {
  const value = element("output", {}, view.smooth.toFixed(2));
  const slider = element("input", {type: "range", min: 0, max: 0.99, step: 0.01, value: view.smooth, "aria-label": "smoothing"});
  slider.oninput = () => { view.smooth = Number(slider.value); value.textContent = view.smooth.toFixed(2); redraw(); };
  const bar = element("div", {class: "bar"}, element("label", {}, "Smoothing", slider, value),
    choice("x axis", [["Update", true, () => { view.axis = "step"; }], ["Epoch", false, () => { view.axis = "epoch"; }], ["Time", false, () => { view.axis = "seconds"; }]]),
    choice("y axis", [["Auto", true, () => { view.log = null; }], ["Linear", false, () => { view.log = false; }], ["Log", false, () => { view.log = true; }]]));
  if (several) {
    const chips = element("span", {class: "chips"});
    for (const run of runs) {
      const chip = element("button", {class: "chip", type: "button", "aria-pressed": true, title: run.path}, element("i", {style: `background:${color(run)}`}), run.name);
      chip.onclick = () => {
        view.hidden.has(run) ? view.hidden.delete(run) : view.hidden.add(run);
        chip.setAttribute("aria-pressed", !view.hidden.has(run));
        redraw();
      };
      chips.append(chip);
    }
    bar.append(chips);
  }
  main.append(bar);
}

// ---- figures

// The validation split, or what there is.
function evaluations(run) {
  const validation = run.evals.filter(e => e.split === "validation");
  return validation.length ? validation : run.evals;
}
function bestEvaluation(run) { return evaluations(run).filter(e => e.loss !== null).reduce((a, b) => a === null || b.loss < a.loss ? b : a, null); }
// Of all updates, as the terminal says it.
function rate(run) { return run.speed.tokens_per_second ? ["tokens/s", run.speed.tokens_per_second] : ["samples/s", run.speed.samples_per_second ?? null]; }
function state(run) { return run.done ? (run.done.stopped || run.done.event === "stopped" ? "stopped early" : "finished") : run.interrupted ? "interrupted" : "not finished"; }

// [title, value, small print] of each figure of a run.
function figures(run) {
  const best = bestEvaluation(run), list = [];
  list.push(["Training loss", formatNumber(last(smoothed(run.steps.loss || [], 0.9)) ?? null), "smoothed, at the end"]);
  if (best) list.push([`Best ${best.split} loss`, formatNumber(best.loss), `at update ${axes.step.format(best.step)}`]);
  for (const [name, v] of Object.entries(last(run.evals)?.metrics || {})) if (typeof v === "number") list.push([`${name[0].toUpperCase()}${name.slice(1)}`, formatNumber(v), `${last(run.evals).split}, at the end`]);
  list.push(["Updates", axes.step.format(last(run.steps.step) ?? 0), run.start.steps ? `of ${axes.step.format(run.start.steps)}, ${state(run)}` : state(run)]);
  const seconds = run.done?.seconds ?? last(run.steps.seconds);
  if (seconds !== undefined && seconds !== null) list.push(["Time", formatTime(seconds), "in all"]);
  const [unit, speed] = rate(run);
  if (speed !== null) list.push(["Throughput", formatNumber(speed), unit + ", all updates"]);
  if (run.start.parameters) list.push(["Parameters", formatNumber(run.start.parameters), ""]);
  if (run.done?.peak_device_bytes) list.push(["Peak memory", formatBytes(run.done.peak_device_bytes), "on the device"]);
  return list;
}

function summary() {
  if (!several) {
    main.append(element("div", {class: "cards"}, ...figures(runs[0]).map(([title, value, small]) => element("div", {class: "card"}, element("span", {}, title), element("b", {}, value), element("small", {}, small)))));
    return;
  }
  const tables = runs.map(run => new Map(figures(run).map(([title, value, small]) => [title, [value, small]])));
  const titles = [...new Set(tables.flatMap(t => [...t.keys()]))];
  const table = element("table", {}, element("tr", {}, element("th"), ...titles.map(t => element("th", {}, t))));
  runs.forEach((run, i) => {
    const name = element("th", {}, element("span", {class: "key"}, element("i", {style: `background:${color(run)}`}), run.name));
    table.append(element("tr", {}, name, ...titles.map(t => element("td", {class: "num", title: tables[i].get(t)?.[1]}, tables[i].get(t)?.[0] ?? "–"))));
  });
  const host = panel("Results");
  host.append(element("div", {class: "scroll"}, table));
  main.append(element("div", {class: "grid"}, host));
  host.classList.add("wide");
}

// ---- curves

function stepSeries(run, name, smooth) {
  const y = run.steps[name];
  return y && finite(y).length ? [{run, label: several ? run.name : "training", color: color(run), smooth, x: run.steps, y, low: run.steps[name + "_low"] || y, high: run.steps[name + "_high"] || y}] : [];
}

// Where an evaluation lies on the other axes: at the training step before it.
function evalX(run, evals) {
  const place = (e, column) => {
    const at = run.steps.step.findLastIndex(s => s <= e.step);
    return at < 0 ? (column === "step" ? e.step : null) : run.steps[column]?.[at] ?? null;
  };
  return {step: evals.map(e => e.step), epoch: evals.map(e => e.epoch ?? place(e, "epoch")), seconds: evals.map(e => e.seconds ?? place(e, "seconds"))};
}
function evalSeries(run, pick) {
  const result = [], splits = [...new Set(run.evals.map(e => e.split))];
  splits.forEach((split, i) => {
    const evals = run.evals.filter(e => e.split === split && typeof pick(e) === "number");
    if (evals.length) result.push({run, label: several ? `${run.name}, ${split}` : split, color: several ? color(run) : `var(--c${1 + i})`, dashed: several, markers: true, x: evalX(run, evals), y: evals.map(pick), low: [], high: []});
  });
  return result;
}

function chart(grid, title, series, options = {}) {
  if (series.length === 0) return;
  const dashed = series.some(s => s.dashed), keys = [];
  if (!several && series.length > 1) for (const s of series) keys.push(element("span", {class: "key"}, element("i", {style: `background:${s.color}`}), s.label));
  if (several && dashed && series.some(s => !s.dashed)) keys.push(key("solid", "training"), key("dash", "evaluation"));
  const host = panel(title, ...keys), plot = element("div");
  host.append(plot);
  if (options.note) host.append(element("p", {class: "note"}, options.note));
  if (options.wide) host.classList.add("wide");
  grid.append(host);
  new Chart(plot, series, options);
}

function curves() {
  const grid = element("div", {class: "grid"});
  const of = (name, smooth) => runs.flatMap(run => stepSeries(run, name, smooth));
  const thinned = Math.max(...runs.map(r => r.every));
  chart(grid, "Loss", [...of("loss", true), ...runs.flatMap(run => evalSeries(run, e => e.loss))], {wide: true, height: 320, decades: true, note: "Drag to zoom, double-click to go back." + " The faint band holds all updates, the line is smoothed." + (thinned > 1 ? ` A point is the mean of up to ${thinned} lines.` : "")});
  for (const metric of new Set(runs.flatMap(r => r.evals.flatMap(e => Object.keys(e.metrics || {})))))
    chart(grid, metric[0].toUpperCase() + metric.slice(1), runs.flatMap(run => evalSeries(run, e => e.metrics?.[metric])));
  chart(grid, "Learning rate", of("lr", false), {zero: true});
  chart(grid, "Norm of the gradients", of("grad_norm", true), {zero: true, decades: true});
  chart(grid, "Samples a second", of("samples_per_second", true), {zero: true});
  chart(grid, "Tokens a second", of("tokens_per_second", true), {zero: true});
  chart(grid, "Loss scale", of("loss_scale", false), {zero: true});
  chart(grid, "Skipped updates", of("skipped", false), {zero: true});
  if (grid.children.length) main.append(grid);
}

// ---- where the time goes (train/throughput.h): the device computes, idles for want of data, or idles because the host is busy

const deviceParts = [["compute", "var(--c5)", l => l.compute], ["idle for data", "var(--c4)", l => l.starved], ["idle for the host", "var(--c2)", l => l.idle - l.starved]];
const besideIt = ["fetch", "preprocess", "copy"];

function pipeline() {
  const rows = runs.flatMap(run => run.loaders.map(l => ({run, l})));
  if (rows.length === 0) return;
  section("Input pipeline");
  const host = panel("The device's seconds of each epoch", ...deviceParts.map(([name, c]) => element("span", {class: "key"}, element("i", {style: `background:${c}`}), name)));
  const heads = [several ? "Run" : null, "Epoch", "", ...deviceParts.map(p => p[0]), ...besideIt, "Bottleneck"].filter(t => t !== null);
  const table = element("table", {}, element("tr", {}, ...heads.map(t => element("th", {}, t))));
  const seconds = value => Number.isFinite(value) ? Math.max(0, value) : null;
  const longest = Math.max(...rows.map(({l}) => deviceParts.reduce((sum, [, , of]) => sum + seconds(of(l)), 0)), 1e-12);
  const number = value => element("td", {class: "num"}, value === null ? "–" : formatNumber(value));
  for (const {run, l} of rows.slice(-40)) {
    const bar = element("div", {class: "stack"}, ...deviceParts.map(([name, c, of]) => element("i", {style: `background:${c};width:${100 * seconds(of(l)) / longest}%`, title: `${name} ${formatTime(seconds(of(l)) ?? 0)}`})));
    const cells = [element("td", {class: "num"}, String(l.epoch ?? "")), element("td", {style: "width:40%"}, bar), ...deviceParts.map(([, , of]) => number(seconds(of(l)))), ...besideIt.map(name => number(seconds(l[name]))),
      element("td", {}, l.bottleneck || "–")];
    if (several) cells.unshift(element("td", {}, run.name));
    table.append(element("tr", {}, ...cells));
  }
  host.append(element("div", {class: "scroll"}, table), element("p", {class: "note"}, "Fetching and preprocessing happen in threads of their own, copying while the device computes: they cost time only where the device idles for data."));
  main.append(host);
}

// ---- confusion matrices

function confusion() {
  const shown = runs.map(run => ({run, e: run.evals.findLast(e => Array.isArray(e.confusion))})).filter(x => x.e);
  if (shown.length === 0) return;
  section("Confusion");
  const grid = element("div", {class: "grid"});
  for (const {run, e} of shown) {
    const host = panel(several ? run.name : "Class by class", element("span", {class: "key"}, `${e.split}, update ${axes.step.format(e.step)}; rows: true class, columns: predicted`));
    host.append(matrix(e.confusion, e.classes || e.confusion.map((_, i) => String(i))));
    grid.append(host);
  }
  main.append(grid);
}

// Shades by the share of a row; the right-hand column is the share that is right.
function matrix(counts, names) {
  const n = counts.length, cell = Math.max(14, Math.min(44, 520 / n)), left = 20 + 7 * Math.max(...names.map(t => t.length)), size = left + cell * n + 64;
  const root = svg("svg", {viewBox: `0 0 ${size} ${cell * n + 30}`, style: `max-width:${size}px`, role: "img", "aria-label": "confusion matrix"});
  counts.forEach((row, i) => {
    const total = row.reduce((a, b) => a + b, 0);
    root.append(svg("text", {x: left - 8, y: cell * (i + 0.5) + 4, "text-anchor": "end"}, names[i]), svg("text", {x: left + cell * i + cell / 2, y: cell * n + 16, "text-anchor": "middle"}, names[i]));
    row.forEach((count, j) => {
      const share = total ? count / total : 0, strength = i === j ? share : Math.sqrt(share);
      const rect = svg("rect", {x: left + cell * j + 1, y: cell * i + 1, width: cell - 2, height: cell - 2, rx: 3, style: `fill:rgba(var(--heat),${(0.05 + 0.9 * strength).toFixed(3)})`});
      rect.append(svg("title", {}, `true ${names[i]}, predicted ${names[j]}: ${count} of ${total}`));
      root.append(rect);
      if (count > 0 && cell >= 22) root.append(svg("text", {x: left + cell * (j + 0.5), y: cell * (i + 0.5) + 4, "text-anchor": "middle", style: `font-size:${cell > 34 ? 11 : 9}px;fill:${strength > 0.55 ? "#fff" : "var(--text)"};pointer-events:none`}, count));
    });
    root.append(svg("text", {x: left + cell * n + 10, y: cell * (i + 0.5) + 4}, total ? (100 * row[i] / total).toFixed(1) + " %" : ""));
  });
  return root;
}

// ---- samples

function samples() {
  const all = runs.flatMap(run => run.samples.map(s => ({run, s})));
  if (all.length === 0) return;
  section("Samples");
  const list = element("div", {class: "samples"});
  for (const {run, s} of all.sort((a, b) => b.s.step - a.s.step)) {
    const title = element("span", {class: "key"}, element("i", {style: `background:${color(run)}`}), `${several ? run.name + ", " : ""}update ${axes.step.format(s.step)}`);
    list.append(element("div", {class: "panel sample"}, title, s.image ? element("img", {src: s.image, alt: `sample at update ${s.step}`}) : null, s.text !== undefined ? element("pre", {}, s.text) : null));
  }
  main.append(list);
}

// ---- configuration, environment, events

// rows: [key, [value of each run or undefined], initial value or undefined]; a key's first part is its group.
function comparison(title, rows, differencesOnly) {
  if (rows.length === 0) return;
  section(title);
  const table = element("table"), host = element("div", {class: "panel"}, element("div", {class: "scroll"}, table));
  const differs = values => several && values.some(v => v !== values[0]);
  const fill = only => {
    table.replaceChildren();
    if (several) table.append(element("tr", {}, element("th"), ...runs.map(run => element("th", {}, element("span", {class: "key"}, element("i", {style: `background:${color(run)}`}), run.name)))));
    let group = null;
    for (const [name, values, initial] of rows) {
      if (only && !differs(values)) continue;
      const dot = name.indexOf("."), own = dot < 0 ? "" : name.slice(0, dot);
      if (own !== group && own) table.append(element("tr", {class: "group"}, element("th", {colspan: runs.length + 1}, own)));
      group = own;
      table.append(element("tr", {class: differs(values) ? "differs" : undefined}, element("th", {}, dot < 0 ? name : name.slice(dot + 1)), ...values.map(v => element("td", {class: "code" + (v !== undefined && v === initial ? " initial" : "")}, v ?? "–"))));
    }
    if (table.querySelectorAll("tr").length <= (several ? 1 : 0)) table.append(element("tr", {}, element("td", {}, "No differences.")));
  };
  if (several) {
    const box = element("input", {type: "checkbox"});
    box.checked = differencesOnly;
    box.onchange = () => fill(box.checked);
    host.prepend(element("header", {}, element("label", {class: "key"}, box, "differences only")));
  }
  fill(several && differencesOnly);
  main.append(host);
}

function flatten(value, prefix = "") {
  if (value === null || typeof value !== "object") return [[prefix, String(value)]];
  if (Array.isArray(value)) return [[prefix, value.join(" ")]];
  return Object.entries(value).flatMap(([k, v]) => flatten(v, prefix ? prefix + "." + k : k));
}
function merged(lists) {
  const maps = lists.map(list => new Map(list));
  return [...new Set(maps.flatMap(m => [...m.keys()]))].map(k => [k, maps.map(m => m.get(k))]);
}

function configuration() {
  const initial = new Map(runs.flatMap(r => r.config.filter(c => c.initial !== null).map(c => [c.key, c.initial])));
  comparison("Configuration", merged(runs.map(r => r.config.map(c => [c.key, c.value]))).map(([k, values]) => [k, values, initial.get(k)]), true);
  comparison("Environment", merged(runs.map(r => flatten({...r.environment, earlier: undefined}).filter(([, v]) => v !== "undefined"))), true);
}

function events() {
  const rows = runs.flatMap(run => run.notes.map(text => [run, text]));
  if (rows.length === 0) return;
  section("Events");
  main.append(element("div", {class: "panel"}, element("table", {}, ...rows.map(([run, text]) => element("tr", {}, ...(several ? [element("th", {}, run.name)] : []), element("td", {}, text))))));
}

for (const part of [head, controls, summary, curves, pipeline, confusion, samples, configuration, events]) part();
