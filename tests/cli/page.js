// As much of a browser as heddle's report needs: node tests/cli/page.js report.html prints every text of the page, one a line, as "tag.class: text".
"use strict";

class Node {
  constructor(tag) { Object.assign(this, {tag, children: [], attributes: {}, style: {}, hidden: false, clientWidth: 900, offsetWidth: 80}); }
  get classList() { return {add: name => { this.attributes.class = ((this.attributes.class || "") + " " + name).trim(); }}; }
  get firstChild() { return this.children[0]; }
  set textContent(text) { this.children = [String(text)]; }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  append(...nodes) { this.children.push(...nodes); }
  prepend(...nodes) { this.children.unshift(...nodes); }
  replaceChildren(...nodes) { this.children = nodes; }
  addEventListener() {}
  all() { return this.children.flatMap(c => c instanceof Node ? [c, ...c.all()] : []); }
  querySelectorAll(tag) { return this.all().filter(n => n.tag === tag); }
}

const page = require("fs").readFileSync(process.argv[2], "utf8");
const between = (from, to) => page.slice(page.indexOf(from) + from.length, page.indexOf(to, page.indexOf(from)));
const main = new Node("main"), observers = [];
globalThis.document = {
  createElement: tag => new Node(tag),
  createElementNS: (_, tag) => new Node(tag),
  getElementById: () => ({textContent: between("id=runs>", "</script>")}),
  querySelector: () => main,
};
globalThis.ResizeObserver = class { constructor(call) { this.call = call; } observe() { observers.push(this.call); } };
new Function(between("<script>\n", "</script>\n</body>"))();
for (const call of observers) call();
for (const node of [main, ...main.all()]) {
  const text = node.children.filter(c => !(c instanceof Node)).join("");
  if (text) console.log(`${node.tag}.${node.attributes.class || ""}: ${text}`);
}
