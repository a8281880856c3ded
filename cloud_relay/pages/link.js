// Linking a box, step by step: sign in (or register), perhaps a new password, the code, confirm or refuse, done.
import { Problem, call, hold, isSignedIn, signOut } from "./relay.js";
import { ago, begin, duration, knows, put, putPlain, timeOfDay } from "./words.js";

const STEPS = ["sign-in", "register", "password", "code", "confirm", "done"];
const CODE = /^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/;
const WATCH_MS = 2_000;
const WATCH_TIMES = 30;

const $ = (id) => document.getElementById(id);
let step = STEPS[0];
let isBusy = false;
let who = { name: "", accountId: "", accounts: [] };
let givenPassword = ""; // only until the person has chosen their own
let box = null; // what waits under the code
let watched = null; // the box that was confirmed last

// -- steps, problems, waiting

function show(next) {
  step = next;
  for (const id of STEPS) $(id).hidden = id !== next;
  $("who").hidden = !isSignedIn();
  $("problem").hidden = true;
  $(next).querySelector("h2").focus();
}

/** Does what a button asks for, one thing at a time, and says every problem in words. */
async function run(work) {
  if (isBusy) return;
  setBusy(true);
  $("problem").hidden = true;
  $("user-code").removeAttribute("aria-invalid");
  try {
    await work();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    const hasEnded = problem.code === "unauthenticated" && isSignedIn();
    if (hasEnded) leave();
    tell(problem, hasEnded ? "session" : step);
  } finally {
    setBusy(false);
  }
}

function setBusy(flag) {
  isBusy = flag;
  document.querySelector("main").setAttribute("aria-busy", flag);
  for (const button of document.querySelectorAll("main button")) button.setAttribute("aria-disabled", flag);
  if (flag) put($("busy"), "busy");
  else putPlain($("busy"), "");
}

/** Says a problem: in the page's words where it has some for this place or code, else in the relay's own. */
function tell(problem, place) {
  const key = [`error.${place}.${problem.code}`, `error.${problem.code}`].find(knows);
  if (key === undefined) {
    putPlain($("problem-title"), problem.title);
    putPlain($("problem-hint"), `${problem.detail}. ${problem.hint}`);
  } else {
    put($("problem-title"), key);
    put($("problem-hint"), `${key}.hint`, { wait: () => duration(problem.retry_after_s), id: problem.correlation_id });
  }
  $("problem-mistakes").replaceChildren(
    ...(problem.mistakes ?? []).map(({ field, reason }) => {
      const item = document.createElement("li");
      item.textContent = `${field}: ${reason}`;
      return item;
    }),
  );
  $("problem").hidden = false;
  $("problem").focus();
}

// -- who

async function signIn({ username, password }) {
  const pair = await call("POST", "/identity/session", { username, password });
  hold(pair.access_token);
  who = { name: username, accountId: pair.account_id, accounts: [] };
  if (pair.must_change_password) {
    givenPassword = password;
    $("password-username").value = username;
    show("password");
  } else {
    await enter();
  }
  put($("who-name"), "who", { name: who.name });
  for (const id of ["sign-in", "register"]) $(id).reset();
}

async function register(wish) {
  await call("POST", "/identity/register", wish);
  $("sign-in-username").value = wish.username; // the account exists: what fails now is the sign-in
  $("sign-in-password").value = wish.password;
  show("sign-in");
  await signIn(wish);
}

async function changePassword({ new_password }) {
  await call("POST", "/identity/me/password", { current_password: givenPassword, new_password });
  givenPassword = "";
  $("password").reset();
  await enter();
}

async function enter() {
  const me = await call("GET", "/identity/me");
  who = { name: me.name, accountId: me.account.account_id, accounts: me.accounts };
  fill($("account"), me.accounts.map((one) => [one.account_id, one.name]), who.accountId);
  show("code");
}

function leave() {
  signOut();
  givenPassword = "";
  box = watched = null;
  show("sign-in");
}

// -- the box

async function findBox({ user_code, account_id }) {
  const code = formatCode(user_code);
  $("user-code").value = code;
  try {
    if (!CODE.test(code)) throw new Problem({ code: "incomplete" }); // spends none of the five tries
    if (account_id && account_id !== who.accountId) await actFor(account_id);
    box = await call("GET", `/edges/link/${code}`);
  } catch (problem) {
    if (["incomplete", "not-found"].includes(problem.code)) $("user-code").setAttribute("aria-invalid", "true");
    throw problem;
  }
  const sites = (await call("GET", "/fleet/sites?include_default=true")).items;
  fill($("site"), sites.map((one) => [one.site_id, one.name]), sites.find((one) => one.is_default)?.site_id);
  const asked = new Date(box.requested_at);
  putPlain($("box-name"), box.name);
  putPlain($("box-code"), box.user_code);
  putPlain($("box-remote"), box.remote);
  put($("box-asked"), "confirm.asked.at", { ago: () => ago(asked), time: () => timeOfDay(asked) });
  putPlain($("box-version"), box.version);
  putPlain($("box-account"), who.accounts.find((one) => one.account_id === who.accountId)?.name ?? who.name);
  show("confirm");
}

