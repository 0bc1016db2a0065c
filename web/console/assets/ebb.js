// The console works without this file.
"use strict";
(() => {
  // Times are drawn on the server in the zone that this cookie names.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !document.cookie.includes("ebb-zone=")) {
    document.cookie = `ebb-zone=${zone}; Path=/; SameSite=Lax; Max-Age=31536000`;
  }
})();

// Adds a copy button beside every id. The button copies the whole id, which is the text of the
// element or, if the text is shortened, its title.
(() => {
  if (!navigator.clipboard) return;
  const id = /^[a-z]{3}_[0-9a-f]{32}$/;
  for (const e of document.querySelectorAll("main [title], main .mono, main code")) {
    const whole = e.title || e.textContent.trim();
    if (!id.test(whole)) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.ariaLabel = `Copy ${whole}`;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(whole);
      button.classList.add("done");
      button.ariaLabel = `Copied ${whole}`;
    });
    if (e.matches("p, td")) e.append(button);
    else (e.closest("a.reach") ?? e).after(button);
  }
})();

// A chart that is wider than the page shows its newest columns.
for (const e of document.querySelectorAll(".plot")) e.parentElement.scrollLeft = e.scrollWidth;

// Tables with all of their rows on the page are sorted here; the server sorts lists of several pages.
(() => {
  for (const table of document.querySelectorAll("table[data-sorts]")) {
    const body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((th, column) => {
      if (th.tagName !== "TH" || body.rows.length < 2) return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...th.childNodes);
      th.append(button);
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      button.addEventListener("click", () => {
        const down = th.ariaSort !== "descending";
        for (const other of heads) other.removeAttribute("aria-sort");
        th.ariaSort = down ? "descending" : "ascending";
        body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * value(a).localeCompare(value(b), undefined, { numeric: true })));
      });
    });
  }
})();

// withTyped returns the URL of path with the current input of a form as its query.
const withTyped = (path, form) => {
  const at = new URL(path, location.href);
  for (const [name, value] of new FormData(form)) {
    if (value && /^(part|scope|minutes|of\[\]|keep\[\]|within-\d+)$/.test(name)) at.searchParams.append(name, value);
  }
  return at;
};

// The form of a narrowed approval. While a person types, the server returns the scopes and the time
// that would be approved.
(() => {
  const form = document.querySelector("form[data-narrow]");
  if (!form) return;
  const remains = form.querySelector("[data-remains]");
  form.querySelector("[data-check]").hidden = true;
  let asking, last = 0;
  const ask = async () => {
    const mine = ++last;
    try {
      const r = await fetch(withTyped(form.dataset.narrow, form));
      const said = await r.json();
      if (!r.ok || mine !== last) return;
      remains.textContent = said.remains;
      for (const e of form.querySelectorAll("[data-problem]")) e.textContent = said.problems[e.id.replace(/-problem$/, "")] ?? "";
    } catch { remains.textContent = "ebb could not check the input. It checks the input again when you approve."; }
  };
  const ticked = form.querySelector("[name=part][value='']");
  form.addEventListener("input", (e) => {
    if (ticked && /^(keep|within)/.test(e.target.name)) ticked.checked = true;
    clearTimeout(asking);
    asking = setTimeout(ask, 300);
  });
})();

// The buttons of a group name the number of its ticked requests.
for (const form of document.querySelectorAll("form:has([data-ticked])")) {
  const show = () => {
    const n = form.querySelectorAll("[name='of[]']:checked").length;
    for (const e of form.querySelectorAll("[data-ticked]")) e.textContent = n === 1 ? "1 request" : `${n} requests`;
  };
  form.addEventListener("input", show);
  addEventListener("pageshow", show); // the browser may have restored the boxes
}

