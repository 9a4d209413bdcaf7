// Collection: search and ask a knowledge base, with citations that open the passage.
import { api } from "./api.js";
import { bar, busy, characters, field, fill, h, marked } from "./dom.js";
import { missing } from "./missing.js";
import { get, set } from "./state.js";
import { placed, t } from "./words.js";

export function draw(root, { all, say }) {
  const bases = all("collection");
  if (!bases.length) return missing(root, "masquerade index notes --out kb", "masquerade serve --kb notes=kb");
  const base = h("select", { id: "kb" }, bases.map((each) => h("option", { value: each.name },
    `${each.name} (${each.about.documents} ${t("files")}, ${each.about.passages} ${t("passages")})`)));
  if (bases.some((each) => each.name === get("kb"))) base.value = get("kb");
  const query = h("input", { id: "query", value: get("kq"), required: true, autocomplete: "off" });
  const search = h("button", { type: "button", id: "search-button", onclick: () => find(false) }, t("search"));
  const ask = h("button", { class: "primary", id: "collection-ask" }, t("askButton"));
  const out = h("div", { id: "found", "aria-live": "polite" });
  const form = h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); find(true); } },
    h("div", { class: "row" }, field(t("collection"), base), field(t("query"), query)),
    h("div", { class: "row" }, ask, search));
  fill(root, form, out);

  async function find(asking) {
    if (!form.reportValidity()) return;
    say(null);
    set({ kb: base.value, kq: query.value, km: asking ? "ask" : "search" });
    try {
      if (asking) {
        const body = { question: query.value, collection: base.value, n_best: 3 };
        const reply = await busy(ask, () => api("/v1/answer", body));
        fill(out, answered(reply), listed(reply.passages, reply));
      } else {
        const reply = await busy(search, () => api("/v1/search", { collection: base.value, query: query.value }));
        fill(out, listed(reply.passages));
      }
    } catch (error) {
      say(error);
    }
  }

  function answered(reply) {
    const one = (each, first) => h("div", { class: "answer" },
      h("div", { class: each.answer ? "said" : "said none" }, each.answer || t("none")),
      bar(each.score, t("confidence")),
      each.before !== null && each.answer && first
        ? h("p", {}, each.before, h("mark", {}, each.answer), each.after) : null,
      each.passage === null ? null : h("button", { type: "button", class: "link cite", onclick: () => openPassage(each.passage) },
        cited(reply.passages[each.passage])));
    return h("div", { class: "card" }, h("h2", {}, t("answer")), one(reply, true), reply.alternatives.map((each) => one(each, false)));
  }

  const cited = (passage) => t("cited").replace("{n}", passage.title || passage.file) + placed(passage.unit, passage.number);

  function openPassage(number) {
    const target = out.querySelectorAll(".passage")[number];
    target.open = true;
    target.scrollIntoView({ block: "center" });
    target.querySelector("summary").focus();
  }

  function listed(passages, reply) {
    if (!passages.length) return h("div", { class: "card empty" }, t("noFound"));
    return h("div", { class: "card" }, h("h2", {}, t("found")), passages.map((each, number) => {
      const spans = reply?.passage === number ? [{ start: reply.start, end: reply.end }] : [];
      return h("details", { class: "passage", open: !reply && number === 0 },
        h("summary", {}, cited(each), each.heading ? ` · ${each.heading}` : "", h("span", { class: "soft" }, ` · ${t("score")} ${each.score.toFixed(3)}`)),
        h("p", {}, marked(characters(each.text), spans)), h("p", { class: "soft" }, each.file));
    }));
  }
  if (query.value) find(get("km") !== "search"); // a shared view
  return undefined;
}
