// Fill: the best words for each [MASK], with bars.
import { api } from "./api.js";
import { bar, busy, chooser, empty, field, fill, h, sides, table } from "./dom.js";
import { missing } from "./missing.js";
import { get, set } from "./state.js";
import { language, t } from "./words.js";

const USUAL = { en: "Paris is the [MASK] of France.", zh: "北京是中国的[MASK]都。" };
const GAP = "[MASK]";

export function draw(root, { all, say }) {
  const models = all("filler");
  if (!models.length) {
    fill(root, missing("fill", "masquerade serve --fill bert=google-bert/bert-base-uncased"));
    return;
  }
  const model = chooser(t("model"), "fill-model", models, get("fm"));
  const text = h("textarea", { id: "fill-text", rows: 3, value: get("ft", USUAL[language()]) });
  const insert = h("button", { type: "button", id: "insert", onclick: () => {
    text.setRangeText(GAP, text.selectionStart, text.selectionEnd, "end");
    text.focus();
  } }, t("insertMask"));
  const button = h("button", { class: "primary", id: "fill-button" }, t("fillButton"));
  const out = h("div", { id: "filled", "aria-live": "polite" }, empty(t("noFilled")));
  fill(root, sides(
    h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); go(); } }, field(t("fillHint"), text),
      h("div", { class: "row" }, model.field, button, insert)),
    h("div", { class: "card" }, h("h2", {}, t("filled")), out)));

  async function go() {
    say(null);
    set({ ft: text.value, fm: model.select.value });
    try {
      const reply = await busy(button, () => api("/v1/fill", { text: text.value, model: model.select.value, top: 8 }));
      fill(out, h("p", { class: "said" }, reply.text), reply.masks.map((words, number) => h("div", {},
        h("h3", {}, `${GAP} ${number + 1}`), words.map((each) => bar(each.probability, each.word)),
        h("details", {}, h("summary", {}, t("table")),
          table([t("word"), "%"], words.map((each) => [each.word, Number((100 * each.probability).toFixed(2))]))))));
    } catch (error) {
      say(error);
    }
  }
  if (get("ft")) go(); // a shared view
}
