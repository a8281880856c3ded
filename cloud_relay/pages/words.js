// One language at a time: the browser's, until somebody uses the switch. Elements keep the key of their text, so that
// the switch changes everything that is shown.
import { TEXTS } from "./texts.js";

const wanted = navigator.languages.map((tag) => tag.slice(0, 2).toLowerCase());
let language = wanted.find((tag) => tag in TEXTS) ?? "en";
let titleKey = "home.title";
const valuesOf = new WeakMap();

export const knows = (key) => key in TEXTS.en;

/** The text of a key; `{name}` stands for a value, or for what a function answers in the present language. */
function say(key, values) {
  return TEXTS[language][key].replace(/\{(\w+)\}/g, (_, name) => {
    const value = values[name];
    return typeof value === "function" ? value() : value;
  });
}

/** Shows the text of a key in an element, now and after a change of language. */
export function put(element, key, values = {}) {
  element.dataset.text = key;
  valuesOf.set(element, values);
  element.textContent = say(key, values);
}

/** Shows words that are not ours: names, or what the relay says. */
export function putPlain(element, text) {
  delete element.dataset.text;
  element.textContent = text;
}

/** A time in words, rounded up: "40 seconds", "9 minutes". */
export function duration(seconds) {
  const [amount, unit] = seconds < 90 ? [seconds, "second"] : [seconds / 60, "minute"];
  const format = new Intl.NumberFormat(language, { style: "unit", unit, unitDisplay: "long" });
  return format.format(Math.max(1, Math.ceil(amount)));
}

/** How long ago: "now", "2 minutes ago". */
export function ago(moment) {
  const minutes = Math.min(0, Math.round((moment - Date.now()) / 60_000));
  return new Intl.RelativeTimeFormat(language, { numeric: "auto" }).format(minutes, "minute");
}

/** The time of day of a moment, as clocks here show it. */
export const timeOfDay = (moment) => moment.toLocaleTimeString(language, { timeStyle: "short" });

function speak() {
  document.documentElement.lang = language;
  document.title = say(titleKey, {});
  for (const element of document.querySelectorAll("[data-text]")) {
    element.textContent = say(element.dataset.text, valuesOf.get(element) ?? {});
  }
  const other = document.getElementById("language");
  other.textContent = say("language.other", {});
  other.lang = language === "de" ? "en" : "de";
}

/** Fills the page with words and starts the switch. */
export function begin(title) {
  titleKey = title;
  document.getElementById("language").addEventListener("click", () => {
    language = language === "de" ? "en" : "de";
    speak();
  });
  speak();
}
