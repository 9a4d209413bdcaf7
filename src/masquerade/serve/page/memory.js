// Memory: change a fact, and see the answer change.
import { api } from "./api.js";
import { bar, busy, chooser, empty, field, fill, h, sides, table } from "./dom.js";
import { missing } from "./missing.js";
import { get, set } from "./state.js";
import { language, t } from "./words.js";

const USUAL = { en: "Paris is the capital of [MASK].", zh: "巴黎是[MASK]的首都。" };

export function draw(root, { all, say }) {
  const bases = all("facts");
  if (!bases.length) {
    fill(root, missing("memory", "masquerade entities build facts.jsonl --out kb",
      "masquerade train entities entities start=minilm memory=kb train=linked.jsonl out=runs/facts",
      "masquerade serve --facts world=runs/facts:kb"));
    return;
  }
  const base = chooser(t("model"), "facts-base", bases, get("mb"));
  const text = h("textarea", { id: "memory-text", rows: 2, value: get("mm", USUAL[language()]), required: true });
  const button = h("button", { class: "primary", id: "recall-button" }, t("fillButton"));
  const entity = h("input", { id: "entity", value: get("me"), placeholder: t("allFacts"), autocomplete: "off" });
  const list = h("button", { id: "show-facts" }, t("show"));
  const rows = h("div", { class: "scroll", id: "facts" }), note = h("p", { class: "soft", role: "status", id: "note" });
  const out = h("div", { id: "recalled", "aria-live": "polite" }, empty(t("noRecalled")));
  let before = null;
  const path = () => `/v1/facts/${encodeURIComponent(base.select.value)}`;
  fill(root, sides(
    h("div", {},
      h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); recall(); } }, field(t("fillHint"), text),
        h("div", { class: "row" }, base.field, button)),
      h("div", { class: "card" }, out)),
    h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); facts(); } }, h("h2", {}, t("facts")),
      h("div", { class: "row" }, field(t("entity"), entity), list), rows, note)));

  async function recall() {
    say(null);
    set({ mm: text.value, mb: base.select.value });
    try {
      const reply = await busy(button, () => api(`${path()}/fill`, { text: text.value, top: 5 }));
      const earlier = before && before.asked === text.value ? one(t("before"), before) : null;
      fill(out, h("div", { class: earlier ? "twice" : "" }, one(t("now"), reply), earlier));
      before = { ...reply, asked: text.value };
    } catch (error) {
      say(error);
    }
  }

  /** What the network said at one time. */
  function one(title, each) {
    return h("div", {}, h("h3", {}, title), h("p", { class: "said out" }, each.text),
      each.blanks.map((blank) => h("div", {}, blank.answers.map((answer) => bar(answer.probability, answer.word)),
        h("details", {}, h("summary", {}, t("factsRead")), table([t("fact"), "%"],
          [...blank.facts.map((fact) => [fact.word, Number((100 * fact.probability).toFixed(1))]),
            [t("noFact"), Number((100 * blank.no_fact).toFixed(1))]])))));
  }

  async function facts() {
    say(null);
    set({ me: entity.value });
    try {
      const asked = entity.value ? `?entity=${encodeURIComponent(entity.value)}` : "";
      const reply = await busy(list, () => api(path() + asked));
      note.textContent = reply.kept ? "" : t("copyKept");
      fill(rows, table([t("subject"), t("relation"), t("objects"), ""], reply.facts.map((fact) => {
        const input = h("input", { value: fact.objects.join(", "), "aria-label": `${fact.subject} ${fact.relation}` });
        const save = h("button", { type: "button", class: "quiet", onclick: () => change(fact, input, save) }, t("change"));
        input.addEventListener("keydown", (event) => {
          if (event.key !== "Enter") return;
          event.preventDefault(); // the form around it would list the facts
          change(fact, input, save);
        });
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
      for (const row of rows.querySelectorAll(".changed")) row.classList.remove("changed");
      save.closest("tr").classList.add("changed");
      if (text.value) await recall();
    } catch (error) {
      say(error);
    }
  }
  base.select.addEventListener("change", () => facts());
  facts();
  if (get("mm")) recall(); // a shared view
}
