// Measures what user tasks cost. Each task is described once, and done with a mouse, with a keyboard alone, and without
// JavaScript. The report has the clicks, keys, scrolled screens, words read and seconds.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import fs from 'node:fs';
import { Served } from './serve.mjs';
import { person } from './passkeys.mjs';

// reading counts the words that come into view for the first time, except agent text.
const reading = () => {
  const seen = (window.seenTexts ??= new Set());
  const shown = (e) => e.checkVisibility({ contentVisibilityAuto: true }) && !e.closest('.unseen, .agent, option:not(:checked)');
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let words = 0;
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    const select = n.parentElement.closest('select');
    const range = document.createRange();
    range.selectNode(select ?? n);
    const inView = [...range.getClientRects()].some((b) => b.bottom > 0 && b.top < innerHeight && b.right > 0 && b.left < innerWidth);
    if (seen.has(n) || !inView || !shown(n.parentElement)) continue;
    seen.add(n);
    words += n.data.split(/\s+/).filter((w) => /[\p{L}\p{N}]/u.test(w)).length;
  }
  return words;
};

// outOfSight returns an error text if the element with the focus is not visible, and "" otherwise.
const outOfSight = () => {
  const e = document.activeElement;
  const b = (['checkbox', 'radio'].includes(e.type) && e.labels?.[0] || e).getClientRects()[0];
  const top = document.elementFromPoint(b.x + Math.min(b.width, 20) / 2, b.y + Math.min(b.height, 20) / 2);
  return top && (e.contains(top) || top.contains(e) || top.closest('label')?.control === e) ? '' : `${e.outerHTML.slice(0, 80)} is not in view`;
};

// Mouse is a person with a mouse, who uses the keyboard only to type text.
class Mouse {
  constructor(p, h) { Object.assign(this, { p, h, cost: { clicks: 0, keys: 0, scrolls: 0, words: 0 } }); }

  find(role, name) {
    const it = {
      summary: () => this.p.locator('summary').filter({ hasText: name }),
      field: () => this.p.getByLabel(name),
      alone: () => this.p.getByRole('region', { name: /^Approve alone/ }).getByLabel(name),
    }[role]?.() ?? this.p.getByRole(role, { name, exact: typeof name === 'string' });
    return it.filter({ visible: true }).first();
  }

  async read() { this.cost.words += await this.p.evaluate(reading); }

  // look reads the page, finds a control and goes there.
  async look(role, name, key) {
    const it = this.find(role, name);
    await it.waitFor();
    await this.read();
    await this.reach(it, key);
    return it;
  }

  async reach(it) {
    for (;;) {
      const by = await it.evaluate((e) => { const b = e.getBoundingClientRect(); return b.top < 0 ? -0.9 : b.bottom > innerHeight ? 0.9 : 0; });
      if (by === 0) return;
      await this.p.evaluate((n) => scrollBy({ top: n * innerHeight, behavior: 'instant' }), by);
      this.cost.scrolls++;
      await this.read();
    }
  }

  async act(it) { await it.click(); this.cost.clicks++; }

  // press uses a control, and waits for the page to which it leads.
  async press(role, name, { key } = {}) {
    const it = await this.look(role, name, key);
    const loaded = ['summary', 'checkbox', 'radio'].includes(role) || this.p.waitForEvent('load');
    await this.act(it, role);
    await loaded;
  }

  async type(name, text, { key, enter, role = 'field' } = {}) {
    await this.act(await this.look(role, name, key), 'field');
    const loaded = !enter || this.p.waitForEvent('load');
    await this.p.keyboard.type(enter ? `${text}\n` : text);
    this.cost.keys += text.length + (enter ? 1 : 0);
    await loaded;
  }

  // choose chooses an option of a menu. It counts two clicks, because Playwright cannot click in the browser's own menu.
  async choose(name, option, { key } = {}) {
    await (await this.look('field', name, key)).selectOption({ label: option });
    this.cost.clicks += 2;
  }

  async download(name) {
    const [file] = await Promise.all([this.p.waitForEvent('download'), this.look('link', name).then((it) => this.act(it, 'link'))]);
    return file.path();
  }

  async prove() {} // the passkey signs when the button is pressed
}

// NoScript is a person with a mouse and without JavaScript, who signs in at the identity provider to prove their identity.
class NoScript extends Mouse {
  async prove() {
    if (!await this.p.locator('.note.warn').filter({ hasText: /first sign in again/i }).count()) return;
    await this.act(await this.look('link', 'sign in again at your identity provider'));
    this.h.proofs = (this.h.proofs ?? 0) + 1;
    await this.h.prove(this.p, 'ann', 'key');
  }
}

// Keyboard is a person without a mouse.
class Keyboard extends Mouse {
  async key(key) { await this.p.keyboard.press(key); this.cost.keys++; }

