// What a tab shows when the service has no model for it.
import { fill, h } from "./dom.js";
import { t } from "./words.js";

export function missing(root, ...commands) {
  fill(root, h("div", { class: "card empty" }, h("p", {}, t("noModel")),
    commands.map((command) => h("p", {}, h("code", {}, command)))));
}
