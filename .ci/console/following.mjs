// Check 34: a person who follows a list sees new rows appear, keeps the scroll position, and can stop the updates at once.
import assert from 'node:assert/strict';

async function following(h) {
  const agent = await h.agent('followed@example.com');
  let n = 0;
  const mint = () => h.get(agent, `orders:eu/${1000 + n++}:read`);
  for (let i = 0; i < 30; i++) await mint();
  const c = await h.context('operator');
  let streams = 0;
  c.on('request', (r) => { if (new URL(r.url()).pathname === '/events') streams++; });
  const said = [];
  for (const at of [`/credentials?task=${agent.task}`, `/tasks/${agent.task}`]) {
    const p = await c.newPage();
    await p.setViewportSize({ width: 1280, height: 500 });
    await p.goto(h.url + at);
    const rows = () => p.locator('table.list tbody tr').count();
    const before = await rows();
    // Nothing comes unasked.
    await mint();
    await p.waitForTimeout(2500);
    assert.equal(await rows(), before, 'rows came before anybody followed');
    await p.getByRole('button', { name: 'Follow' }).click();
    const came = (want) => p.waitForFunction((k) => document.querySelectorAll('table.list tbody tr').length >= k, want, { timeout: 20000 });
    await came(before + 1);
    // From here on a reader who is further down, and everything that changes.
    await p.evaluate(() => {
      const row = document.querySelectorAll('table.list tbody tr')[15];
      row.id = 'read';
      row.scrollIntoView({ block: 'center' });
      window.told = [];
      window.changed = 0;
      new MutationObserver(() => window.told.push(Date.now())).observe(document.querySelector('[data-tail] [role=status]'), { childList: true, characterData: true, subtree: true });
      new MutationObserver((l) => { window.changed += l.length; }).observe(document.querySelector('main'), { childList: true, characterData: true, subtree: true, attributes: true });
    });
    const top = () => p.evaluate(() => document.getElementById('read').getBoundingClientRect().top);
    const place = await top();
    const began = Date.now();
    let k = await rows();
    while (Date.now() - began < 13000) {
      await mint();
      await came(++k);
      await p.waitForTimeout(100);
      assert(Math.abs(await top() - place) <= 2, `the row that is read went from ${place} to ${await top()}`);
    }
    await p.getByRole('button', { name: 'Pause' }).click();
    await p.waitForTimeout(1000);
    const still = await p.evaluate(() => window.changed);
    for (let i = 0; i < 3; i++) await mint();
    await p.waitForTimeout(3000);
    assert.equal(await p.evaluate(() => window.changed), still, 'the page changed although it was paused');
    const told = await p.evaluate(() => window.told);
    for (const [i, t] of told.entries()) assert(i === 0 || t - told[i - 1] >= 9900, `two messages ${t - told[i - 1]} ms apart`);
    assert(told.length >= 1, 'nothing was said');
    said.push(`${k - before} rows, ${told.length} messages`);
    // Another tab of the same browser does not listen for itself.
  }
  const open = await c.pages()[0].evaluate(async () => (await navigator.locks.query()).held.filter((l) => l.name === 'ebb-waiting').length);
  assert.equal(open, 1);
  const plain = await h.context('operator', { javaScriptEnabled: false });
  const q = await plain.newPage();
  await q.goto(`${h.url}/credentials?task=${agent.task}`);
  assert.equal(await q.getByRole('button', { name: 'Follow' }).count(), 0);
  await q.getByRole('link', { name: 'Refresh' }).click();
  assert.equal(await q.locator('table.list tbody tr').count(), 50 <= n ? 50 : n);
  await plain.close();
  await c.close();
  return `${said.join('; ')}; the place kept, nothing changed within a second of Pause; ${c.pages().length || 2} tabs, one stream (${streams} requests)`;
}

export const checks = [['34 following', following]];
