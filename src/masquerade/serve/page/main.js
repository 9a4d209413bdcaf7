// Tabs, language and theme; each tab is a module that draws itself.
import { api } from "./api.js";
import * as ask from "./ask.js";
import * as collection from "./collection.js";
import { $, fill, h } from "./dom.js";
import * as masks from "./masks.js";
import * as memory from "./memory.js";
import { problem } from "./problems.js";
import { get, reread, set } from "./state.js";
import * as filling from "./fill.js";
import { language, t, translate } from "./words.js";
import * as writing from "./write.js";

const TABS = { ask, collection, masks, write: writing, fill: filling, memory };
const THEMES = ["auto", "light", "dark"];
let models = { models: [], constructors: {}, limits: {}, methods: [], decoders: [] };

/** Show an error, or hide it. */
function say(error) {
  const box = $("alert");
  box.hidden = !error;
  fill(box, error ? [h("span", {}, problem(error)),
    h("button", { type: "button", class: "quiet", "aria-label": t("close"), onclick: () => say(null) }, "×")] : null);
}

function draw(name) {
  const tools = { models, say, all: (kind) => models.models.filter((each) => each.kind === kind) };
  const body = h("div");
  fill($(name), h("p", { class: "intro" }, t(`intro.${name}`)), body);
  TABS[name].draw(body, tools);
}

function choose(name, focus = false) {
  const chosen = name in TABS ? name : "ask";
  set({ tab: chosen });
  say(null);
  for (const each of Object.keys(TABS)) {
    const tab = $(`tab-${each}`);
    tab.setAttribute("aria-selected", String(each === chosen));
    tab.tabIndex = each === chosen ? 0 : -1;
    $(each).hidden = each !== chosen;
    if (each === chosen) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (each === chosen && focus) tab.focus();
  }
  if (!$(chosen).childElementCount) draw(chosen);
}

function dress() {
  const theme = localStorage.getItem("theme") || "auto";
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  fill($("theme"), h("span", { class: "wide" }, t("theme")), t(theme));
  $("theme").setAttribute("aria-label", t("theme") + t(theme));
  shareable();
  $("language").textContent = t("language");
  $("language").lang = language() === "zh" ? "en" : "zh-CN";
}

function shareable() {
  fill($("share"), h("span", { class: "wide" }, t("copy")), t("share"));
}

function redraw() {
  translate();
  dress();
  for (const each of Object.keys(TABS)) fill($(each));
  choose(get("tab", "ask"));
}

$("language").addEventListener("click", () => {
  set({ lang: language() === "zh" ? "en" : "zh" });
  redraw();
});
$("share").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    $("share").textContent = t("copied");
    setTimeout(shareable, 2000);
  } catch {
    prompt(t("copy") + t("share"), location.href); // where a page may not write to the clipboard
  }
});
$("theme").addEventListener("click", () => {
  const now = THEMES.indexOf(localStorage.getItem("theme") || "auto");
  localStorage.setItem("theme", THEMES[(now + 1) % THEMES.length]);
  dress();
  window.dispatchEvent(new Event("themechange"));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.dispatchEvent(new Event("themechange")));
window.addEventListener("hashchange", () => {
  reread();
  redraw();
});
const tabs = Object.keys(TABS);
for (const [index, name] of tabs.entries()) {
  $(`tab-${name}`).addEventListener("click", () => choose(name));
  $(`tab-${name}`).addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = event.key === "Home" ? 0 : event.key === "End" ? tabs.length - 1 : step ? index + step : null;
    if (next === null) return;
    event.preventDefault();
    choose(tabs.at(next % tabs.length), true);
  });
}

async function start() {
  translate();
  dress();
  for (;;) {
    try {
      models = await api("/v1/models");
      break;
    } catch (error) {
      if (error.status !== 503) {
        say(error);
        return;
      }
      $("starting").textContent = problem(error);
      $("starting").hidden = false;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  }
  $("starting").hidden = true;
  redraw();
  document.body.dataset.ready = "yes";
}

start();
