"use strict";
// The page behind GET /: a question, an instant, the frames that answer it and why. It asks the provider it came from
// and nobody else. Whatever a repository says reaches the document through `node` and `shown`, as text, never as markup.
{
const $ = (id) => document.getElementById(id);

// --- building the document --------------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";

/** An element: attributes, `on...` listeners as functions, `style` as properties, children as nodes or text. */
function node(tag, attributes = {}, ...children) {
  const drawn = ["svg", "path"].includes(tag);
  const made = drawn ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) made.style.setProperty(key, one);
    else if (value !== false && value != null) made.setAttribute(name, value === true ? "" : shown(String(value)));
  }
  made.append(...children.flat(2).filter((child) => child != null && child !== false)
    .map((child) => child instanceof Node ? child : shown(String(child))));
  return made;
}

/** Text with a sign for each character that could hide or turn the text around it. */
function shown(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f]/g, (found) => String.fromCharCode(0x2400 + found.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g, "\ufffd");
}

const number = (value) => Number(value).toLocaleString("en");
const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
const percent = (share) => `${(100 * share).toFixed(3)}%`;

function say(text, wrong = false) {
  $("status").textContent = shown(text);
  $("status").classList.toggle("wrong", wrong);
}

// --- asking the provider ----------------------------------------------------------------------------------------

let token = null;
let opening = null;

/** The answer of a route of ours as a value. A token that is missing or wrong is asked for, as often as it takes. */
async function call(path, message, signal) {
  for (;;) {
    const headers = {};
    if (message) headers["content-type"] = "application/json";
    if (token !== null) headers.authorization = `Bearer ${token}`;
    const used = token;
    const body = message && JSON.stringify(message);
    const response = await fetch(path, {method: message ? "POST" : "GET", headers, body, signal, redirect: "error"});
    if (response.status === 401) await opened(used);
    else if ((response.headers.get("content-type") ?? "").startsWith("application/json")) return response.json();
    else throw new Error(`The provider answered with status ${response.status}.`);
  }
}

/** Resolves once the person has given a token other than the one that was refused. */
function opened(refused) {
  if (token !== refused) return Promise.resolve();
  opening ??= new Promise((resolve) => {
    $("door-note").textContent = refused === null ? "" : "That is not the token.";
    $("token").value = "";
    $("door").showModal();
    $("door-form").onsubmit = (event) => {
      event.preventDefault();
      token = $("token").value.trim().replace(/[^\x21-\x7e]/g, "");
      $("token").value = "";
      $("door").close();
      opening = null;
      resolve();
    };
  });
  return opening;
}

// --- the question -----------------------------------------------------------------------------------------------

let anchors = [];
let asOf = null; // an instant as the protocol writes it; null is now
let asking = null;
let answered = null; // what the frames on the page answer

function question() {
  const kinds = [...$("kinds").querySelectorAll("input:checked")].map((box) => box.value);
  const bounded = (id) => Math.min(4294967295, Math.max(0, Math.trunc(Number($(id).value)) || 0));
  return {goal: $("goal").value.trim(), anchors, kinds, frames: bounded("frames"), tokens: bounded("tokens"), asOf};
}

/** A question in the address's fragment, which no server is ever sent: Back works, and a link asks it again. */
function written(asked) {
  const fields = new URLSearchParams({q: asked.goal, f: asked.frames, t: asked.tokens});
  for (const anchor of asked.anchors) fields.append("a", anchor);
  for (const kind of asked.kinds) fields.append("k", kind);
  if (asked.asOf) fields.set("at", asked.asOf);
  return `#${fields}`;
}

function restore() {
  const fields = new URLSearchParams(location.hash.slice(1));
  $("goal").value = fields.get("q") ?? "";
  $("frames").value = fields.get("f") ?? 8;
  $("tokens").value = fields.get("t") ?? 4000;
  anchors = fields.getAll("a");
  asOf = fields.get("at");
  chooseKinds(fields.getAll("k"));
  drawAnchors();
  drawTime();
  grow();
}

function chooseKinds(kinds) {
  for (const box of $("kinds").querySelectorAll("input")) box.checked = kinds.includes(box.value);
}

/** Ask what the form says. `keep` writes over the last entry of the browser's history instead of adding one. */
async function ask({keep = false} = {}) {
  asking?.abort();
  const asked = question();
  if (!asked.goal) return;
  const fragment = written(asked);
  if (fragment !== location.hash) history[keep ? "replaceState" : "pushState"](null, "", fragment);
  const mine = asking = new AbortController();
  document.body.classList.add("busy");
  try {
    const query = {goal: asked.goal, max_frames: asked.frames, max_tokens: asked.tokens};
    if (asked.anchors.length) query.anchors = asked.anchors;
    if (asked.kinds.length) query.kinds = asked.kinds;
    if (asked.asOf) query.as_of = asked.asOf;
    show(asked, await call("explain", {type: "query", query}, mine.signal));
  } catch (error) {
    if (!mine.signal.aborted) fail(error);
  } finally {
    if (asking === mine) document.body.classList.remove("busy");
  }
}

