// The console works without this file.
"use strict";
(() => {
  // Times are drawn on the server in the zone that this cookie names.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !document.cookie.includes("ebb-zone=")) {
    document.cookie = `ebb-zone=${zone}; Path=/; SameSite=Lax; Max-Age=31536000`;
  }
})();

// Passkeys. The form waits until the browser has one sign what the server says, and is
// sent then; without this it is sent as it is, and the server says what is missing.
(() => {
  const P = window.PublicKeyCredential;
  if (!P || !P.parseRequestOptionsFromJSON) return;
  document.addEventListener("submit", async (e) => {
    const form = e.target;
    if (!form.dataset.passkey) return;
    e.preventDefault();
    const says = form.querySelector("[data-says]");
    try {
      const r = await fetch(form.dataset.passkey);
      const { options, state } = await r.json();
      const made = "create" in form.dataset
        ? await navigator.credentials.create({ publicKey: P.parseCreationOptionsFromJSON(options) })
        : await navigator.credentials.get({ publicKey: P.parseRequestOptionsFromJSON(options) });
      form.elements.assertion.value = JSON.stringify(made);
      form.elements.state.value = state;
      form.submit();
    } catch {
      says.textContent = "The passkey was not used. Press the button again, or load the page again if you signed in a while ago.";
    }
  });
})();

// What waits. One tab of a browser listens and tells the others: over HTTP/1.1 a browser
// has six connections for all of its tabs. Nothing on the page moves: words change where
// there is room for them.
(() => {
  const at = (name) => document.querySelector(`[data-live="${name}"]`);
  const count = at("count");
  if (!count || !navigator.locks || !window.BroadcastChannel) return;
  const channel = new BroadcastChannel("ebb-waiting");
  let said = 0;
  const show = (now) => {
    count.textContent = now.count > 0 ? (now.count > 999 ? "999+" : String(now.count)) : "";
    const refresh = at("refresh");
    if (!refresh) return;
    const here = new Set([...document.querySelectorAll("[data-request]")].map((e) => e.dataset.request));
    const mine = new URLSearchParams(location.search).get("view") !== "all";
    const fresh = mine && !location.search ? now.ids.filter((id) => !here.has(id)).length : 0;
    const text = fresh > 0 ? `Show ${fresh} new` : "Refresh";
    if (refresh.textContent === text) return;
    refresh.textContent = text;
    // A screen reader is told at most every ten seconds.
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
    const source = new EventSource(count.dataset.events);
    source.addEventListener("waiting", (e) => {
      last = JSON.parse(e.data);
      show(last);
      channel.postMessage(last);
    });
    // Refused, and not merely interrupted: who is signed out need not ask again.
    source.addEventListener("error", () => { if (source.readyState === EventSource.CLOSED) gone(); });
  }));
})();
