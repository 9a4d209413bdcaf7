// Fill: the best words for each [MASK], with bars.
import { api } from "./api.js";
import { bar, busy, field, fill, h, table } from "./dom.js";
import { missing } from "./missing.js";
import { get, set } from "./state.js";
import { language, t } from "./words.js";

const USUAL = { en: "Paris is the [MASK] of France.", zh: "北京是中国的[MASK]都。" };

export function draw(root, { all, say }) {
  const models = all("filler");
  if (!models.length) return missing(root, "masquerade serve --fill bert=path/to/model");
  const model = h("select", { id: "fill-model" }, models.map((each) => h("option", {}, each.name)));
  if (models.some((each) => each.name === get("fm"))) model.value = get("fm");
  const text = h("textarea", { id: "fill-text", rows: 3, value: get("ft", USUAL[language()]), "aria-label": t("text") });
  const button = h("button", { class: "primary", id: "fill-button" }, t("fillButton"));
  const out = h("div", { id: "filled", "aria-live": "polite" });
  const form = h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); go(); } }, field(t("fillHint"), text),
    h("div", { class: "row" }, field(t("model"), model), button));
  fill(root, form, out);

  async function go() {
    say(null);
    set({ ft: text.value, fm: model.value });
    try {
      const reply = await busy(button, () => api("/v1/fill", { text: text.value, model: model.value, top: 8 }));
      fill(out, h("div", { class: "card" }, h("p", { class: "out" }, reply.text), reply.masks.map((words, number) => h("div", {},
        h("h3", {}, `[MASK] ${number + 1}`), words.map((each) => bar(each.probability, each.word)),
        h("details", {}, h("summary", {}, t("table")),
          table([t("answer"), "%"], words.map((each) => [each.word, Number((100 * each.probability).toFixed(2))])))))));
    } catch (error) {
      say(error);
    }
  }
  if (get("ft")) go(); // a shared view
  return undefined;
}
