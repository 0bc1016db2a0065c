// Checks 18, 21, 38 and the second half of 40: how people decide, with and without JavaScript.
import assert from 'node:assert/strict';
import http from 'node:http';

// fill types what a form for this choice needs.
async function fill(p, choice) {
  const form = p.locator(`.decide form:has(input[name=choice][value=${choice}])`);
  const target = form.locator('input[name=target]');
  if (await target.count()) await target.fill(await form.locator('label[for$=target] .name').innerText());
  if (choice === 'deny') {
    await form.locator('select[name=code]').selectOption('too_broad');
    await form.locator('summary').click();
    await form.locator('textarea[name=note]').fill('A branch is enough.');
  }
  return form;
}

// send presses its button and returns what the console answers.
async function send(p, form) {
  const [got] = await Promise.all([p.waitForResponse((r) => r.request().method() === 'POST'), form.locator('button').click()]);
  await p.waitForLoadState();
  return got.status();
}

const answer = async (p, choice) => send(p, await fill(p, choice));

async function twoAtOnce(h) {
  const people = [await h.context('approver'), await h.sso('ann', 'secret')];
  await h.stronger(await people[1].newPage(), h.requested.plain, 'ann');
  const seen = [];
  for (const i of [1, 2, 3]) {
    const id = await h.ask('for two');
    const pages = [];
    for (const c of people) {
      const p = await c.newPage();
      await p.goto(`${h.url}/requests/${id}`);
      pages.push(p);
    }
    const forms = [await fill(pages[0], 'deny'), await fill(pages[1], 'approve')];
    const statuses = await Promise.all([send(pages[0], forms[0]), send(pages[1], forms[1])]);
    assert.deepEqual([...statuses].sort(), [303, 409], `try ${i}`);
    const loser = pages[statuses.indexOf(409)];
    const says = await loser.locator('[role=alert]').innerText();
    // Who, and when, is on the page that the loser is left with.
    const main = await loser.locator('main').innerText();
    assert.match(main, /\S+ (approved|denied) this \d+ s ago/, main.slice(0, 400));
    seen.push(`${statuses.join(' and ')}: ${says}`);
    for (const p of pages) await p.close();
  }
  for (const c of people) await c.close();
  return seen.join(' | ');
}

// An open page shows within a second that another person has decided, and links to the next request.
async function decidedMeanwhile(h) {
  const c = await h.context('approver');
  const p = await c.newPage();
  const ann = await h.sso('ann', 'secret');
  const q = await ann.newPage();
  const notice = p.locator('[data-decided]');
  const took = [];
  let id;
  for (let i = 0; i < 5; i++) {
    id = await h.ask(`decided by another, ${i}`);
    await p.goto(`${h.url}/requests/${id}`);
    await p.waitForFunction(() => /^\(\d+\) /.test(document.title));
    assert.equal(await notice.isVisible(), false);
    await q.goto(`${h.url}/requests/${id}`);
    const form = await fill(q, 'deny');
    const shown = p.evaluate(() => new Promise((go) => {
      const e = document.querySelector('[data-decided]');
      new MutationObserver(() => { if (!e.hidden) go(Date.now()); }).observe(e, { attributes: true });
    }));
    const begun = Date.now();
    assert.equal(await send(q, form), 303);
    took.push(await shown - begun);
    assert.match(await notice.innerText(), /^\S+ denied this \d+ s ago: too broad\.$/);
  }
  assert(took.toSorted((a, b) => a - b)[took.length >> 1] < 1000, `${took.join(', ')} ms`);
  const next = q.getByRole('link', { name: /^Next \(\d+\+? left\)$/ });
  await next.click();
  await q.waitForURL((u) => /\/requests\/req_/.test(u.pathname) && !u.pathname.endsWith(id));
  await p.route('**/events', (route) => route.abort());
  await p.reload();
  const banner = p.getByRole('status').filter({ hasText: 'Connection lost' });
  await banner.waitFor({ state: 'visible', timeout: 30000 });
  const box = await banner.boundingBox();
  const { width } = p.viewportSize();
  assert(box.width === width && box.y < 100, `the banner is at ${JSON.stringify(box)} of ${width} px`);
  await p.unroute('**/events');
  await banner.waitFor({ state: 'hidden', timeout: 30000 });
  await ann.close();
  await c.close();
  return `the open page says so ${took.join(', ')} ms after the answer was sent; the answered page leads to the next; a banner says that the connection is lost, and goes away`;
}