  async reach(it, key) {
    const at = () => it.evaluate((e) => {
      const f = document.activeElement;
      if (e === f || f === document.body) return e === f ? 'there' : 'nowhere';
      if (e.type === 'radio' && e.name === f.name) return 'group';
      return f.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_PRECEDING ? 'after' : 'before';
    });
    let where = await at();
    if (where === 'nowhere' && !key && await it.evaluate((e) => Boolean(e.closest('main')))) {
      await this.key('Tab'); // the link that skips to the content
      await this.key('Enter');
      where = await at();
    }
    for (let n = 0; where !== 'there'; n++) {
      await this.key(key ?? { after: 'Shift+Tab', group: 'ArrowDown' }[where] ?? 'Tab');
      where = await at();
      assert(n < 200 && where !== 'nowhere', `the keyboard does not reach ${it}`);
      assert.equal(await this.p.evaluate(outOfSight), '');
    }
  }

  async act(it, role) { if (role !== 'field') await this.key(['checkbox', 'radio'].includes(role) ? 'Space' : 'Enter'); }

  async choose(name, option, { key } = {}) {
    const it = await this.look('field', name, key);
    const chosen = () => it.evaluate((e) => e.selectedOptions[0].text);
    for (let before; await chosen() !== option; await this.key('ArrowDown')) {
      assert.notEqual(before, before = await chosen(), `${name} has no ${option}`);
    }
  }
}

const json = async (h, ...args) => JSON.parse(await h.run(...args, '-o', 'json'));
const show = (h, id) => json(h, 'requests', 'show', id);

// one returns a function that makes one waiting request.
const one = (scope) => async (h) => {
  const id = await h.ask('The fix needs it.', { scope });
  return { id, code: (await show(h, id)).match_code };
};
const granted = (r) => (assert(['approved', 'issued'].includes(r.state), `${r.id} is ${r.state}`), r);
const approved = async (h, { id }) => granted(await show(h, id));
const open = (me, { code }) => me.press('link', `Review ${code}`, { key: 'j' });
const approve = async (me, s) => {
  await open(me, s);
  await me.prove();
  await me.press('button', /^Approve: /, { key: 'a' });
};