function fail(error) {
  const lost = error instanceof TypeError;
  say(lost ? "The provider does not answer. Is it still running?" : error.message, true);
}

function show(asked, envelope) {
  answered = {...asked, result: {frames: [], truncated: false}};
  if (envelope.type === "frames") {
    answered.result = envelope.result;
    say(found(envelope.result));
  } else {
    say(`${envelope.message ?? "No answer."}${envelope.code ? ` (${envelope.code})` : ""}`, true);
  }
  const frames = answered.result.frames;
  $("answer").replaceChildren(...frames.map((frame, at) => card(frame, at, envelope.explain?.[frame.id] ?? {})));
  drawSummary();
  drawLanes();
  if (!commits.length) readTimeline().catch(fail); // there was no time for it before
}

function found({frames, truncated, dropped_estimate: dropped}) {
  if (!frames.length) return truncated ? "Nothing was found in time. Ask again." : "Nothing here answers that.";
  if (dropped) return `About ${number(dropped)} more did not fit.`;
  return truncated ? "Cut at the deadline: asking again may find more." : "";
}

function drawAnchors() {
  $("anchors").replaceChildren(...anchors.map((anchor) => node("li", {},
    node("span", {title: anchor}, place(anchor)),
    node("button", {type: "button", "aria-label": `Not near ${place(anchor)}`, onclick: () => unanchor(anchor)}, "×"))));
}

function unanchor(anchor) {
  anchors = anchors.filter((one) => one !== anchor);
  drawAnchors();
  $("anchor").focus();
  ask();
}

function addAnchor(anchor) {
  if (anchor && !anchors.includes(anchor)) anchors = [...anchors, anchor];
  drawAnchors();
}

function grow() {
  $("goal").style.height = "auto";
  $("goal").style.height = `${Math.min(220, $("goal").scrollHeight + 2)}px`;
}

// --- places -----------------------------------------------------------------------------------------------------

let root = "";

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // bytes that are no UTF-8
  }
}

/** A uri as people read it: the path in the repository where it is one. */
function place(uri) {
  if (root && uri.startsWith(`${root}/`)) return decoded(uri.slice(root.length + 1));
  if (uri.startsWith("symbol:///")) return decoded(uri.slice(10));
  const [, revision] = uri.match(/^swh:1:rev:([0-9a-f]{40})$/) ?? [];
  if (revision) return `commit ${revision.slice(0, 10)}`;
  const [, commit, path, lines] = uri.match(/^swh:1:cnt:.*;anchor=swh:1:rev:([0-9a-f]{10}).*;path=\/([^;]*)(?:;lines=(.*))?/) ?? [];
  return path === undefined ? uri : `${decoded(path)}${lines ? `:${lines}` : ""} @${commit}`;
}

function fileName(frame) {
  const path = frame.uri?.startsWith("swh:") ? frame.uri.match(/;path=([^;]*)/)?.[1] ?? "" : frame.uri ?? "";
  return decoded(path.split("#")[0]).split("/").pop();
}

function firstLine(frame) {
  if (frame.kind === "graph" || frame.kind === "episode") return 0;
  return Number(frame.provenance?.[0]?.range?.match(/^L(\d+)/)?.[1] ?? 0);
}

const isAnchor = (uri) => /^(?:file:|symbol:|swh:1:cnt:)/.test(uri ?? "");

/** Where an anchor of ours points: the lines of a frame. */
function anchorOf(frame) {
  const range = frame.provenance?.[0]?.range;
  if (!frame.uri || frame.uri.startsWith("swh:")) return frame.uri;
  return range ? `${frame.uri}#${range}` : frame.uri;
}

// --- time -------------------------------------------------------------------------------------------------------

let commits = []; // oldest first: {commit, at, subject, time}
let live = true; // there is a working tree beside the commits
let total = 0; // commits there are; of very many the list is a sample
let edge = 1; // where on the line, in [0, 1], the last commit is; what follows is now

const day = (instant) => instant.slice(0, 10);
const minute = (instant) => `${instant.slice(0, 16).replace("T", " ")} UTC`;

async function readTimeline() {
  const told = await call("timeline");
  if (!told.commits) return;
  root = (told.root ?? "").replace(/\/$/, "");
  live = told.working_tree;
  total = told.total;
  commits = told.commits.map((commit) => ({...commit, time: Date.parse(commit.at)}));
  edge = live ? 0.95 : 1;
  document.title = `${shown(told.name)} · repo-provider`;
  $("name").textContent = shown(told.name);
  $("basis").textContent = total ? shown(`${count(total, "commit")} · ${told.basis}`) : "nothing committed yet";
  $("time").hidden = !commits.length;
  drawLine();
  drawTime();
  drawLanes();
}