async function keys(h) {
  const c = await h.context('approver');
  let pressed = 0;
  const posts = [];
  c.on('request', (r) => { if (r.method() !== 'GET') posts.push(r.url()); });
  for (const at of ['/queue', `/requests/${h.requested.plain}`]) {
    for (const key of [...'abcdefghijklmnopqrstuvwxyz0123456789', 'Enter', 'Space']) {
      const p = await c.newPage();
      await p.goto(h.url + at, { waitUntil: 'domcontentloaded' });
      await p.keyboard.press(key);
      await p.waitForTimeout(20);
      const { pathname } = new URL(p.url());
      assert(pathname === at || 'jk'.includes(key) && /^\/requests\/req_/.test(at) && /^\/requests\/req_/.test(pathname), `${key} led from ${at} to ${pathname}`);
      await p.close();
      pressed++;
    }
  }
  const { state } = JSON.parse(await h.run('requests', 'show', h.requested.plain, '-o', 'json'));
  assert.equal(state, 'pending');
  assert.deepEqual(posts, []);
  await c.close();
  return `${pressed} keys on fresh pages, ${posts.length} POST`;
}

// Shortcuts move the focus, send nothing, leave fields, modifiers and dialogs alone, and can be turned off.
async function shortcuts(h) {
  const c = await h.context('approver');
  const p = await c.newPage();
  const posts = [];
  p.on('request', (r) => { if (r.method() !== 'GET') posts.push(r.url()); });
  const focused = () => p.evaluate(() => document.activeElement.name || document.activeElement.textContent.trim());
  const open = () => p.locator('dialog[open]').count();
  await p.goto(`${h.url}/queue`);
  const review = () => p.evaluate(() => document.activeElement.closest('[data-request]')?.dataset.request);
  await p.keyboard.press('j');
  const first = await review();
  await p.keyboard.press('j');
  const second = await review();
  assert(first && second && first !== second, `${first} ${second}`);
  await p.keyboard.press('k');
  assert.equal(await review(), first);
  const high = await h.ask('for shortcuts', { scope: 'orders:eu/1:delete' });
  await p.goto(`${h.url}/requests/${high}`);
  await p.waitForFunction(() => /^\(\d+\) /.test(document.title));
  await p.keyboard.press('a');
  assert.equal(await focused(), 'target');
  await p.keyboard.type('jkad?');
  assert.equal(await p.inputValue('#target'), 'jkad?');
  await p.evaluate(() => document.activeElement.blur());
  await p.keyboard.press('d');
  assert.equal(await focused(), 'code');
  await p.evaluate(() => document.activeElement.blur());
  for (const key of ['Control+a', 'Alt+d', 'Meta+d', 'Shift+A']) {
    await p.keyboard.press(key);
    assert.notEqual(await focused(), 'target', key);
    assert.notEqual(await focused(), 'code', key);
  }
  await p.keyboard.press('?');
  assert.equal(await open(), 1);
  for (const key of 'jkad?') await p.keyboard.press(key);
  assert.equal(new URL(p.url()).pathname, `/requests/${high}`);
  await p.keyboard.press('Escape');
  assert.equal(await open(), 0);
  await p.goto(`${h.url}/requests/${h.requested.plain}`);
  await p.waitForFunction(() => /^\(\d+\) /.test(document.title));
  await p.keyboard.press('a');
  assert.match(await focused(), /^(target$|Approve: )/);
  await p.evaluate(() => document.activeElement.blur());
  const ids = await p.evaluate(() => waiting);
  const here = ids.indexOf(h.requested.plain);
  assert(here >= 0 && ids.length > 1);
  const [key, back] = here + 1 < ids.length ? ['j', 'k'] : ['k', 'j'];
  const there = ids[here + (key === 'j' ? 1 : -1)];
  for (const [press, id] of [[key, there], [back, h.requested.plain]]) {
    await p.keyboard.press(press);
    await p.waitForURL(`**/requests/${id}`);
    await p.waitForFunction(() => /^\(\d+\) /.test(document.title));
  }
  assert.deepEqual(posts, []);
  const turn = async (on) => {
    await p.goto(`${h.url}/settings`);
    await p.locator('input[name=shortcuts]').setChecked(on);
    await p.locator('form[action$="/settings/notifications"] button').click();
    await p.waitForURL('**/settings');
    await p.goto(`${h.url}/requests/${high}`);
    await p.keyboard.press('d');
    assert.equal(await focused() === 'code', on);
  };
  await turn(false);
  assert.equal(await p.locator('dialog').count(), 0);
  await turn(true);
  await c.close();
  return 'j, k, a, d and ? move only the focus; off by a switch';
}

