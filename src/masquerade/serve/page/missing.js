// What a tab shows when the service has no model for it.
import { empty, h } from "./dom.js";
import { t } from "./words.js";

/** A card that says how to start the service with a model for this tab. */
export function missing(kind, ...commands) {
  return h("div", { class: "card" }, empty(h("h2", {}, t("noModel")), t(`missing.${kind}`),
    h("pre", {}, commands.join("\n"))));
}