function across(instant) {
  const first = commits[0].time, last = commits.at(-1).time;
  const share = last > first ? (Date.parse(instant) - first) / (last - first) || 0 : 1;
  return share > 1 && live ? 1 - (1 - edge) / 2 : Math.min(1, Math.max(0, share)) * edge;
}

/** How many commits there were when: bars on a square-root scale, so that a quiet year still shows. */
function drawLine() {
  if (!commits.length) return;
  const bins = new Array(160).fill(0);
  for (const {at} of commits) bins[Math.min(159, Math.floor(across(at) / edge * 160))] += total / commits.length;
  const most = Math.sqrt(Math.max(...bins));
  const bars = bins.map((held, at) => held && `M${at} 32v${-Math.max(1.5, 32 * Math.sqrt(held) / most)}h.72V32z`);
  $("track").replaceChildren(
    node("svg", {viewBox: "0 0 160 32", preserveAspectRatio: "none", "aria-hidden": "true", style: {width: percent(edge)}},
      node("path", {d: bars.filter(Boolean).join("")})),
    live && node("span", {class: "tree", style: {left: percent(edge)}}));
  $("axis").replaceChildren(...years(), live && node("span", {class: "end", style: {left: percent(1)}}, "now"));
}

function years() {
  const first = new Date(commits[0].time), last = new Date(commits.at(-1).time);
  const span = (last - first) / 864e5;
  const room = $("track").clientWidth / 75;
  const months = [1, 2, 3, 6, 12, 24, 36, 60, 120].find((step) => span / 30.4 / step <= room) ?? 120;
  const ticks = [];
  if (span < 20) return [node("span", {style: {left: "0%"}}, day(commits[0].at))];
  for (let at = new Date(Date.UTC(first.getUTCFullYear(), 0)); at <= last; at.setUTCMonth(at.getUTCMonth() + months)) {
    const left = across(at.toISOString());
    if (at >= first && left < 1 - 0.7 / room) {
      ticks.push(node("span", {style: {left: percent(left)}}, at.toISOString().slice(0, months < 12 ? 7 : 4)));
    }
  }
  return ticks;
}

/** The place among the commits of the instant that is asked for; their number is now. */
function position() {
  if (asOf === null) return live ? commits.length : commits.length - 1;
  const time = Date.parse(asOf);
  return commits.findLastIndex((commit) => commit.time <= time);
}

function drawTime() {
  if (!commits.length) return;
  const at = position(), commit = commits[at], slider = $("slider");
  document.documentElement.classList.toggle("past", asOf !== null);
  $("when").textContent = asOf === null ? (live ? "Now, as the working tree stands" : "Now") : `As of ${minute(asOf)}`;
  $("commit").textContent = asOf === null ? "" : shown(commit ? `${commit.commit.slice(0, 10)} ${commit.subject}` : "before the first commit");
  $("now").hidden = asOf === null;
  $("date").value = Number.isNaN(Date.parse(asOf ?? "")) ? "" : day(asOf);
  $("date").min = day(commits[0].at);
  $("time").style.setProperty("--at", asOf === null ? 1 : across(asOf));
  slider.setAttribute("aria-valuemin", 0);
  slider.setAttribute("aria-valuemax", live ? commits.length : commits.length - 1);
  slider.setAttribute("aria-valuenow", Math.max(0, at));
  slider.setAttribute("aria-valuetext", `${$("when").textContent} ${$("commit").textContent}`.trim());
}

let resting = 0;

/** Go to an instant: the line follows at once, the question is asked again when it has come to rest. */
function travel(instant, {rest = 180} = {}) {
  clearTimeout(resting);
  if (instant === asOf && rest) return;
  asOf = instant;
  drawTime();
  resting = setTimeout(ask, rest, {keep: rest > 0 && answered?.asOf !== null && instant !== null});
}

function step(by) {
  const last = live ? commits.length : commits.length - 1;
  const to = Math.min(last, Math.max(0, position() + by));
  if (commits.length) travel(to === last ? null : commits[to].at);
}

function pointed(event) {
  const box = $("slider").getBoundingClientRect();
  const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  if (live ? share > edge : share === 1) return null;
  const first = commits[0].time, last = commits.at(-1).time;
  const time = first + share / edge * (last - first);
  return commits[Math.max(0, commits.findLastIndex((commit) => commit.time <= time))].at;
}