// Passkeys. The form is sent after the passkey has signed the server's challenge. Without
// this script the form is sent unsigned, and the server answers what is missing.
(() => {
  const P = window.PublicKeyCredential;
  if (!P || !P.parseRequestOptionsFromJSON) return;
  document.addEventListener("submit", async (e) => {
    const form = e.target;
    if (!form.dataset.passkey || ["check", "deny"].includes(e.submitter?.name)) return; // neither needs a passkey
    e.preventDefault();
    const says = form.querySelector("[data-says]");
    try {
      // The typed values are signed. If they are not valid, the page shows the errors.
      const r = await fetch(withTyped(form.dataset.passkey, form));
      if (!r.ok) { form.submit(); return; }
      const { options, state } = await r.json();
      const made = "create" in form.dataset
        ? await navigator.credentials.create({ publicKey: P.parseCreationOptionsFromJSON(options) })
        : await navigator.credentials.get({ publicKey: P.parseRequestOptionsFromJSON(options) });
      form.elements.assertion.value = JSON.stringify(made);
      form.elements.state.value = state;
      form.submit();
    } catch {
      says.textContent = "The passkey was not used. Press the button again. If you signed in more than 10 minutes ago, reload the page first.";
    }
  });
})();

// A list that the person follows: rows newer than the page are added at the top. No row
// is added before the person clicks Follow, or after Pause.
const tail = (() => {
  const box = document.querySelector("[data-tail]");
  const row = document.querySelector("main table template");
  if (!box || !row) return () => {};
  const button = box.querySelector("button");
  const status = box.querySelector("[role=status]");
  const body = row.closest("table").tBodies[0];
  let on = false, busy = false, again = false, unsaid = 0, said = 0, saying;
  // Screen readers are notified at most every 10 seconds.
  const say = (n, more) => {
    unsaid += n;
    saying ??= setTimeout(() => {
      status.textContent = more ? "More new rows than shown: refresh." : `${unsaid} new`;
      unsaid = 0;
      said = Date.now();
      saying = undefined;
    }, Math.max(0, said + 10000 - Date.now()));
  };
  const make = (r) => {
    const made = row.content.firstElementChild.cloneNode(true);
    made.dataset.key = r.key;
    for (const e of made.querySelectorAll("[data-text]")) e.textContent = r.text[e.dataset.text] ?? "";
    for (const e of made.querySelectorAll("[data-href]")) e.setAttribute("href", r.href[e.dataset.href]);
    return made;
  };
  const load = async () => {
    if (!on) return;
    if (busy) { again = true; return; }
    busy = true;
    try {
      const { rows } = await (await fetch(box.dataset.tail)).json();
      const here = new Set([...body.rows].map((r) => r.dataset.key));
      const fresh = rows.filter((r) => !here.has(r.key));
      if (on && fresh.length > 0) {
        const first = body.rows[0];
        const at = first.getBoundingClientRect().top;
        const place = scrollY;
        first.before(...fresh.map(make));
        while (body.rows.length > 100) body.deleteRow(-1);
        // Keep the scroll position, unless the browser has kept it (scroll anchoring) or the person has
        // scrolled: both change scrollY.
        requestAnimationFrame(() => requestAnimationFrame(() => {
          if (place > 0 && scrollY === place) scrollBy(0, first.getBoundingClientRect().top - at);
        }));
        say(fresh.length, fresh.length === rows.length && rows.length >= 20);
      }
    } catch {
      status.textContent = "The new rows could not be loaded. Refresh, or sign in again.";
    } finally {
      busy = false;
      if (again) { again = false; setTimeout(load, 1000); }
    }
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    on = !on;
    button.textContent = on ? "Pause" : "Follow";
    if (!on) { clearTimeout(saying); saying = undefined; }
    load();
  });
  return load;
})();