// was is the cost of a task at commit 4071c26. hands is the bound of the actions (clicks, keys and scrolled screens): half of
// the actions in was. words is the bound of the words read: half of 432 words on the page of the request and about 90 in the
// queue. If was has no figure, the bound is the present cost. keys, the bound with a keyboard, is always the present cost.
const tasks = [
  { name: 'approve medium', was: '2 clicks, 2 screens, 432 words', hands: 2, keys: 8, words: 260, make: one('orders:acme/web:write'), steps: approve, done: approved },
  // hands keeps the 13 keys of each person, because high risk requires people to type the name of the target.
  { name: 'approve high, two people', was: '4 clicks, 26 keys, 4 screens, 864 words', hands: 32, keys: 40, words: 520, make: one('orders:acme/checkout:delete'), done: approved, steps: async (me, s, second) => {
    for (const who of [me, second]) {
      await open(who, s);
      await who.prove();
      await who.type('Type the name, acme/checkout', 'acme/checkout', { key: 'a', enter: true });
    }
  } },
  { name: 'narrow', was: '3 clicks, 20 keys in a scope, 2 screens, 432 words', hands: 12, keys: 30, words: 260, make: one('orders:shop/1:write orders:shop/2:write'), steps: async (me, s) => {
    await open(me, s);
    await me.prove();
    await me.press('summary', 'Approve narrower');
    await me.press('checkbox', 'Write to shop/2');
    await me.press('button', 'Approve narrower');
  }, done: async (h, s) => assert.equal((await approved(h, s)).granted_scope, 'orders:shop/1:write') },
  { name: 'deny', was: '4 clicks, 10 keys in a note, 2 screens, 432 words', hands: 8, keys: 12, words: 260, make: one('orders:bill/1:write'), steps: async (me, s) => {
    await open(me, s);
    await me.choose('Reason for denying', 'too broad: request less', { key: 'd' });
    await me.press('button', 'Deny');
  }, done: async (h, { id }) => {
    const { state, code } = await show(h, id);
    assert.deepEqual({ state, code }, { state: 'denied', code: 'too_broad' });
  } },
  { name: '20 alike of 20 tasks', was: '60 clicks, 52 screens, 8640 words', hands: 56, keys: 24, words: 4320, make: async (h) => {
    const ids = [];
    await Promise.all([1, 2, 3, 4].map(async (lane) => { for (let n = 0; n < 5; n++) ids.push(await h.ask('A page is wrong.', { scope: `orders:docs/${lane}${n}:write` })); }));
    return { ids };
  }, steps: async (me) => {
    await me.press('link', 'Review all 20 together');
    await me.prove();
    await me.press('button', /^Approve /, { key: 'a' });
  }, done: async (h, { ids }) => {
    const all = (await json(h, 'requests', 'list', '--all', '--limit', '0')).filter((r) => ids.includes(r.id));
    assert.equal(all.map(granted).length, 20);
  } },
  { name: 'approve from a phone', was: '2 taps, 4 screens, 432 words', phone: true, hands: 3, keys: 8, words: 260, make: one('orders:site/1:write'), steps: approve, done: approved },
  { name: 'credentials of a resource, proved', was: '3 clicks, 30 keys; no proof', who: 'operator', hands: 16, keys: 85, words: 450, make: async (h) => h.died, steps: async (me, s) => {
    await me.press('link', 'Credentials');
    await me.type('Resource', 'repo/x');
    await me.choose(/^Issued \(/, 'today');
    await me.press('button', 'Filter');
    s.row = await me.p.getByRole('row').nth(1).innerText();
    s.file = await me.download('Audit entries with proof');
  }, done: async (h, s) => {
    assert.match(s.row, /local-approver/);
    const entries = fs.readFileSync(s.file, 'utf8').trim().split('\n').map((l) => JSON.parse(l));
    const about = entries.filter((e) => e.request_id === s.request || e.lease_id === s.lease).map((e) => e.kind);
    assert.deepEqual(about, ['request.created', 'request.voted', 'request.approved', 'lease.issued', 'lease.revoked']);
    assert.match(await h.run('audit', 'verify', s.file), /PROVED/);
  } },
  { name: 'end a runaway task', was: '3 clicks, 10 keys of a reason', hands: 6, keys: 45, words: 260, make: async (h) => {
    const agent = await h.agent('owner-of-a-runaway@example.com');
    const { lease_id: lease } = await h.get(agent, 'orders:eu/1:read');
    for (const n of [1, 2, 3]) await h.ask('More.', { agent, scope: `orders:run/${n}:write` });
    while ((await json(h, 'task', 'show', agent.task)).state !== 'paused'); // ebb pauses the task: its agent asks too often
    return { id: agent.task, lease };
  }, steps: async (me) => {
    await me.press('summary', 'Deny all, or stop the task');
    await me.press('radio', /^suspicious: stop the task/);
    await me.press('button', 'Deny all 3');
  }, done: async (h, { id, lease }) => {
    const all = await json(h, 'leases', 'list', '--task', id);
    assert.deepEqual(all.map((l) => [l.id, l.state]), [[lease, 'revoked']]);
    assert.equal((await json(h, 'task', 'show', id)).state, 'closed');
  } },
  { name: 'policy change from a request', was: '5 clicks, and a policy typed', who: 'operator', at: ({ id }) => `/requests/${id}`, hands: 2, keys: 14, words: 260, make: async (h) => {
    const s = await one('orders:eu/7:write')(h);
    await h.run('requests', 'approve', s.id, '--yes');
    return s;
  }, steps: async (me, s) => {
    await me.press('button', 'Draft a policy rule');
    s.replay = await me.p.locator('main').innerText();
  }, done: async (h, s, { operator }) => {
    assert.match(operator.p.url(), /\/policy\/drafts\/pol_[0-9a-f]+\/replay/);
    assert.match(s.replay, /needed approval before: 1/);
  } },
  { name: 'learn that break-glass needs a key', was: '3 clicks, 30 keys of a reason', only: NoScript, who: 'second', hands: 1, make: () => ({}), steps: async (me, s) => {
    await me.press('link', 'Break-glass');
    await me.read();
    s.says = await me.p.locator('.note.warn').innerText();
  }, done: (h, s) => assert.match(s.says, /^You cannot start break-glass now: it needs a passkey/) },
  // The last task, because break-glass shows a banner on every page.
  { name: 'break-glass', was: 'not measured', hands: 46, keys: 95, words: 850, make: one('orders:prod/1:delete'), steps: async (me, s) => {
    await me.press('link', 'Break-glass');
    await me.type('Incident or ticket', 'INC-2077');
    await me.type('Why you cannot wait for another approver', 'Production is down.');
    await me.press('button', 'Continue');
    await me.prove();
    await me.press('button', 'Start break-glass');
    await me.press('link', /^Queue( \d+)?$/);
    await open(me, s);
    await me.type('Type the name, prod/1', 'prod/1', { role: 'alone', enter: true });
  }, done: async (h, s, { me, operator }) => {
    await approved(h, s);
    await me.p.getByRole('link', { name: 'Show details' }).click(); // in the banner, which stays until the review
    await me.p.getByRole('button', { name: 'End break-glass now' }).click();
    await me.p.getByText(/by (sso:ann|local-approver)/).first().waitFor();
    await operator.p.goto(me.p.url());
    await operator.p.getByLabel('Result of the review').fill('As planned.');
    await operator.p.getByRole('button', { name: 'Close the review' }).click();
    await operator.p.getByText('As planned.').waitFor();
  } },
];

// died makes a credential that a person approved, and revokes it.
async function died(h) {
  const id = await h.ask('The fix needs it.', { scope: 'orders:repo/x:write' });
  const agent = h.asking.at(-1);
  await h.run('requests', 'approve', id, '--yes');
  if (agent.exitCode === null) await once(agent, 'exit');
  const [{ id: lease }] = await json(h, 'leases', 'list', '--task', (await show(h, id)).task_id);
  await h.run('leases', 'revoke', lease, '--reason', 'It leaked.');
  return { lease, request: id };
}

// peopleOf signs in two approvers and an operator, who is an auditor, too.
async function peopleOf(h, Hand) {
  const off = Hand === NoScript ? { javaScriptEnabled: false } : {};
  const page = async (c) => ({ c, p: await c.newPage() });
  const ann = await page(await h.sso('ann', 'secret', off));
  if (Hand !== NoScript) await h.stronger(ann.p, h.waits, 'ann');
  const operator = await page(await h.context('operator', off));
  if (Hand === NoScript) return { me: ann, second: await page(await h.context('approver', off)), operator };
  const me = await person({ url: h.url, context: () => h.context(), link: () => h.link('approver') }, 'local-approver');
  await me.signIn(); // break-glass accepts only a passkey that is older than the session
  return { me, second: ann, operator };
}

// measure does a task as these people, checks its outcome, and compares its cost with the bounds.
async function measure(h, t, Hand, people) {
  const s = await t.make(h);
  const [me, second] = [people[t.who ?? 'me'].p, people.second.p].map((p) => new Hand(p, h));
  for (const who of [me, second]) {
    await who.p.emulateMedia({ reducedMotion: 'reduce' });
    await who.p.setViewportSize(t.phone ? { width: 390, height: 844 } : { width: 1280, height: 800 });
    await who.p.goto(h.url + (t.at?.(s) ?? '/queue'));
  }
  const began = Date.now();
  await t.steps(me, s, second);
  const seconds = (Date.now() - began) / 1000;
  await t.done(h, s, people);
  const [clicks, keys, scrolls, words] = Object.keys(me.cost).map((what) => me.cost[what] + second.cost[what]);
  const hands = clicks + keys + scrolls;
  const most = Hand === Keyboard ? t.keys : t.hands + (Hand === NoScript ? 1 : 0); // NoScript: one more for the sign-in at the identity provider
  const wrong = [hands > most && `${hands} actions, not ${most}`, Hand === Mouse && words > t.words && `${words} words, not ${t.words}`];
  return { says: `${Hand.name}: ${clicks} clicks, ${keys} keys, ${scrolls} screens, ${words} words, ${seconds.toFixed(1)} s`, over: wrong.filter(Boolean).join(' and ') };
}

async function stopwatch(site) {
  const h = await Served.start(site.ebb, site.browser);
  const wrong = [];
  const table = new Map(tasks.map((t) => [t, [t.name.padEnd(34), t.was.padEnd(52)]]));
  try {
    const config = JSON.parse(fs.readFileSync(h.at('ebb.yaml'), 'utf8'));
    config.console.break_glass = { people: ['local-approver', 'sso:ann'] };
    await h.stop();
    await h.serve({ ...config, limits: { asks: 2 } });
    h.waits = await h.ask('A row is wrong.', { scope: 'orders:eu/9:delete' }); // others wait, too
    await h.ask('A row is missing.', { scope: 'orders:eu/9:write' });
    h.died = await died(h);
    for (const Hand of [NoScript, Mouse, Keyboard]) { // without JavaScript first: the approver has no passkey yet
      const people = await peopleOf(h, Hand);
      for (const t of tasks.filter((t) => !t.only || t.only === Hand)) {
        try {
          const { says, over } = await measure(h, t, Hand, people);
          table.get(t).push(says.padEnd(58));
          assert.equal(over, '');
        } catch (e) {
          wrong.push(`${t.name}, ${Hand.name}: ${e.message}`);
        }
      }
      for (const { c } of Object.values(people)) await c.close();
    }
  } finally {
    await h.end();
  }
  for (const row of table.values()) console.log(`      ${row.join(' | ')}`);
  assert.deepEqual(wrong, []);
  assert.equal(h.proofs, 2, 'sign-ins of the person without JavaScript: one within 10 minutes, and one for break-glass');
  return `${tasks.length} tasks with a mouse, with a keyboard alone, and without JavaScript`;
}

export const checks = [['tasks of people', stopwatch]];
