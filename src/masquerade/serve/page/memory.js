// Memory: change a fact, and see the answer change.
import { api } from "./api.js";
import { bar, busy, field, fill, h, table } from "./dom.js";
import { missing } from "./missing.js";
import { get, set } from "./state.js";
import { language, t } from "./words.js";

const USUAL = { en: "Paris is the capital of [MASK].", zh: "巴黎是[MASK]的首都。" };

export function draw(root, { all, say }) {
  const bases = all("facts");
  if (!bases.length) return missing(root, "masquerade serve --facts world=path/to/model:path/to/kb");
  const base = h("select", { id: "facts-base" }, bases.map((each) => h("option", {}, each.name)));
  if (bases.some((each) => each.name === get("mb"))) base.value = get("mb");
  const text = h("textarea", { id: "memory-text", rows: 2, value: get("mm", USUAL[language()]), required: true, "aria-label": t("text") });
  const button = h("button", { class: "primary", id: "recall-button" }, t("fillButton"));
  const entity = h("input", { id: "entity", value: get("me"), placeholder: t("allFacts"), autocomplete: "off" });
  const list = h("button", { type: "button", class: "quiet", id: "show-facts", onclick: () => facts() }, t("show"));
  const facts_ = h("div", { class: "scroll", id: "facts" }), note = h("p", { class: "soft", "aria-live": "polite", id: "note" });
  const out = h("div", { id: "recalled", "aria-live": "polite" });
  let before = null;
  const path = () => `/v1/facts/${encodeURIComponent(base.value)}`;
  const form = h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); recall(); } },
    h("p", { class: "soft" }, t("memoryHint")), field(t("fillHint"), text), h("div", { class: "row" }, field(t("model"), base), button), out);
  fill(root, h("div", { class: "columns" }, form, h("div", { class: "card" }, h("h2", {}, t("facts")),
    h("div", { class: "row" }, field(t("entity"), entity), list), facts_, note)));

  async function recall() {
    say(null);
    set({ mm: text.value, mb: base.value });
    try {
      const reply = await busy(button, () => api(`${path()}/fill`, { text: text.value, top: 5 }));
      const one = (title, each) => h("div", {}, h("h3", {}, title), h("p", { class: "out" }, each.text),
        each.blanks.map((blank) => h("div", {}, blank.answers.map((answer) => bar(answer.probability, answer.word)),
          h("details", {}, h("summary", {}, t("factsRead")), table([t("facts"), "%"],
            [...blank.facts.map((fact) => [fact.word, Number((100 * fact.probability).toFixed(1))]),
              [t("noFact"), Number((100 * blank.no_fact).toFixed(1))]])))));
      fill(out, one(t("now"), reply), before && before.asked === text.value ? one(t("before"), before) : null);
      before = { ...reply, asked: text.value };
    } catch (error) {
      say(error);
    }
  }

  async function facts() {
    say(null);
    set({ me: entity.value });
    try {
      const asked = entity.value ? `?entity=${encodeURIComponent(entity.value)}` : "";
      const reply = await busy(list, () => api(path() + asked));
      note.textContent = reply.kept ? "" : t("copyKept");
      fill(facts_, table([t("subject"), t("relation"), t("objects"), ""], reply.facts.map((fact) => {
        const input = h("input", { value: fact.objects.join(", "), "aria-label": `${fact.subject} ${fact.relation}` });
        const save = h("button", { type: "button", class: "quiet", onclick: () => change(fact, input, save) }, t("change"));
        return [fact.subject, fact.relation, input, save];
      })));
    } catch (error) {
      say(error);
    }
  }

  async function change(fact, input, save) {
    say(null);
    const objects = input.value.split(/[,，]/).map((each) => each.trim()).filter(Boolean);
    try {
      await busy(save, () => api(path(), { subject: fact.subject, relation: fact.relation, objects }));
      note.textContent = t("changed");
      if (text.value) await recall();
    } catch (error) {
      say(error);
    }
  }
  base.addEventListener("change", () => facts());
  facts();
  if (get("mm")) recall(); // a shared view
  return undefined;
}