// Shortcuts of one key, unless the person has turned them off. None of them sends a form.
let waiting = []; // ids of the requests that wait for the person
(() => {
  const list = document.querySelector("dialog[data-shortcuts]");
  if (!list) return;
  list.querySelector("button").addEventListener("click", () => list.close());
  const rows = document.querySelector(".queue");
  const step = (by) => {
    if (rows) {
      const links = [...rows.querySelectorAll('a.button[href*="/requests/"]')].filter((e) => e.checkVisibility());
      const at = links.indexOf(document.activeElement);
      links[at < 0 ? (by > 0 ? 0 : -1) : at + by]?.focus();
      return;
    }
    const at = waiting.indexOf(location.pathname.split("/").pop());
    const id = waiting[at < 0 ? (by > 0 ? 0 : -1) : at + by];
    if (id) location.assign(list.dataset.shortcuts + id);
  };
  const approve = document.querySelector(".decide form:has(> [name=choice][value=approve]), .deciding > .decide"); // of a request or of a group
  const keys = {
    j: () => step(1),
    k: () => step(-1),
    a: () => (approve?.querySelector("input:not([type=hidden])") ?? approve?.querySelector("button.primary"))?.focus(),
    d: () => document.querySelector(".decide select[name=code]")?.focus(),
    "?": () => list.showModal(),
  };
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.altKey || e.metaKey || e.repeat || e.isComposing || e.defaultPrevented) return;
    if (e.target.closest?.("input, textarea, select, [contenteditable]") || document.querySelector("dialog[open]") || !Object.hasOwn(keys, e.key)) return;
    e.preventDefault();
    keys[e.key]();
  });
})();

// Waiting requests. One tab of a browser listens and tells the others: over HTTP/1.1 a browser
// has six connections for all of its tabs. Elements do not move: texts change in
// the space reserved for them. Only the banner of a lost connection takes space of its own.
(() => {
  const at = (name) => document.querySelector(`[data-live="${name}"]`);
  const count = at("count");
  const events = document.querySelector("[data-events]")?.dataset.events;
  if (!events || !navigator.locks || !window.BroadcastChannel) return;
  const channel = new BroadcastChannel("ebb-waiting");
  let said = 0;
  const title = document.title;
  // The notice of an open request: when the request no longer waits, the server returns the outcome.
  const decided = document.querySelector("[data-decided]");
  const check = async (waiting) => {
    if (!decided || !decided.hidden || waiting.includes(decided.dataset.request)) return;
    try {
      const r = await fetch(decided.dataset.decided);
      const { text } = await r.json();
      if (!r.ok || !text) return;
      decided.textContent = text;
      decided.hidden = false;
    } catch { /* the next event asks again */ }
  };
  const show = (now) => {
    if (now.record) { tail(); return; }
    if (now.lost !== undefined) {
      const lost = at("lost");
      if (lost) lost.hidden = !now.lost;
      return;
    }
    if (!count) return;
    waiting = now.ids;
    document.title = now.count > 0 ? `(${now.count}) ${title}` : title;
    check(now.ids);
    count.textContent = now.count > 0 ? (now.count > 999 ? "999+" : String(now.count)) : "";
    const refresh = at("refresh");
    if (!refresh) return;
    const here = new Set([...document.querySelectorAll("[data-request]")].map((e) => e.dataset.request));
    const mine = new URLSearchParams(location.search).get("view") !== "all";
    const fresh = mine && !location.search ? now.ids.filter((id) => !here.has(id)).length : 0;
    const text = fresh > 0 ? `Show ${fresh} new` : "Refresh";
    if (refresh.textContent === text) return;
    refresh.textContent = text;
    // Screen readers are notified at most every 10 seconds.
    if (fresh > 0 && Date.now() - said > 10000) {
      said = Date.now();
      at("status").textContent = `${fresh} new`;
    }
  };
  let last; // set in the tab that listens
  channel.onmessage = (e) => {
    if (e.data !== "ask") show(e.data);
    else if (last) channel.postMessage(last);
  };
  channel.postMessage("ask");
  navigator.locks.request("ebb-waiting", () => new Promise((gone) => {
    const source = new EventSource(events);
    const tell = (now) => {
      show(now);
      channel.postMessage(now);
    };
    source.addEventListener("open", () => tell({ lost: false }));
    source.addEventListener("waiting", (e) => {
      last = JSON.parse(e.data);
      tell(last);
    });
    source.addEventListener("record", (e) => tell({ record: e.data }));
    // The connection was refused, not interrupted: the session has ended, so do not retry.
    source.addEventListener("error", () => {
      tell({ lost: true });
      if (source.readyState === EventSource.CLOSED) gone();
    });
  }));
})();