function drawLanes() {
  const frames = answered?.result.frames ?? [];
  const drawn = commits.length ? frames.slice(0, 24).map((frame, at) => {
    const from = frame.valid_from ? across(frame.valid_from) : frame.valid_to ? 0 : edge;
    const to = frame.valid_to ? across(frame.valid_to) : 1;
    const bar = {left: percent(from), width: percent(Math.max(0, to - from))};
    return node("li", {class: frame.kind},
      node("a", {href: `#`, title: `${at + 1}. ${frame.title}: ${windowOf(frame)}`, onclick: (event) => jump(event, at)},
        node("span", {class: "nth"}, at + 1), node("span", {class: "bar", style: bar})));
  }) : [];
  $("lanes").replaceChildren(...drawn);
}

function windowOf(frame) {
  if (!frame.valid_from && !frame.valid_to) return "not committed";
  if (!frame.valid_to) return `since ${day(frame.valid_from)}`;
  return `${frame.valid_from ? day(frame.valid_from) : "the beginning"} to ${day(frame.valid_to)}`;
}

// --- the answer -------------------------------------------------------------------------------------------------

function drawSummary() {
  const {frames} = answered.result;
  const spent = frames.reduce((sum, frame) => sum + frame.token_cost, 0);
  $("summary").hidden = !frames.length;
  $("hint").hidden = true;
  $("spent").replaceChildren(
    node("b", {}, count(frames.length, "frame")), ` of ${number(answered.frames)}, `,
    node("b", {}, count(spent, "token")), ` of ${number(answered.tokens)}`);
  $("cost").replaceChildren(...frames.map((frame, at) => node("a", {
    href: "#", class: frame.kind, style: {width: percent(frame.token_cost / Math.max(1, answered.tokens))},
    title: `${at + 1}. ${frame.title}: ${count(frame.token_cost, "token")}`,
    "aria-label": `Frame ${at + 1}: ${count(frame.token_cost, "token")}`, onclick: (event) => jump(event, at),
  })));
}

