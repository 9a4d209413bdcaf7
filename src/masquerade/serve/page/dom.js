// Elements are made of nodes and text, never of HTML strings: whatever a text holds is shown, not run.

export const $ = (id) => document.getElementById(id);

/** An element with properties and children; strings become text. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name in element && name !== "list" && name !== "form") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replace what is inside an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter(Boolean));
  return element;
}

/** A labelled field. */
export function field(label, input) {
  return h("label", { class: "grow" }, h("span", {}, label), input);
}

/** A choice among models, which is not shown where there is only one. */
export function chooser(label, id, models, chosen) {
  const select = h("select", { id }, models.map((each) => h("option", {}, each.name)));
  if (models.some((each) => each.name === chosen)) select.value = chosen;
  const whole = field(label, select);
  whole.hidden = models.length === 1;
  return { select, field: whole };
}

/** Two cards side by side: what is given, and what comes of it. */
export const sides = (given, found) => h("div", { class: "columns" }, given, found);

/** What stands in the place of something that is not there yet. */
export const empty = (...words) => h("div", { class: "empty" }, words.map((each) => (typeof each === "string" ? h("p", {}, each) : each)));

/** A share as a percentage. */
export const percent = (share) => (share > 0 && share < 0.0005 ? "< 0.1 %" : `${(share * 100).toFixed(1)} %`);

/** Answers that are probable enough to be worth showing. */
export const likely = (answers) => answers.filter((each) => each.score >= 0.001);

/** A bar with a share between 0 and 1. */
export function bar(share, label) {
  const inner = h("i");
  inner.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  const track = h("div", { class: "track", "aria-hidden": "true" }, inner);
  return h("div", { class: "meter" }, label ? h("span", {}, label) : null, track, h("b", {}, percent(share)));
}

/** A table with a head and rows of cells; numbers stand at the right. */
export function table(head, rows, caption) {
  const kind = (cell) => (typeof cell === "number" ? "number" : "");
  const cells = (row) => row.map((cell) => h("td", { class: kind(cell) },
    typeof cell === "number" ? String(cell) : cell));
  return h("table", {}, caption ? h("caption", { class: "soft" }, caption) : null,
    h("thead", {}, h("tr", {}, head.map((cell, index) => h("th", { scope: "col", class: kind(rows[0]?.[index]) }, cell)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, cells(row)))));
}

/** The characters of a text as the service counts them: Unicode characters, not halves of them. */
export function characters(text) {
  return /[\ud800-\udfff]/.test(text) ? Array.from(text) : text;
}

export function slice(counted, start, end) {
  const part = counted.slice(start, end);
  return typeof part === "string" ? part : part.join("");
}

/** A text with marked spans: [{start, end, kind}], which do not overlap. */
export function marked(counted, spans) {
  const nodes = [];
  let offset = 0;
  for (const span of [...spans].sort((one, other) => one.start - other.start)) {
    if (span.start < offset) continue;
    nodes.push(slice(counted, offset, span.start));
    const name = span.kind === "unread" ? "span" : "mark";
    nodes.push(h(name, { class: span.kind || "" }, slice(counted, span.start, span.end)));
    offset = span.end;
  }
  nodes.push(slice(counted, offset, counted.length));
  return nodes;
}

/** While a promise runs, a button turns and cannot be pressed. */
export async function busy(button, work) {
  button.disabled = true;
  button.classList.add("busy");
  try {
    return await work();
  } finally {
    button.disabled = false;
    button.classList.remove("busy");
  }
}