async function noScript(h) {
  const off = { javaScriptEnabled: false };
  const blocked = [];
  const watch = (c) => c.on('requestfailed', (r) => blocked.push(`${r.url()}: ${r.failure()?.errorText}`));

  // An approver filters, denies, and approves through the provider's step-up page.
  // The second is of high risk and needs two people; the first of them has agreed.
  const [one, two] = [await h.ask('one'), await h.ask('two', { scope: 'orders:eu/1:delete' })];
  const other = await h.context('approver');
  const o = await other.newPage();
  await o.goto(`${h.url}/requests/${two}`);
  assert.equal(await answer(o, 'approve'), 303);
  await other.close();
  const ann = await h.sso('ann', 'secret', off); // pwd: not strong enough to approve with
  watch(ann);
  const p = await ann.newPage();
  await p.goto(`${h.url}/queue`);
  const before = await p.locator('.queue a.button').count();
  await p.locator('main form[method=get] input[name=task]').fill('tsk_none');
  await p.getByRole('button', { name: 'Filter' }).click();
  assert.equal(await p.locator('.queue a.button').count(), 0);
  assert(before >= 2);
  await p.goto(`${h.url}/requests/${one}`);
  assert.equal(await answer(p, 'deny'), 303);
  await p.goto(`${h.url}/requests/${two}`);
  assert.equal(await answer(p, 'approve'), 403);
  assert.equal(JSON.parse(await h.run('requests', 'show', two, '-o', 'json')).state, 'pending');
  await h.stronger(p, two, 'ann');
  assert.equal(await p.locator('.decide form').count(), 3);
  assert.equal(await answer(p, 'approve'), 303);
  // The requesting sandbox waits, and may have its credential by now.
  assert(['approved', 'issued'].includes(JSON.parse(await h.run('requests', 'show', two, '-o', 'json')).state));

  // A reader filters, opens the next page and downloads a file; an operator revokes.
  const ola = await h.context('operator', { ...off, acceptDownloads: true });
  watch(ola);
  const q = await ola.newPage();
  await q.goto(`${h.url}/credentials`);
  await q.locator('main form[method=get] select[name=state]').selectOption('live');
  await q.getByRole('button', { name: 'Filter' }).click();
  await q.waitForURL('**/credentials?*state=live*');
  await q.getByRole('link', { name: 'Older' }).click();
  await q.waitForURL('**after=*');
  const rows = await q.locator('table.list tbody tr').count();
  assert(rows > 0);
  const [file] = await Promise.all([q.waitForEvent('download'), q.getByRole('link', { name: 'CSV' }).click()]);
  assert.match(file.suggestedFilename(), /^ebb-credentials-.*\.csv$/);
  const lease = await h.get(await h.agent('to revoke'), 'orders:eu/9:read');
  await q.goto(`${h.url}/credentials/${lease.lease_id}`);
  await q.locator('form[action$="/revoke"] input[name=reason]').fill('it leaked');
  await q.getByRole('button', { name: /^Revoke/ }).click();
  await q.waitForLoadState();
  assert.match(await q.locator('main').innerText(), /revoked/);
  await q.getByRole('button', { name: 'Sign out' }).click();
  await q.waitForURL('**/signin');
  // A download ends the navigation that began it, and the next page the loading of an icon: the browser says so.
  assert.deepEqual(blocked.filter((b) => !/(\/credentials\.csv.*|\.svg): net::ERR_ABORTED$/.test(b)), []);
  const faults = [...ann.faults, ...ola.faults].filter((f) => !/status of 4\d\d/.test(f));
  assert.deepEqual(faults, []);
  await ann.close();
  await ola.close();
  return 'filter, page, file, deny, revoke; approving led to the provider and back to the form; nothing was blocked';
}