function jump(event, at) {
  event?.preventDefault();
  const card = $("answer").children[at];
  if (!card) return;
  card.focus({preventScroll: true});
  card.scrollIntoView({block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth"});
}

function card(frame, at, parts) {
  const wide = matchMedia("(min-width: 1000px)").matches;
  const why = reasons(parts);
  return node("li", {class: `card ${frame.kind}`, tabindex: -1, id: `frame-${at + 1}`, "aria-label": `Frame ${at + 1}: ${frame.title}`},
    node("div", {class: "head"},
      node("span", {class: "nth"}, at + 1),
      heading(frame),
      node("span", {class: "verdict", hidden: true}),
      node("span", {class: "kind"}, frame.kind)),
    node("div", {class: "body"}, code(frame), node("details", {class: "why", open: wide},
      node("summary", {}, node("span", {}, "Score "), node("b", {}, frame.score.toFixed(3))),
      node("div", {class: "score"}, node("i", {style: {width: percent(frame.score)}})),
      why.length ? node("ul", {}, why) : node("p", {}, WITHOUT_PARTS[frame.kind] ?? "Nothing more is known about it."))),
    node("div", {class: "foot"},
      windowed(frame),
      node("span", {}, count(frame.token_cost, "token")),
      isAnchor(frame.uri) && node("button", {type: "button", class: "quiet", onclick: () => follow({target_uri: anchorOf(frame)})}, "Ask near this"),
      node("button", {type: "button", class: "quiet", onclick: (event) => copy(event.target, frame.citation_label)}, "Copy citation"),
      provenance(frame),
      relations(frame, at)));
}

/** The window in words, with a step over each of its ends: what stood there before, and what came after. */
function windowed(frame) {
  const from = frame.valid_from, to = frame.valid_to;
  const past = from && commits.length && Date.parse(from) > commits[0].time;
  const go = (instant, label, sign) => node("button", {type: "button", class: "quiet step", title: label, "aria-label": label,
    onclick: () => travel(instant, {rest: 0})}, sign);
  return node("span", {class: "window"},
    past && go(before(from), `How it was before ${day(from)}`, "‹"),
    node("span", {title: `${from ?? "open"} to ${to ?? "open"}`}, windowOf(frame)),
    to && go(to, `How it was from ${day(to)} on`, "›"));
}

const before = (instant) => new Date(Date.parse(instant) - 1000).toISOString().replace(/\.\d+/, "");

/** The citation, its path with the file's name to the fore, and the name of what it shows. */
function heading(frame) {
  const [, path, range, name, commit] = frame.citation_label?.match(/^(\S.*?) (L\d+(?:-\d+)?|\(outline\))(?: \((.*)\))?(?: @([0-9a-f]+))?$/) ?? [];
  if (!path) return node("h2", {}, frame.citation_label ?? frame.title);
  const folder = path.slice(0, path.lastIndexOf("/") + 1);
  return node("h2", {},
    node("span", {class: "path"}, node("span", {class: "soft"}, folder.split(/(?<=\/)/).map((part) => [part, node("wbr")])), path.slice(folder.length)),
    node("span", {class: "soft range"}, ` ${range}`),
    commit && node("span", {class: "soft"}, ` @${commit}`),
    name && node("span", {class: "name"}, name));
}

async function copy(button, text) {
  const was = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not allowed";
  }
  setTimeout(() => { button.textContent = was; }, 1200);
}

function provenance(frame) {
  const links = frame.provenance ?? [];
  if (!links.length) return null;
  return node("details", {class: "links"},
    node("summary", {}, "Provenance ", node("b", {}, links.length)),
    node("ol", {}, links.map((link) => node("li", {},
      node("span", {class: "what"}, link.type),
      isAnchor(link.uri) ? node("button", {type: "button", class: "link", title: link.uri, onclick: () => follow({target_uri: link.uri})}, place(link.uri))
        : link.uri && node("code", {title: link.uri}, place(link.uri)),
      link.range && node("span", {}, link.range),
      link.method && node("span", {class: "soft"}, link.method),
      link.digest && node("code", {title: link.digest}, `${link.digest.slice(0, 19)}…`),
      link.uri && node("button", {type: "button", class: "quiet", onclick: (event) => copy(event.target, link.uri)}, "Copy uri")))));
}

// --- why it ranked ----------------------------------------------------------------------------------------------

const WITHOUT_PARTS = {
  episode: "By its message and the files it touched.",
  graph: "As good as the best of what it outlines.",
};
const REASONS = [
  [/^(body|whole_body|share)$/, "words of the file"],
  [/^(names|names_share|whole_names|definition)$/, "names it defines"],
  [/^exact$/, "a name you wrote, exactly"],
  [/^(comments|comments_share|whole_comments)$/, "its comments"],
  [/^(block|block_share|coherence|head)$/, "its best passages"],
  [/^phrase$/, "a phrase, word for word"],
  [/^(stem|stem_share|stem_all)$/, "the file's name"],
  [/^(path|folder)$/, "the path"],
  [/^commits$/, "messages of its commits"],
  [/^central$/, "how much others use it"],
  [/^place$/, "you wrote its name"],
  [/^anchor$/, "it is at hand"],
  [/^near$/, "near what is at hand"],
  [/^unwanted/, "not what was asked for"],
];

/** What the score is made of, the parts that say the same together, the heaviest first, as bars. */
function reasons(parts) {
  const groups = new Map();
  for (const [name, value] of Object.entries(parts)) {
    const label = REASONS.find(([names]) => names.test(name))?.[1] ?? name.replaceAll("_", " ");
    const group = groups.get(label) ?? {value: 0, told: []};
    group.value += value;
    group.told.push(`${name} ${value > 0 ? "+" : ""}${value.toFixed(2)}`);
    groups.set(label, group);
  }
  const order = [...groups].sort(([, a], [, b]) => Math.abs(b.value) - Math.abs(a.value));
  const most = Math.max(1e-9, ...order.map(([, {value}]) => Math.abs(value)));
  return order.map(([label, {value, told}]) => node("li", {title: told.join(", "), class: value < 0 ? "less" : ""},
    node("span", {}, label), node("span", {class: "value"}, `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`),
    node("i", {style: {width: percent(Math.abs(value) / most)}})));
}

// --- relations --------------------------------------------------------------------------------------------------

const ROW = 30;
const SHOWN_RELATIONS = 40;

/** What a frame points at and which others of this answer point at the same, drawn around it; each is a way to go on. */
function relations(frame, at) {
  const out = (frame.relations ?? []).slice(0, SHOWN_RELATIONS);
  if (!out.length) return null;
  const drawn = node("div", {class: "map"});
  const draw = () => {
    if (drawn.firstChild) return;
    const into = neighbours(frame, at);
    const height = ROW * Math.max(out.length, into.length, 1);
    drawn.append(
      into.length ? node("ul", {class: "into"}, into.map(([other, rel]) => node("li", {},
        node("button", {type: "button", class: "link", title: rel, onclick: (event) => jump(event, other)}, node("span", {class: "nth"}, other + 1), answered.result.frames[other].title)))) : "",
      into.length ? curves(into.length, height, true) : "",
      node("strong", {class: "centre"}, node("span", {class: "nth"}, at + 1)),
      curves(out.length, height, false),
      node("ul", {class: "out"}, out.map((relation, index) => node("li", {},
        node("span", {class: "rel"}, relation.rel === out[index - 1]?.rel ? "" : said(relation.rel)),
        node("button", {type: "button", class: "link", title: relation.target_uri, onclick: () => follow(relation)}, relation.display_name ?? place(relation.target_uri))))));
  };
  const total = frame.relations.length;
  return node("details", {class: "links", ontoggle: draw},
    node("summary", {}, "Relations ", node("b", {}, total)), drawn,
    total > out.length && node("p", {class: "soft"}, `and ${number(total - out.length)} more`));
}

const said = (rel) => rel.replace(/^(code|doc|episode|git)[.:]/, "").replaceAll("-", " ");

function neighbours(frame, at) {
  const mine = new Set([frame.uri, ...(frame.relations ?? []).map((relation) => relation.target_uri)]);
  return answered.result.frames.flatMap((other, index) => {
    const relation = index !== at && (other.relations ?? []).find(({target_uri: target}) => mine.has(target));
    return relation ? [[index, `${said(relation.rel)} ${relation.display_name}`]] : [];
  }).slice(0, 8);
}

function curves(rows, height, inwards) {
  const middle = height / 2;
  const lines = Array.from({length: rows}, (_, row) => {
    const y = middle + ROW * (row - (rows - 1) / 2);
    return inwards ? `M0 ${y}C30 ${y} 30 ${middle} 60 ${middle}` : `M0 ${middle}C30 ${middle} 30 ${y} 60 ${y}`;
  });
  return node("svg", {viewBox: `0 0 60 ${height}`, width: 60, height, "aria-hidden": "true"}, node("path", {d: lines.join("")}));
}

/** Walk on: a symbol is asked for by name, a commit by its subject, a file becomes what is at hand. Back comes back. */
function follow({target_uri: target, display_name: name}) {
  if (target.startsWith("symbol:")) {
    $("goal").value = decoded(target.split("#")[1] ?? "") || name || $("goal").value;
    anchors = [target];
  } else if (target.startsWith("swh:1:rev:")) {
    if (name) $("goal").value = name;
    chooseKinds(["episode"]);
  } else {
    anchors = [target];
  }
  drawAnchors();
  grow();
  scrollTo({top: 0});
  ask();
}

// --- code -------------------------------------------------------------------------------------------------------

const FOLDED = 36;
const UNCOLOURED = 200000;

function code(frame) {
  const pre = node("pre", {tabindex: 0, "aria-label": frame.title});
  const first = firstLine(frame);
  const lines = coloured(frame).map((pieces) => node("span", {class: `line ${pieces.class ?? ""}`}, pieces, "\n"));
  pre.classList.toggle("numbered", first > 0);
  pre.classList.toggle("prose", frame.kind === "doc" || frame.kind === "graph");
  pre.style.setProperty("counter-reset", `line ${first - 1}`);
  pre.append(...(lines.length > FOLDED + 8 ? lines.slice(0, FOLDED) : lines));
  if (lines.length <= FOLDED + 8) return node("div", {class: "code"}, pre);
  const more = node("button", {type: "button", class: "quiet more"}, `${lines.length - FOLDED} more lines`);
  more.addEventListener("click", () => {
    pre.append(...lines.slice(FOLDED));
    more.remove();
    pre.focus();
  });
  return node("div", {class: "code"}, pre, more);
}

/** The content's lines, each a list of text and coloured elements. */
function coloured(frame) {
  const content = (frame.content ?? "").replaceAll("\r\n", "\n").replace(/\n$/, "");
  if (frame.kind === "episode") return content.split("\n").map(diffLine);
  const lines = [[]];
  const sought = soughtWords(answered.goal);
  for (const [kind, text] of content.length > UNCOLOURED ? [["", content]] : tokens(content, frame.kind === "graph" ? OUTLINE : grammarOf(fileName(frame)))) {
    text.split("\n").forEach((part, at) => {
      if (at) lines.push([]);
      if (!part) return;
      const pieces = marked(part, sought);
      lines.at(-1).push(...(kind ? [node("span", {class: kind}, pieces)] : pieces));
    });
  }
  return lines;
}

/** A piece of code with the words that were asked for marked. */
function marked(text, sought) {
  return text.split(/([\p{L}_][\p{L}\p{N}_]*)/u).filter(Boolean)
    .map((word) => subwords(word).some((part) => sought.has(part)) ? node("mark", {}, word) : word);
}

function diffLine(text) {
  const kinds = {"@": "hunk", "+": "added", "-": "removed"};
  return Object.assign([text], {class: kinds[text[0]] ?? ""});
}

const rootOf = (word) => word.toLowerCase().replace(/(?:ies|ing|ed|es|s|e)$/, "");
const subwords = (text) => (text.match(/\p{Lu}?\p{Ll}+|\p{Lu}+(?!\p{Ll})|\p{Lo}+/gu) ?? []).map(rootOf);
const FILLER = new Set("the and for are how what where which when who why does did has have with from this that into not can you was were its all any use".split(" ").map(rootOf));

function soughtWords(goal) {
  return new Set(goal.length > 400 ? [] : subwords(goal).filter((word) => word.length > 1 && !FILLER.has(word)));
}

// A highlighter of one page for all languages: it knows how families of them write comments and strings, and the words
// that most of them reserve. Frames are pieces of files, so it can be wrong about where a piece begins; never about text.

const KEYWORDS = new Set(("abstract alias and as assert async await base begin break case catch class const constructor continue " +
  "crate data def default defer del delete derive deriving do elif else elsif end ensure enum except exec explicit export extends " +
  "extern false False final finally fn for foreach forall from func function global go goto guard if impl implements import in " +
  "include inline instance interface internal is lambda let local loop macro match mod module move mut mutable namespace native " +
  "new next nil None not null nullptr object of open operator or override package pass private property protected protocol pub " +
  "public raise readonly ref repeat require rescue return sealed select self Self sizeof static struct super switch synchronized " +
  "template then this throw throws trait true True try type typedef typename typeof undef union unless unsafe until use using val " +
  "var virtual void volatile when where while with yield int float double bool boolean char string byte long short unsigned signed").split(" "));

const HASH = /\.(?:py|pyi|rb|rake|sh|bash|zsh|fish|pl|pm|r|jl|exs?|toml|ya?ml|cfg|ini|conf|cmake|mk|nix|tf|gd|properties)$|^(?:Makefile|Dockerfile|Gemfile|Rakefile|justfile|\..*)$/i;
const DASH = /\.(?:lua|sql|hs|elm|ad[abs])$/i;
const SEMICOLON = /\.(?:lisp|cljs?|edn|el|scm|rkt|asm|s)$/i;
const MARKUP = /\.(?:html?|xml|svg|xhtml|vue|svelte)$/i;
const PROSE = /\.(?:md|markdown|rst|txt|adoc|org)$|^[A-Z]+$/;
const ONE_QUOTE = /\.(?:rs|hs|mli?|c|h|cc|cpp|hpp|cxx|go|java|kts?|swift|zig|cs|scala|m)$/i; // ' is for characters there

const END = "(?![^])";
const STRING = `"""[^]*?(?:"""|${END})|\'\'\'[^]*?(?:\'\'\'|${END})|` + '"(?:\\\\.|[^"\\\\\\n])*"?|`(?:\\\\[^]|[^`\\\\])*`';

const OUTLINE = /(?<title>^\p{Lu}[^:\n]*(?=:))|(?<string>``?[^`\n]+``?)|(?<comment>, lines? \d+(?:-\d+)?)/gmu;

function grammarOf(name) {
  if (PROSE.test(name)) {
    return /(?<title>^#{1,6} .*$|^(?:[=~*^"-])\1{2,}$)|(?<string>``?[^`\n]+``?)|(?<word>\p{L}[\p{L}\p{N}_]*)/gmu;
  }
  const comment = HASH.test(name) ? "#.*" : DASH.test(name) ? `--\\[\\[[^]*?(?:\\]\\]|${END})|--.*` : SEMICOLON.test(name) ? ";.*"
    : MARKUP.test(name) ? `<!--[^]*?(?:-->|${END})|(?<![:\\w])//.*` : `//.*|/\\*[^]*?(?:\\*/|${END})|^\\s*\\*(?: .*|/)?$`;
  const quoted = ONE_QUOTE.test(name) ? "'(?:\\\\[^'\\n]{1,9}|[^'\\\\\\n])'" : "'(?:\\\\.|[^'\\\\\\n])*'";
  return new RegExp(`(?<comment>${comment})|(?<string>${STRING}|${quoted})|(?<number>\\d[\\w.]*)|(?<word>[\\p{L}_$@][\\p{L}\\p{N}_$]*)`, "gmu");
}

