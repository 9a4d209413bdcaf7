// Ask: a document, questions about it, the answers in their place, and decoders side by side.
import { api } from "./api.js";
import { compareDecoders } from "./compare.js";
import { bar, busy, characters, empty, field, h, fill, likely, marked, percent, sides } from "./dom.js";
import { get, set } from "./state.js";
import { duration, EXAMPLES, language, placed, t } from "./words.js";

let file = null; // {name, unit, places, text} of an opened file; null for pasted text

export function draw(root, { models, say }) {
  const text = h("textarea", { id: "text", placeholder: t("documentHint"), value: get("text"), "aria-label": t("document") });
  const shown = h("div", { class: "text", id: "shown", hidden: true, tabIndex: 0, "aria-label": t("document") });
  const name = h("span", { class: "soft", id: "filename", role: "status" });
  const edit = h("button", { type: "button", class: "quiet", id: "edit", hidden: true, onclick: () => reading(false) }, t("edit"));
  const picker = h("input", { type: "file", id: "file", accept: ".txt,.md,.html,.htm,.pdf,.docx,.csv,.tsv,.json,.jsonl" });
  const open = h("button", { type: "button", class: "quiet", onclick: () => picker.click() }, t("open"));
  const example = h("button", { type: "button", class: "quiet", id: "example", onclick: () => exemplify() }, t("example"));
  const question = h("input", { id: "question", value: get("q"), required: true, autocomplete: "off" });
  const decoder = h("select", { id: "decoder" },
    models.decoders.map((each) => h("option", { value: each }, `${each} · ${t(`decoder.${each}`)}`)));
  decoder.value = models.decoders.includes(get("decoder")) ? get("decoder") : "parallel";
  const unshared = h("p", { class: "soft", id: "unshared", hidden: true }, t("unshared"));
  const button = h("button", { class: "primary", id: "ask-button" }, t("askButton"));
  const attempt = h("button", { type: "button", id: "try", onclick: () => { exemplify(); ask(); } }, t("tryExample"));
  const answers = h("div", { id: "answers", "aria-live": "polite" }, empty(t("noQuestions"), attempt));
  const form = h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); ask(); } },
    h("div", { class: "row" }, field(t("question"), question), button),
    h("div", { class: "row" }, field(t("decoder"), decoder)));
  fill(root, sides(
    h("div", { class: "card document" },
      h("div", { class: "row spread" }, h("h2", {}, t("document")), h("div", { class: "row" }, edit, open, example)),
      name, text, shown, picker, unshared),
    h("div", {}, form, h("div", { class: "card" }, h("h2", {}, t("answers")), answers))));

  function reading(on) {
    text.hidden = on;
    shown.hidden = edit.hidden = !on;
    if (!on) text.focus();
  }

  /** The text of an answer with its places marked; the page itself moves only where somebody wants to go there. */
  function show(reply, asked, chosen = reply, go = true) {
    const counted = characters(asked);
    const spans = [reply, ...likely(reply.alternatives)].filter((each) => each.start !== null)
      .map((each) => ({ start: each.start, end: each.end, kind: each.start === chosen.start ? "" : "other" }));
    for (const gap of unread(reply.parts, counted.length)) {
      if (!spans.some((span) => span.start < gap.end && gap.start < span.end)) spans.push({ ...gap, kind: "unread" });
    }
    fill(shown, marked(counted, spans));
    reading(true);
    const mark = shown.querySelector("mark:not(.other)");
    if (go) shown.scrollIntoView({ block: "nearest" });
    if (mark) shown.scrollTop += mark.getBoundingClientRect().top - shown.getBoundingClientRect().top - shown.clientHeight / 2;
  }

  async function ask() {
    say(null);
    if (!text.value.trim()) {
      say(new Error(t("noText")));
      text.focus();
      return;
    }
    set({ q: question.value, text: file ? "" : text.value, decoder: decoder.value });
    unshared.hidden = get("text") === text.value;
    const body = { question: question.value, passages: [text.value], n_best: 4, decoder: decoder.value, show_parts: true };
    try {
      const reply = await busy(button, () => api("/v1/answer", body));
      if (!answers.querySelector(".answer")) fill(answers);
      answers.prepend(card(reply, body));
      show(reply, text.value, reply, false);
      answers.scrollIntoView({ block: "nearest" });
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
    const asked = body.passages[0]; // the text may have been edited since
    const chips = likely(reply.alternatives).map((each) => h("button",
      { type: "button", onclick: () => show(reply, asked, each) }, each.answer, " ", h("small", {}, percent(each.score))));
    const compared = h("div", { class: "compared" });
    const compare = h("button", { type: "button", class: "quiet compare" }, t("compare"));
    compare.addEventListener("click", () => compareDecoders(compare, compared, body, say));
    const pale = unread(reply.parts, characters(asked).length).length;
    return h("div", { class: "answer" },
      h("div", { class: "soft" }, body.question),
      h("div", { class: reply.answer ? "said" : "said none" }, reply.answer || t("none")),
      bar(reply.score, t("confidence")),
      h("div", { class: "row soft" },
        reply.start === null ? null : h("button", { type: "button", class: "link", onclick: () => show(reply, asked) }, place(reply)),
        h("span", {}, [duration(reply.milliseconds), `${reply.tokens} ${t("tokens")}`, remembered(reply)].filter(Boolean).join(" · "))),
      pale ? h("p", { class: "soft" }, t("partsShown")) : null,
      chips.length ? h("div", { class: "chips", role: "group", "aria-label": t("others") }, h("span", { class: "soft" }, t("others")), chips) : null,
      compare, compared);
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
  function exemplify() {
    file = null;
    name.textContent = "";
    text.value = EXAMPLES[language()].text;
    question.value = EXAMPLES[language()].question;
    set({ text: text.value, q: question.value });
    reading(false);
    text.scrollTop = 0;
    question.setSelectionRange(0, 0);
    question.focus();
  }

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

/** How much of the text had been read for an earlier question. */
function remembered(reply) {
  if (!reply.remembered) return "";
  if (reply.remembered === reply.windows) return t("readAll");
  return t("readSome").replace("{n}", reply.remembered).replace("{m}", reply.windows);
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
