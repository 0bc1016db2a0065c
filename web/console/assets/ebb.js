// The console works without this file.
"use strict";
(() => {
  // Times are drawn on the server in the zone that this cookie names.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !document.cookie.includes("ebb-zone=")) {
    document.cookie = `ebb-zone=${zone}; Path=/; SameSite=Lax; Max-Age=31536000`;
  }
})();

// Passkeys. The form is sent after the passkey has signed the server's challenge. Without
// this script the form is sent unsigned, and the server answers what is missing.
(() => {
  const P = window.PublicKeyCredential;
  if (!P || !P.parseRequestOptionsFromJSON) return;
  document.addEventListener("submit", async (e) => {
    const form = e.target;
    if (!form.dataset.passkey) return;
    e.preventDefault();
    const says = form.querySelector("[data-says]");
    try {
      // The typed values are signed. If they are not valid, the page shows the errors.
      const at = new URL(form.dataset.passkey, location.href);
      const typed = new FormData(form);
      for (const name of ["part", "scope", "minutes"]) if (typed.get(name)) at.searchParams.set(name, typed.get(name));
      const r = await fetch(at);
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
        const scrolled = scrollY > 0;
        first.before(...fresh.map(make));
        while (body.rows.length > 100) body.deleteRow(-1);
        // Keep the scroll position. Most browsers do it themselves (scroll anchoring).
        requestAnimationFrame(() => requestAnimationFrame(() => {
          const by = first.getBoundingClientRect().top - at;
          if (scrolled && Math.abs(by) > 1) scrollBy(0, by);
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

// Waiting requests. One tab of a browser listens and tells the others: over HTTP/1.1 a browser
// has six connections for all of its tabs. Elements do not move: texts change in
// the space reserved for them.
(() => {
  const at = (name) => document.querySelector(`[data-live="${name}"]`);
  const count = at("count");
  const events = document.querySelector("[data-events]")?.dataset.events;
  if (!events || !navigator.locks || !window.BroadcastChannel) return;
  const channel = new BroadcastChannel("ebb-waiting");
  let said = 0;
  const show = (now) => {
    if (now.record) { tail(); return; }
    if (!count) return;
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
    source.addEventListener("waiting", (e) => {
      last = JSON.parse(e.data);
      show(last);
      channel.postMessage(last);
    });
    source.addEventListener("record", (e) => {
      show({ record: e.data });
      channel.postMessage({ record: e.data });
    });
    // The connection was refused, not interrupted: the session has ended, so do not retry.
    source.addEventListener("error", () => { if (source.readyState === EventSource.CLOSED) gone(); });
  }));
})();