function* tokens(text, grammar) {
  let at = 0;
  for (const match of text.matchAll(grammar)) {
    if (match.index > at) yield ["", text.slice(at, match.index)];
    at = match.index + match[0].length;
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    yield [kind === "word" ? wordKind(match[0], text, at) : kind, match[0]];
  }
  if (at < text.length) yield ["", text.slice(at)];
}

function wordKind(word, text, end) {
  const called = text[end] === "(";
  if (KEYWORDS.has(word) && !(called && !/^(?:if|for|while|switch|catch|return|super|match|function|fn|import)$/.test(word))) return "keyword";
  if (word[0] === "@") return "keyword";
  if (called || text[end] === "!") return "call";
  return /^\p{Lu}\p{L}*\p{Ll}/u.test(word) ? "type" : "";
}

// --- verdicts ---------------------------------------------------------------------------------------------------

let provider = "repo-provider";

async function verify() {
  const frames = answered?.result.frames ?? [];
  if (!frames.length) return;
  const held = frames.map((frame) => ({provider_id: provider, frame_id: frame.id, content_digest: frame.content_digest}));
  $("verify").disabled = true;
  const asked = answered;
  try {
    const reply = await call("contextgraph", {type: "verify", request: {frames: held}});
    if (reply.type !== "verified") throw new Error(reply.message ?? "No answer.");
    if (asked === answered) judge(reply.response.verdicts);
  } catch (error) {
    fail(error);
  } finally {
    $("verify").disabled = false;
  }
}

