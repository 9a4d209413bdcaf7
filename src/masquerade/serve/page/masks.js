// Masks: who sees whom, drawn live, with the settings of each constructor.
import { api } from "./api.js";
import { caption as captionOf, example } from "./captions.js";
import { field, fill, h, table } from "./dom.js";
import { get, set } from "./state.js";
import { language, t } from "./words.js";

const SLIDERS = { // name → [least, most, usual, constructors]
  seed: [0, 30, 4, ["permuted", "two_stream", "compensated"]],
  known: [0, 16, 3, ["compensated"]],
  block: [1, 12, 2, ["blocks"]],
  prefix: [1, 16, 3, ["prefix"]],
  slots: [1, 8, 2, ["masked_answer", "shared_passage"]],
  questions: [1, 6, 2, ["shared_passage"]],
  width: [0, 8, 1, ["window"]],
  memory: [0, 10, 3, ["with_memory"]],
};
const WORDS = { memory: "memorySize" };
const KINDS = { content: "content", placeholder: "placeholder", query: "queryKind", peer: "peer" };
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export function draw(root, { models, say }) {
  const names = Object.keys(models.constructors);
  const chosen = h("select", { id: "constructor" }, names.map((name) => h("option", { value: name }, `${t(`mask.${name}`)} · ${name}`)));
  chosen.value = names.includes(get("mask")) ? get("mask") : "prefix";
  const usual = () => example(chosen.value, models.constructors[chosen.value], language());
  const text = h("input", { id: "mask-text", value: get("mt") || usual(), autocomplete: "off" });
  const sliders = h("div", { class: "sliders", id: "sliders" });
  const canvas = h("canvas", { id: "matrix", tabIndex: 0, role: "img" });
  const seen = h("p", { id: "sees", "aria-live": "polite", class: "soft" }, t("hover"));
  const caption = h("p", { id: "caption" });
  const legend = h("div", { class: "legend" });
  const rows = h("div", { class: "scroll", id: "mask-table" });
  const code = h("pre", { id: "code" });
  const save = h("button", { type: "button", class: "quiet", id: "export" }, t("exportSvg"));
  let drawn = null, row = -1, waiting = 0, newest = 0;
  fill(root, h("div", { class: "card" },
    h("div", { class: "row" }, field(t("mask"), chosen), field(t("textInParts"), text)), sliders),
  h("div", { class: "columns" },
    h("div", { class: "card" }, h("div", { class: "row spread" }, h("h2", {}, t("mask")), save), seen, canvas, legend,
      h("p", { class: "soft" }, t("upTo").replace("{n}", models.limits.layout_tokens))),
    h("div", { class: "card" }, caption, h("details", {}, h("summary", {}, t("code")), code),
      h("details", { open: true }, h("summary", {}, t("table")), h("p", { class: "soft" }, t("ranks")), rows))));

  function settings() {
    const found = {};
    for (const input of sliders.querySelectorAll("input")) found[input.name] = Number(input.value);
    return found;
  }

  function relevant() {
    fill(sliders, Object.entries(SLIDERS).filter(([, each]) => each[3].includes(chosen.value)).map(([name, [least, most, usual]]) => {
      const value = h("output", {}, get(`m.${name}`, usual));
      const input = h("input", { type: "range", name, min: least, max: most, value: get(`m.${name}`, usual), "aria-label": t(WORDS[name] || name) });
      input.addEventListener("input", () => { value.textContent = input.value; set({ [`m.${name}`]: input.value }); later(); });
      return h("label", {}, h("span", {}, t(WORDS[name] || name), " ", value), input);
    }));
  }

  function later() {
    clearTimeout(waiting);
    waiting = setTimeout(update, 60);
  }

  async function update() {
    clearTimeout(waiting); // what was waiting to be drawn is drawn now
    const turn = ++newest;
    set({ mask: chosen.value, mt: text.value === usual() ? "" : text.value });
    try {
      const reply = await api("/v1/layout", { constructor: chosen.value, text: text.value || usual(), ...settings() });
      if (turn !== newest) return;
      say(null);
      drawn = reply;
      row = -1;
      show();
    } catch (error) {
      if (turn === newest) say(error);
    }
  }

  function show() {
    caption.textContent = captionOf(drawn, language());
    code.textContent = drawn.code;
    seen.textContent = t("hover");
    const kinds = Object.keys(KINDS).filter((kind) => drawn.kinds.includes(kind));
    fill(legend, kinds.map((kind) => {
      const patch = h("i");
      patch.style.background = colour(kind);
      return h("span", {}, patch, t(KINDS[kind]), h("span", { class: "soft" }, `: ${t(`about.${kind}`)}`));
    }));
    fill(rows, table(["", t("row"), t("kind"), t("rank"), t("horizon"), t("seesHead")], drawn.tokens.map((token, index) => [
      index + 1, token, t(KINDS[drawn.kinds[index]]), drawn.fields.rank[index], drawn.fields.horizon[index], ranges(drawn.seen[index])])));
    canvas.setAttribute("aria-label", `${drawn.constructor} ${drawn.tokens.length} × ${drawn.tokens.length}. ${caption.textContent}`);
    paint();
  }

  function sizes() {
    const n = drawn.tokens.length;
    const room = Math.max(240, canvas.parentElement.clientWidth - 36);
    const longest = Math.min(96, 14 + 8 * Math.max(...drawn.tokens.map((token) => Math.min(12, token.length))));
    const labelled = (room - longest) / n >= 9;
    const edge = labelled ? longest : 4;
    return { n, edge, labelled, cell: Math.min(38, (room - edge) / n) };
  }

  function paint() {
    if (!drawn) return;
    const { n, edge, labelled, cell } = sizes(), scale = window.devicePixelRatio || 1;
    const size = edge + n * cell + 2;
    canvas.width = canvas.height = Math.round(size * scale);
    canvas.style.width = canvas.style.height = `${size}px`;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const gap = cell > 8 ? 1.5 : cell > 4 ? 0.5 : 0, edgeLength = Math.max(0.5, cell - gap);
    const faint = colour("field"), ink = colour("ink"), pale = colour("soft");
    const colours = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, colour(kind)]));
    for (let q = 0; q < n; q += 1) {
      for (let k = 0; k < n; k += 1) {
        pen.globalAlpha = row < 0 || row === q ? 1 : 0.4;
        pen.fillStyle = drawn.seen[q][k] === "1" ? colours[drawn.kinds[k]] : faint;
        if (cell <= 10) {
          pen.fillRect(edge + k * cell, edge + q * cell, edgeLength, edgeLength);
          continue;
        }
        pen.beginPath();
        pen.roundRect(edge + k * cell, edge + q * cell, edgeLength, edgeLength, 3);
        pen.fill();
      }
    }
    pen.globalAlpha = 1;
    if (!labelled) return;
    pen.font = `${Math.min(14, cell * 0.62 + 3)}px system-ui, "Noto Sans CJK SC", sans-serif`;
    pen.textBaseline = "middle";
    for (let index = 0; index < n; index += 1) {
      const token = short(drawn.tokens[index]), middle = edge + index * cell + (cell - gap) / 2;
      pen.textAlign = "right";
      pen.fillStyle = row === index ? ink : pale;
      pen.fillText(token, edge - 6, middle);
      pen.fillStyle = row >= 0 && drawn.seen[row][index] === "1" ? ink : pale;
      pen.save();
      pen.translate(middle, edge - 6);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "left";
      pen.fillText(token, 0, 0);
      pen.restore();
    }
  }

  function point(index) {
    if (!drawn || index === row) return;
    row = index >= 0 && index < drawn.tokens.length ? index : -1;
    const words = row < 0 ? [] : drawn.tokens.filter((_, k) => drawn.seen[row][k] === "1");
    seen.textContent = row < 0 ? t("hover") : `${row + 1} ${drawn.tokens[row]} ${t("sees")} ${words.length}: ${words.slice(0, 60).join(" ")}`;
    paint();
  }

  canvas.addEventListener("pointermove", (event) => {
    if (!drawn) return;
    const { edge, cell } = sizes();
    const top = canvas.getBoundingClientRect().top;
    point(Math.floor((event.clientY - top - edge) / cell));
  });
  canvas.addEventListener("pointerleave", () => point(-1));
  rows.addEventListener("pointerover", (event) => point(event.target.closest("tbody tr")?.sectionRowIndex ?? -1));
  rows.addEventListener("pointerleave", () => point(-1));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || !drawn) return;
    event.preventDefault();
    point(Math.max(0, Math.min(drawn.tokens.length - 1, row + step)));
  });
  save.addEventListener("click", () => {
    if (!drawn) return;
    const link = h("a", { href: URL.createObjectURL(new Blob([drawn.svg], { type: "image/svg+xml" })), download: `${drawn.constructor}.svg` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  chosen.addEventListener("change", () => { text.value = usual(); relevant(); update(); });
  text.addEventListener("input", later);
  new ResizeObserver(() => paint()).observe(canvas.parentElement);
  window.addEventListener("themechange", () => canvas.isConnected && paint());
  relevant();
  update();
}

const short = (token) => (token.length > 12 ? `${token.slice(0, 11)}…` : token);

/** The numbers of the tokens that a row sees, as ranges: 1–4, 7. */
function ranges(seen) {
  return [...seen.matchAll(/1+/g)].map((run) => {
    const first = run.index + 1, last = run.index + run[0].length;
    return first === last ? `${first}` : `${first}–${last}`;
  }).join(", ") || "—";
}
