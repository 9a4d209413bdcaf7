// Write: a text for a text, and texts that are continued while one watches.
import { api, events } from "./api.js";
import { bar, busy, chooser, empty, field, fill, h, sides } from "./dom.js";
import { missing } from "./missing.js";
import { get, set } from "./state.js";
import { duration, EXAMPLES, language, t } from "./words.js";

export function draw(root, { all, models, say }) {
  const writers = all("writer"), generators = all("generator");
  fill(root, writers.length ? writing(writers, say) : null, generators.length ? continuing(generators, models, say) : null);
  if (!writers.length && !generators.length) {
    fill(root, missing("write", "masquerade serve --reader en --writer title-en",
      "masquerade serve --generate gpt=openai-community/gpt2"));
  }
}

function writing(writers, say) {
  const model = chooser(t("model"), "writer", writers, get("wm"));
  const text = h("textarea", { id: "write-text", rows: 8, value: get("wt"), required: true });
  const button = h("button", { class: "primary", id: "write-button" }, t("writeButton"));
  const example = h("button", { type: "button", id: "write-example", onclick: () => { text.value = EXAMPLES[language()].text; } }, t("example"));
  const out = h("div", { id: "written", "aria-live": "polite" }, empty(t("noWritten")));
  const go = async () => {
    say(null);
    set({ wt: text.value, wm: model.select.value });
    try {
      const reply = await busy(button, () => api("/v1/write", { text: text.value, model: model.select.value, n_best: 3 }));
      const best = Math.max(...reply.texts.map((each) => each.score));
      fill(out, reply.texts.map((each) => h("div", { class: "answer" }, h("div", { class: "said" }, each.text || "—"),
        bar(Math.exp(each.score - best)))), h("p", { class: "soft" }, `${t("relative")} ${duration(reply.milliseconds)}`));
    } catch (error) {
      say(error);
    }
  };
  if (text.value) go(); // a shared view
  return sides(
    h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); go(); } }, field(t("writeHint"), text),
      h("div", { class: "row" }, model.field, button, example)),
    h("div", { class: "card" }, h("h2", {}, t("written")), out));
}

function continuing(generators, models, say) {
  const model = chooser(t("model"), "generator", generators, get("gm"));
  const method = h("select", { id: "method" }, models.methods.map((each) => h("option", {}, each)));
  const most = h("input", { id: "max-new", type: "number", min: 1, max: models.limits.new_tokens, value: get("n", 40) });
  if (models.methods.includes(get("method"))) method.value = get("method");
  const prompt = h("textarea", { id: "prompt", rows: 3, value: get("p"), required: true });
  const button = h("button", { class: "primary", id: "generate-button" }, t("generate"));
  const stop = h("button", { type: "button", hidden: true, id: "stop-button" }, t("stop"));
  const out = h("div", { class: "out", id: "generated", "aria-live": "polite" }, empty(t("noGenerated")));
  const go = async (event) => {
    event.preventDefault();
    say(null);
    set({ p: prompt.value, n: most.value, gm: model.select.value, method: method.value });
    const control = new AbortController();
    stop.onclick = () => control.abort();
    stop.hidden = false;
    const given = h("span", { class: "soft" }, prompt.value), text = h("span");
    fill(out, given, text);
    const body = { prompt: prompt.value, model: model.select.value, method: method.value, max_new: Number(most.value) };
    try {
      await busy(button, () => events("/v1/generate", body, (name, data) => {
        if (name === "piece") text.textContent += data.text;
        if (name === "error") throw new Error(data.error);
      }, control.signal));
    } catch (error) {
      if (error.name !== "AbortError") say(error);
    } finally {
      stop.hidden = true;
    }
  };
  return sides(
    h("form", { class: "card", onsubmit: go }, field(t("prompt"), prompt),
      h("div", { class: "row" }, model.field, field(t("method"), method), field(t("newTokens"), most), button, stop)),
    h("div", { class: "card" }, h("h2", {}, t("continued")), out));
}