async function actFor(accountId) {
  hold((await call("POST", "/identity/me/switch", { account_id: accountId })).access_token);
  who.accountId = accountId;
}

async function confirm({ site_id }) {
  watched = await call("POST", `/edges/link/${box.user_code}/confirm`, { site_id: site_id ?? null });
  finish("done.linked", "done.waiting", null);
  watch(watched);
}

async function deny() {
  await call("POST", `/edges/link/${box.user_code}/deny`);
  finish("done.denied", "done.denied.what", "done.denied.next");
}

function finish(heading, what, next) {
  put($("done-heading"), heading);
  sayResult(what, next);
  $("user-code").value = "";
  show("done");
}

function sayResult(what, next) {
  put($("done-what"), what, { name: box.name });
  if (next === null) putPlain($("done-next"), "");
  else put($("done-next"), next);
}

/** A confirmed box is not there yet: says when it has connected, or that it has not. */
async function watch(edge) {
  for (let times = 0; times < WATCH_TIMES; times += 1) {
    await new Promise((resolve) => setTimeout(resolve, WATCH_MS));
    if (step !== "done" || watched !== edge) return;
    const view = await call("GET", `/fleet/edges/${edge.edge_id}`).catch(() => null); // asked again, and it has an end
    if (step !== "done" || watched !== edge) return;
    if (view?.is_online) return sayResult("done.connected", "done.next");
  }
  sayResult("done.silent", "done.silent.next");
}

// -- fields

function fill(select, options, chosen) {
  select.replaceChildren(...options.map(([value, name]) => new Option(name, value, false, value === chosen)));
  select.parentElement.hidden = options.length < 2;
}

/** Capitals with a dash in the middle, however somebody typed or pasted them. */
function formatCode(text) {
  const signs = text.toUpperCase().replace(/[^A-Z0-9]/g, "").slice(0, 8);
  return signs.length > 4 ? `${signs.slice(0, 4)}-${signs.slice(4)}` : signs;
}

/** Formats while somebody types and leaves the caret where it is. Not while a keyboard is composing: it would type
 * the word again; then the field is put right when it is left. */
function tidyCode(event) {
  if (event.isComposing) return;
  const field = $("user-code");
  const before = field.value.slice(0, field.selectionStart).replace(/[^A-Za-z0-9]/g, "").length;
  field.value = formatCode(field.value);
  if (document.activeElement === field) {
    const caret = Math.min(before > 4 ? before + 1 : before, field.value.length);
    field.setSelectionRange(caret, caret);
  }
}

// -- wiring

const FORMS = { "sign-in": signIn, register, password: changePassword, code: findBox, confirm };
const BUTTONS = {
  "to-register": () => show("register"),
  "to-sign-in": () => show("sign-in"),
  "sign-out": leave,
  deny,
  back: () => show("code"),
  again: () => show("code"),
};

for (const [id, work] of Object.entries(FORMS)) {
  $(id).addEventListener("submit", (event) => {
    event.preventDefault();
    run(() => work(Object.fromEntries(new FormData($(id)))));
  });
}
for (const [id, work] of Object.entries(BUTTONS)) $(id).addEventListener("click", () => run(async () => work()));
for (const check of document.querySelectorAll("[data-shows]")) {
  check.addEventListener("change", () => ($(check.dataset.shows).type = check.checked ? "text" : "password"));
}
for (const name of ["input", "compositionend", "blur"]) $("user-code").addEventListener(name, tidyCode);

const showNetwork = () => ($("offline").hidden = navigator.onLine);
for (const name of ["online", "offline"]) addEventListener(name, showNetwork);
// The token ends with the page. A page that comes back from the browser's memory begins anew.
addEventListener("pagehide", signOut);
addEventListener("pageshow", (event) => event.persisted && leave());

begin("link.title");
showNetwork();
$("user-code").value = formatCode(new URLSearchParams(location.search).get("code") ?? "");
$("sign-in").hidden = false;
// When nobody answers here, signing in will say why.
call("GET", "/identity/register").then(
  ({ is_open }) => ($("to-register").hidden = !is_open),
  () => {},
);
