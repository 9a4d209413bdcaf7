// What the page shows, kept behind the # of its address: it can be shared, and never reaches the service by itself.

const LONGEST = 6000; // characters of a value in the address
let values = new URLSearchParams(location.hash.slice(1));

/** Read the address again, after somebody has changed it. */
export function reread() {
  values = new URLSearchParams(location.hash.slice(1));
}

export const get = (name, usual = "") => values.get(name) ?? usual;

export function set(changes) {
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === null || value === undefined || String(value).length > LONGEST) values.delete(name);
    else values.set(name, value);
  }
  history.replaceState(null, "", `#${values}`);
}