const MEANING = {
  valid: "The repository still says this.",
  stale: "It has changed since.",
  gone: "It is not there any more.",
  unknown: "The provider cannot tell.",
};

function judge(verdicts) {
  const counts = new Map();
  answered.result.frames.forEach((frame, at) => {
    const verdict = verdicts.find((one) => one.frame.frame_id === frame.id);
    const status = verdict?.status in MEANING ? verdict.status : "unknown";
    counts.set(status, (counts.get(status) ?? 0) + 1);
    const card = $("answer").children[at], badge = card.querySelector(".verdict");
    for (const name of Object.keys(MEANING)) card.classList.toggle(name, name === status);
    badge.hidden = false;
    badge.textContent = status;
    badge.title = shown(`${MEANING[status]}${verdict?.replacement_digest ? ` Now ${verdict.replacement_digest}` : ""}`);
  });
  say(`Verified: ${[...counts].map(([status, held]) => `${held} ${status}`).join(", ")}.`);
}

// --- the person's hands -----------------------------------------------------------------------------------------

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  addAnchor($("anchor").value.trim());
  $("anchor").value = "";
  ask();
});
$("goal").addEventListener("input", grow);
$("goal").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("ask").requestSubmit();
  }
});
$("anchor").addEventListener("keydown", (event) => {
  if (event.key === "Backspace" && !$("anchor").value && anchors.length) unanchor(anchors.at(-1));
});
for (const id of ["frames", "tokens"]) $(id).addEventListener("change", () => ask());
$("kinds").addEventListener("change", () => ask());
$("verify").addEventListener("click", verify);
$("now").addEventListener("click", () => travel(null, {rest: 0}));
$("date").addEventListener("change", () => {
  if ($("date").validity.valid) travel($("date").value ? `${$("date").value}T23:59:59Z` : null, {rest: 0});
});
$("keys-button").addEventListener("click", () => $("keys").showModal());
$("keys-close").addEventListener("click", () => $("keys").close());
$("door").addEventListener("cancel", (event) => event.preventDefault());

