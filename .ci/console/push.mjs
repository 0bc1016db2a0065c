// Notifications in browsers. Chromium cannot reach a push service here, so the check ends at the subscription, and begins
// again at the message: DevTools delivers it to the service worker.
import assert from 'node:assert/strict';
import { look } from './every.mjs';

async function push(h) {
  const c = await h.context('approver');
  await c.grantPermissions(['notifications'], { origin: h.url });
  const p = await c.newPage();
  const answer = await p.goto(`${h.url}/settings/push`);
  assert.match(answer.headers()['content-security-policy'], /; trusted-types ebb-push$/);
  await look(p, 'push');
  const worker = await p.evaluate(async () => Object.fromEntries((await fetch('/worker.js')).headers));
  assert.equal(worker['content-security-policy'], "default-src 'none'; require-trusted-types-for 'script'; trusted-types 'none'");
  assert.equal(worker['cache-control'], 'no-cache');
  // On any other page the policy refuses a worker.
  const other = await c.newPage();
  await other.goto(`${h.url}/settings`);
  assert.match(await other.evaluate(() => navigator.serviceWorker.register('/worker.js').then(() => 'registered', (e) => e.name)), /TypeError/);
  await other.close();
  c.faults.length = 0; // the refusal is reported there

  const session = await c.newCDPSession(p);
  const registered = new Promise((go) => session.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => { if (registrations.length) go(registrations[0]); }));
  await session.send('ServiceWorker.enable');
  await p.getByRole('button', { name: 'Turn on in this browser' }).click();
  const { registrationId, scopeURL } = await registered;
  assert.equal(scopeURL, `${h.url}/`);
  await p.evaluate(() => navigator.serviceWorker.ready);
  const sent = { title: 'High risk: request AMBER-42 waits for you', body: 'What: Delete eu/1 at orders', tag: 'msg_1', path: '//evil.example/x' };
  for (const data of [sent, { ...sent, path: '/queue' }]) await session.send('ServiceWorker.deliverPushMessage', { origin: h.url, registrationId, data: JSON.stringify(data) });
  const shown = await p.waitForFunction(async () => {
    const all = await (await navigator.serviceWorker.ready).getNotifications();
    return all.some((n) => n.data === '/queue') && all.map(({ title, body, tag, data }) => ({ title, body, tag, data }));
  });
  const { path, ...texts } = sent;
  assert.deepEqual(await shown.jsonValue(), [{ ...texts, data: '/queue' }]); // the same tag: one notification
  assert.deepEqual(c.faults.filter((f) => !/push service|Registration failed|incognito/i.test(f)), []);

  // Without JavaScript the response says that JavaScript is required.
  const plain = await h.context('approver', { javaScriptEnabled: false });
  const q = await plain.newPage();
  await q.goto(`${h.url}/settings/push`);
  await q.getByRole('button', { name: 'Turn on in this browser' }).click();
  assert.match(await q.textContent('main'), /needs JavaScript/);
  await plain.close();
  await c.close();
}

export const checks = [['push', push]];
