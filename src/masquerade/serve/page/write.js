// Write: a text for a text, and texts that are continued while one watches.
import { api, events } from "./api.js";
import { bar, busy, field, fill, h } from "./dom.js";
import { missing } from "./missing.js";
import { get, set } from "./state.js";
import { t } from "./words.js";

export function draw(root, { all, models, say }) {
  const writers = all("writer"), generators = all("generator");
  if (!writers.length && !generators.length) {
    return missing(root, "masquerade serve --writer titles=path/to/writer", "masquerade serve --generate gpt=path/to/model");
  }
  fill(root, writers.length ? writing(writers, say) : null, generators.length ? continuing(generators, models, say) : null);
  return undefined;
}

function writing(writers, say) {
  const model = h("select", { id: "writer" }, writers.map((each) => h("option", {}, each.name)));
  if (writers.some((each) => each.name === get("wm"))) model.value = get("wm");
  const text = h("textarea", { id: "write-text", rows: 6, value: get("wt"), required: true });
  const button = h("button", { class: "primary", id: "write-button" }, t("writeButton"));
  const out = h("div", { id: "written", "aria-live": "polite" });
  const go = async () => {
    say(null);
    set({ wt: text.value, wm: model.value });
    try {
      const reply = await busy(button, () => api("/v1/write", { text: text.value, model: model.value, n_best: 3 }));
      const best = Math.max(...reply.texts.map((each) => each.score));
      fill(out, reply.texts.map((each) => h("div", { class: "answer" }, h("div", { class: "said" }, each.text || "—"),
        bar(Math.exp(each.score - best), t("relative")))), h("p", { class: "soft" }, `${reply.milliseconds.toFixed(0)} ${t("ms")}`));
    } catch (error) {
      say(error);
    }
  };
  if (text.value) go(); // a shared view
  return h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); go(); } }, h("h2", {}, t("write")), field(t("writeHint"), text),
    h("div", { class: "row" }, field(t("model"), model), button), out);
}

function continuing(generators, models, say) {
  const model = h("select", { id: "generator" }, generators.map((each) => h("option", {}, each.name)));
  const method = h("select", { id: "method" }, models.methods.map((each) => h("option", {}, each)));
  const most = h("input", { id: "max-new", type: "number", min: 1, max: models.limits.new_tokens, value: get("n", 40) });
  if (generators.some((each) => each.name === get("gm"))) model.value = get("gm");
  if (models.methods.includes(get("method"))) method.value = get("method");
  const prompt = h("textarea", { id: "prompt", rows: 3, value: get("p"), required: true });
  const button = h("button", { class: "primary", id: "generate-button" }, t("generate"));
  const stop = h("button", { type: "button", hidden: true, id: "stop-button" }, t("stop"));
  const out = h("div", { class: "text out", id: "generated", "aria-live": "polite", hidden: true });
  const go = async (event) => {
    event.preventDefault();
    say(null);
    set({ p: prompt.value, n: most.value, gm: model.value, method: method.value });
    const control = new AbortController();
    stop.onclick = () => control.abort();
    stop.hidden = out.hidden = false;
    const given = h("span", { class: "soft" }, prompt.value), text = h("span");
    fill(out, given, text);
    const body = { prompt: prompt.value, model: model.value, method: method.value, max_new: Number(most.value) };
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
  return h("form", { class: "card", onsubmit: go }, h("h2", {}, t("generate")), field(t("prompt"), prompt),
    h("div", { class: "row" }, field(t("model"), model), field(t("method"), method), field(t("newTokens"), most), button, stop), out);
}
