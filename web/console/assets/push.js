// Turns on notifications in this browser: registers worker.js, subscribes at the browser's
// push service, and sends the subscription with the form.
"use strict";
(() => {
  const form = document.querySelector("[data-push]");
  const says = form.querySelector("[data-says]");
  const { push: key, worker } = form.dataset;
  if (!navigator.serviceWorker || !window.PushManager) {
    form.querySelector("button").disabled = true;
    says.textContent = "This browser does not support Web Push, or this page was not opened over https.";
    return;
  }
  const policy = window.trustedTypes?.createPolicy("ebb-push", { createScriptURL: () => worker });
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    says.textContent = "";
    try {
      await navigator.serviceWorker.register(policy ? policy.createScriptURL("") : worker);
      const { pushManager } = await navigator.serviceWorker.ready;
      await (await pushManager.getSubscription())?.unsubscribe(); // an earlier subscription may be for another key
      const made = await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
      form.elements.subscription.value = JSON.stringify(made);
      form.submit();
    } catch {
      says.textContent = Notification.permission === "denied"
        ? "This browser blocks notifications of this site. Permit them in the browser's settings for this site, and press the button again."
        : "The browser could not subscribe at its push service. Try again.";
    }
  });
})();
