// Ask: a document, questions about it, the answers in their place, and decoders side by side.
import { api } from "./api.js";
import { bar, busy, characters, field, h, fill, marked, percent, table } from "./dom.js";
import { get, set } from "./state.js";
import { EXAMPLES, language, placed, t } from "./words.js";

let file = null; // {name, unit, places, text} of an opened file; null for pasted text

export function draw(root, { models, say }) {
  const text = h("textarea", { id: "text", placeholder: t("documentHint"), value: get("text"), "aria-label": t("document") });
  const shown = h("div", { class: "text", id: "shown", hidden: true, tabIndex: 0, "aria-label": t("document") });
  const name = h("span", { class: "soft", id: "filename", role: "status" });
  const edit = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => reading(false) }, t("edit"));
  const picker = h("input", { type: "file", id: "file", accept: ".txt,.md,.html,.htm,.pdf,.docx,.csv,.tsv,.json,.jsonl" });
  const open = h("button", { type: "button", class: "quiet", onclick: () => picker.click() }, t("open"));
  const example = h("button", { type: "button", class: "quiet", id: "example" }, t("example"));
  const question = h("input", { id: "question", value: get("q"), required: true, autocomplete: "off" });
  const decoder = h("select", { id: "decoder" }, models.decoders.map((each) => h("option", { value: each }, each)));
  decoder.value = models.decoders.includes(get("decoder")) ? get("decoder") : "parallel";
  const how = h("p", { class: "soft", id: "decoder-how" });
  const explain = () => { how.textContent = t(`decoder.${decoder.value}`); };
  decoder.addEventListener("change", explain);
  explain();
  const unshared = h("p", { class: "soft", id: "unshared", hidden: true }, t("unshared"));
  const button = h("button", { class: "primary", id: "ask-button" }, t("askButton"));
  const answers = h("div", { id: "answers", "aria-live": "polite" }, h("p", { class: "soft" }, t("noQuestions")));
  const form = h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); ask(); } },
    field(t("question"), question),
    h("div", { class: "row" }, h("div", { class: "grow" }, field(t("decoder"), decoder)), button), how);
  fill(root, h("div", { class: "columns" },
    h("div", { class: "card document" },
      h("div", { class: "row spread" }, h("h2", {}, t("document")), h("div", { class: "row" }, name, edit, open, example)),
      text, shown, picker, unshared),
    h("div", {}, form, h("div", { class: "card" }, h("h2", {}, t("answers")), answers))));

  function reading(on) {
    text.hidden = on;
    shown.hidden = edit.hidden = !on;
    if (!on) text.focus();
  }

  function show(reply, chosen = reply) {
    const counted = characters(text.value);
    const spans = [reply, ...reply.alternatives].filter((each) => each.start !== null)
      .map((each) => ({ start: each.start, end: each.end, kind: each.start === chosen.start ? "" : "other" }));
    for (const gap of unread(reply.parts, counted.length)) {
      if (!spans.some((span) => span.start < gap.end && gap.start < span.end)) spans.push({ ...gap, kind: "unread" });
    }
    fill(shown, marked(counted, spans));
    reading(true);
    shown.querySelector("mark:not(.other)")?.scrollIntoView({ block: "center" });
  }

  async function ask() {
    say(null);
    set({ q: question.value, text: file ? "" : text.value, decoder: decoder.value });
    unshared.hidden = get("text") === text.value;
    const body = { question: question.value, passages: [text.value], n_best: 4, decoder: decoder.value, show_parts: true };
    try {
      const reply = await busy(button, () => api("/v1/answer", body));
      if (!answers.querySelector(".answer")) fill(answers);
      answers.prepend(card(reply, body));
      show(reply);
    } catch (error) {
      say(error);
    }
  }

  function place(reply) {
    if (reply.start === null) return "";
    const unit = file ? file.unit : "line";
    if (file?.places.length) {
      const before = file.places.filter((each) => each.start <= reply.start).at(-1) || file.places[0];
      return placed(unit, before.number);
    }
    const lines = String(characters(text.value).slice(0, reply.start)).split("\n").length;
    return placed("line", lines);
  }

  function card(reply, body) {
    const chips = reply.alternatives.map((each) => h("button", { type: "button", onclick: () => show(reply, each) },
      each.answer, " ", h("small", {}, percent(each.score))));
    const seen = reply.remembered ? ` · ${reply.remembered} / ${reply.windows} ${t("windows")} ${t("readBefore")}` : "";
    const compared = h("div", { class: "compared" });
    const compare = h("button", { type: "button", class: "quiet compare" }, t("compare"));
    compare.addEventListener("click", () => comparing(compare, compared, body));
    const pale = unread(reply.parts, characters(text.value).length).length;
    return h("div", { class: "answer" },
      h("div", { class: "soft" }, body.question),
      h("div", { class: reply.answer ? "said" : "said none" }, reply.answer || t("none")),
      bar(reply.score, t("confidence")),
      h("div", { class: "row soft" },
        reply.start === null ? null : h("button", { type: "button", class: "link", onclick: () => show(reply) }, place(reply)),
        h("span", {}, `${reply.milliseconds.toFixed(0)} ${t("ms")} · ${reply.tokens} ${t("tokens")}${seen}`)),
      pale ? h("p", { class: "soft" }, t("partsShown")) : null,
      chips.length ? h("div", { class: "chips", role: "group", "aria-label": t("others") }, h("span", { class: "soft" }, t("others")), chips) : null,
      compare, compared);
  }

  async function comparing(button, target, body) {
    say(null);
    try {
      const sent = { question: body.question, passage: body.passages[0] };
      const reply = await busy(button, () => api("/v1/answer/compare", sent));
      const lanes = reply.answers.map((each) => {
        const tokens = each.tokens.map((token) => h("span", { class: "token", "data-step": String(token.step) }, token.text));
        return h("div", { class: "lane" }, h("strong", {}, each.decoder), h("div", { class: "tokens" }, tokens),
          h("span", { class: "right soft" }, `${each.milliseconds.toFixed(0)} ${t("ms")}`));
      });
      const replay = h("button", { type: "button", class: "quiet", onclick: () => play(lanes, reply) }, t("replay"));
      const rows = reply.answers.map((each) => [each.decoder, each.answer, Number((each.score * 100).toFixed(1)), each.passes,
        Number(each.milliseconds.toFixed(1)), each.tokens.map((token) => `${token.text} (${token.step})`).join(" ")]);
      const head = [t("decoder"), t("answer"), "%", t("passes"), t("ms"), t("tokensByPass")];
      fill(target, h("p", { class: "soft" }, t("compareHint")), lanes, replay, h("div", { class: "scroll" }, table(head, rows)));
      play(lanes, reply);
    } catch (error) {
      say(error);
    }
  }

  /** Tokens appear in the order of their passes; a decoder's passes take the time they took, ten times as slow. */
  function play(lanes, reply) {
    for (const [index, lane] of lanes.entries()) {
      const { milliseconds, passes } = reply.answers[index];
      for (const token of lane.querySelectorAll(".token")) {
        token.classList.remove("on");
        const wait = Math.min(6000, (10 * milliseconds * Number(token.dataset.step)) / passes);
        setTimeout(() => token.classList.add("on"), wait);
      }
    }
  }

  async function opened(chosen) {
    if (!chosen) return;
    say(null);
    name.textContent = t("reading");
    try {
      const found = await busy(open, () => api(`/v1/document?name=${encodeURIComponent(chosen.name)}`, chosen, { raw: true }));
      file = found;
      text.value = found.text;
      name.textContent = found.title && found.title !== found.name ? `${found.name} · ${found.title}` : found.name;
      reading(false);
    } catch (error) {
      name.textContent = "";
      say(error);
    }
  }

  picker.addEventListener("change", () => opened(picker.files[0]));
  text.addEventListener("input", () => { file = null; name.textContent = ""; set({ text: text.value }); });
  example.addEventListener("click", () => {
    file = null;
    name.textContent = "";
    text.value = EXAMPLES[language()].text;
    question.value = EXAMPLES[language()].question;
    set({ text: text.value, q: question.value });
    reading(false);
    text.scrollTop = 0;
    question.setSelectionRange(0, 0);
    question.focus();
  });
  for (const target of [text, shown]) {
    for (const kind of ["dragover", "dragleave", "drop"]) {
      target.addEventListener(kind, (event) => {
        if (!event.dataTransfer.types.includes("Files")) return;
        event.preventDefault();
        target.classList.toggle("drop", kind === "dragover");
        if (kind === "drop") opened(event.dataTransfer.files[0]);
      });
    }
  }
  if (file && !get("text")) {
    text.value = file.text;
    name.textContent = file.name;
  }
  if (text.value && question.value) ask(); // a shared view, or the same one in another language
}

/** The gaps between the parts that were read. */
function unread(parts, length) {
  const gaps = [];
  let offset = 0;
  for (const part of parts || []) {
    if (part.start > offset + 2) gaps.push({ start: offset, end: part.start });
    offset = Math.max(offset, part.end);
  }
  if (parts?.length && offset + 2 < length) gaps.push({ start: offset, end: length });
  return gaps;
}
