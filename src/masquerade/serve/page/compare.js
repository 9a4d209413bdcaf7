// The same question for several decoders: their times, and which token was written in which pass.
import { api } from "./api.js";
import { busy, fill, h, percent, table } from "./dom.js";
import { duration, t } from "./words.js";

const SLOWER = 10, LONGEST = 6000; // the animation takes ten times as long as the decoder did, and six seconds at most

/** Ask the question of a request of all decoders, and show their answers side by side. */
export async function compareDecoders(button, target, body, say) {
  say(null);
  try {
    const sent = { question: body.question, passage: body.passages[0] };
    const reply = await busy(button, () => api("/v1/answer/compare", sent));
    const lanes = reply.answers.map(lane);
    const replay = h("button", { type: "button", class: "quiet", onclick: () => play(lanes, reply) }, t("replay"));
    const rows = reply.answers.map((each) => [each.decoder, each.answer || t("none"), percent(each.score), each.passes,
      duration(each.milliseconds), each.tokens.map((token) => `${token.text} (${token.step})`).join(" ")]);
    const head = [t("decoder"), t("answer"), t("confidence"), t("passes"), "", t("row")];
    fill(target, h("p", { class: "soft" }, t("compareHint")), lanes,
      h("p", { class: "soft" }, t("comparePoor")), replay,
      h("details", {}, h("summary", {}, t("table")), h("div", { class: "scroll" }, table(head, rows))));
    button.hidden = true;
    play(lanes, reply);
  } catch (error) {
    say(error);
  }
}

/** One decoder: its name and what it does, its tokens, its time and confidence. */
function lane(answer) {
  const tokens = answer.tokens.map((token) => h("span", { class: "token", "data-step": String(token.step) },
    token.text, h("small", {}, String(token.step))));
  return h("div", { class: "lane" },
    h("div", {}, h("strong", {}, answer.decoder), h("div", { class: "soft" }, t(`decoder.${answer.decoder}`))),
    h("div", { class: "tokens" }, tokens.length ? tokens : h("span", { class: "soft" }, t("none"))),
    h("div", { class: "right soft" }, h("div", {}, duration(answer.milliseconds)), h("div", {}, percent(answer.score))));
}

/** Tokens appear in the order of their passes. */
function play(lanes, reply) {
  for (const [index, each] of lanes.entries()) {
    const { milliseconds, passes } = reply.answers[index];
    for (const token of each.querySelectorAll(".token")) {
      token.classList.remove("on");
      const wait = Math.min(LONGEST, (SLOWER * milliseconds * Number(token.dataset.step)) / passes);
      setTimeout(() => token.classList.add("on"), wait);
    }
  }
}