// 40, second half: active markup in an agent's text has no effect on a page. A signed-in person
// can follow a link from another site, and a form from that site decides nothing.
async function otherSites(h) {
  const c = await h.context('approver');
  const sent = [];
  const p = await c.newPage();
  const tap = await c.newCDPSession(p);
  await tap.send('Fetch.enable', { patterns: [{ urlPattern: '*/queue?injected', requestStage: 'Response' }] });
  tap.on('Fetch.requestPaused', async ({ requestId, responseHeaders, responseStatusCode: responseCode }) => {
    const { body, base64Encoded } = await tap.send('Fetch.getResponseBody', { requestId });
    const text = Buffer.from(body, base64Encoded ? 'base64' : 'utf8').toString();
    const gadget = '<div hx-post="/requests/x/decide" hx-trigger="load">x</div><img src="data:," onerror="fetch(\'/pwned\')"><script>fetch("/pwned")</script>';
    await tap.send('Fetch.fulfillRequest', {
      requestId, responseCode, responseHeaders: responseHeaders.filter((h) => !/^content-(length|encoding)$/i.test(h.name)),
      body: Buffer.from(text.replace('</main>', gadget + '</main>')).toString('base64'),
    });
  });
  p.on('request', (r) => sent.push(`${r.method()} ${new URL(r.url()).pathname}`));
  await p.goto(`${h.url}/queue?injected`);
  assert.equal(await p.locator('[hx-post]').count(), 1);
  await p.waitForTimeout(1000);
  assert.deepEqual(sent.filter((s) => !/^GET \/(queue|events|assets\/.*)$|^GET ,$/.test(s)), []);
  await p.close();
  const server = http.createServer((_, res) => {
    res.setHeader('Content-Type', 'text/html');
    res.end(`<a href="${h.url}/requests/${h.requested.plain}">look</a><form method="post" action="${h.url}/requests/${h.requested.plain}/decide"><input name="choice" value="deny"><button>no</button></form>`);
  });
  await new Promise((go) => server.listen(0, '127.0.0.1', go));
  const elsewhere = `http://127.0.0.1:${server.address().port}/`;
  const q = await c.newPage();
  await q.goto(elsewhere);
  await q.getByRole('link').click();
  await q.waitForURL('**/requests/*');
  assert.equal(await q.locator('.decide form').count(), 3);
  await q.goto(elsewhere);
  const [got] = await Promise.all([q.waitForResponse((r) => r.request().method() === 'POST'), q.getByRole('button').click()]);
  assert.equal(got.status(), 403);
  assert(!(await got.request().allHeaders()).cookie?.includes('ebb-act'), 'the Strict cookie came from another site');
  server.close();
  server.closeAllConnections();
  await c.close();
  return `${sent.length} requests of a page with gadgets, none of theirs; a link from another site is followed signed in, a form from there is 403`;
}

export const checks = [['18 two at once', twoAtOnce], ['decided meanwhile', decidedMeanwhile], ['21 keys', keys], ['shortcuts', shortcuts], ['38 without JavaScript', noScript], ['40 other sites', otherSites]];