$("slider").addEventListener("pointerdown", (event) => {
  $("slider").setPointerCapture(event.pointerId);
  travel(pointed(event));
});
$("slider").addEventListener("pointermove", (event) => {
  if ($("slider").hasPointerCapture(event.pointerId)) travel(pointed(event));
});
$("slider").addEventListener("keydown", (event) => {
  const many = Math.max(1, Math.round(commits.length / 20));
  const by = {ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -many, PageUp: many, Home: -Infinity, End: Infinity}[event.key];
  if (by === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  step(by);
});

function nextFrame(by) {
  const cards = [...$("answer").children];
  const at = cards.indexOf(document.activeElement.closest?.(".card"));
  jump(null, at < 0 ? 0 : Math.min(cards.length - 1, Math.max(0, at + by)));
}

const KEYS = {
  "/": () => { $("goal").focus(); $("goal").select(); scrollTo({top: 0}); },
  j: () => nextFrame(1),
  k: () => nextFrame(-1),
  "[": () => step(-1),
  "]": () => step(1),
  n: () => travel(null, {rest: 0}),
  v: verify,
  "?": () => $("keys").showModal(),
};
document.addEventListener("keydown", (event) => {
  const writing = event.target.closest("input, textarea") || document.querySelector("dialog[open]");
  if (writing || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});

addEventListener("resize", drawLine);
addEventListener("popstate", () => {
  restore();
  ask({keep: true});
});
let readAt = 0;
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && Date.now() - readAt > 30000) {
    readAt = Date.now();
    readTimeline().catch(fail);
  }
});

async function begin() {
  const greeting = await call("contextgraph", {type: "handshake", protocol_version: "contextgraph/1.0"});
  provider = greeting.provider?.name ?? provider;
  const served = greeting.capabilities?.query.kinds ?? [];
  $("kinds").replaceChildren(...served.map((kind) => node("label", {class: kind},
    node("input", {type: "checkbox", value: kind}), node("span", {}, kind))));
  readAt = Date.now();
  await readTimeline();
  restore();
  $("hint").hidden = $("goal").value !== "";
  if (!$("goal").value) $("goal").focus();
  await ask({keep: true});
}
begin().catch(fail);
}
