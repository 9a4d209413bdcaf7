// Collection: search and ask a knowledge base, with citations that open the passage.
import { api } from "./api.js";
import { bar, busy, characters, empty, field, fill, h, likely, marked, percent } from "./dom.js";
import { missing } from "./missing.js";
import { get, set } from "./state.js";
import { placed, t } from "./words.js";

export function draw(root, { all, say }) {
  const bases = all("collection");
  if (!bases.length) {
    fill(root, missing("collection", "masquerade index notes --out kb", "masquerade serve --kb notes=kb"));
    return;
  }
  const base = h("select", { id: "kb" }, bases.map((each) => h("option", { value: each.name },
    `${each.name} (${each.about.documents} ${t("files")}, ${each.about.passages} ${t("passages")})`)));
  if (bases.some((each) => each.name === get("kb"))) base.value = get("kb");
  const query = h("input", { id: "query", value: get("kq"), required: true, autocomplete: "off" });
  const search = h("button", { type: "button", id: "search-button", onclick: () => find(false) }, t("search"));
  const ask = h("button", { class: "primary", id: "collection-ask" }, t("askButton"));
  const out = h("div", { id: "found", "aria-live": "polite" }, h("div", { class: "card" }, empty(t("noSearch"))));
  const form = h("form", { class: "card", onsubmit: (event) => { event.preventDefault(); find(true); } },
    h("div", { class: "row" }, field(t("collection"), base), h("div", { class: "row wider" }, field(t("query"), query), ask, search)));
  fill(root, form, out);

  async function find(asking) {
    if (!form.reportValidity()) return;
    say(null);
    set({ kb: base.value, kq: query.value, km: asking ? "ask" : "search" });
    try {
      if (asking) {
        const body = { question: query.value, collection: base.value, n_best: 3 };
        const reply = await busy(ask, () => api("/v1/answer", body));
        fill(out, answered(reply), listed(reply.passages, t("readFor"), reply));
      } else {
        const reply = await busy(search, () => api("/v1/search", { collection: base.value, query: query.value }));
        fill(out, listed(reply.passages, t("found")));
      }
    } catch (error) {
      say(error);
    }
  }

  function answered(reply) {
    const chips = likely(reply.alternatives).filter((each) => each.answer).map((each) => h("button",
      { type: "button", disabled: each.passage === null, onclick: () => openPassage(reply, each) },
      each.answer, " ", h("small", {}, percent(each.score))));
    return h("div", { class: "card" }, h("h2", {}, t("answer")),
      h("div", { class: reply.answer ? "said" : "said none" }, reply.answer || t("none")),
      bar(reply.score, t("confidence")),
      reply.before !== null && reply.answer ? h("p", {}, reply.before, h("mark", {}, reply.answer), reply.after) : null,
      reply.passage === null ? null : h("button", { type: "button", class: "link cite", onclick: () => openPassage(reply, reply) },
        cited(reply.passages[reply.passage])),
      chips.length ? h("div", { class: "chips", role: "group", "aria-label": t("others") }, h("span", { class: "soft" }, t("others")), chips) : null);
  }

  const cited = (passage) => t("cited").replace("{n}", passage.title || passage.file) + placed(passage.unit, passage.number);

  /** Open the passage of an answer, with the answer marked in it. */
  function openPassage(reply, answer) {
    const target = out.querySelectorAll(".passage")[answer.passage];
    fill(target.querySelector("p"), marked(characters(reply.passages[answer.passage].text), [{ start: answer.start, end: answer.end }]));
    target.open = true;
    target.scrollIntoView({ block: "nearest" });
    target.querySelector("summary").focus();
  }

  function listed(passages, title, reply) {
    if (!passages.length) return h("div", { class: "card" }, empty(t("noFound")));
    return h("div", { class: "card" }, h("h2", {}, title), passages.map((each, number) => {
      const spans = reply?.passage === number ? [{ start: reply.start, end: reply.end }] : [];
      const heading = each.heading && each.heading !== each.title ? ` · ${each.heading}` : "";
      return h("details", { class: "passage", open: !reply && number === 0 },
        h("summary", {}, cited(each), heading, h("span", { class: "soft" }, ` · ${t("score")} ${each.score.toFixed(2)}`)),
        h("p", {}, marked(characters(each.text), spans)), h("p", { class: "soft" }, each.file));
    }));
  }
  if (query.value) find(get("km") !== "search"); // a shared view
}
