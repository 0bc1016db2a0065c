// Checks 1, 4, 9, 11 and 16: facts come before words, and words move nothing.
import assert from 'node:assert/strict';

const widths = [[1280, 800], [390, 844], [320, 640]];

// A word that no page of ebb's has.
const canary = 'zebrafinch';
const long = `${canary} `.repeat(200).slice(0, 1999) + '.';

// Texts that agents write for these checks, by name.
export const reasons = {
  plain: `I need to push the fix, says the ${canary}.`,
  long, empty: '',
  newlines: `${canary}${'\n'.repeat(298)}${canary}\n`,
  bidi: `${canary} begins.\u202e`,
  bidiOn: `${canary} begins.\u202e ${'siht secalp '.repeat(8)}\u2067 dna taht`,
};

async function visit(h, options) {
  const c = await h.context('approver', options);
  return { c, p: await c.newPage(), at: (name) => `${h.url}/requests/${h.requested[name]}` };
}

async function factsFirst(h) {
  const { c, p, at } = await visit(h);
  const gaps = [];
  const ends = [];
  for (const [width, height] of widths) {
    await p.setViewportSize({ width, height });
    for (const name of ['plain', 'long', 'newlines', 'empty']) {
      await p.goto(at(name));
      const m = await p.evaluate(() => {
        const bottom = (s) => Math.max(...[...document.querySelectorAll(s)].filter((e) => e.checkVisibility({ contentVisibilityAuto: true })).map((e) => e.getBoundingClientRect().bottom));
        const forms = [...document.querySelectorAll('.decide, .decide *')];
        const right = (s) => Math.max(...[...document.querySelectorAll(s)].map((e) => e.getBoundingClientRect().right));
        const last = [...document.querySelectorAll('.decide button, .decide summary')].filter((e) => e.checkVisibility());
        return { facts: bottom('table.facts, dl.pairs'), agent: bottom('.agent'), right: right('table.facts, dl.pairs, .agent'), left: document.querySelector('.decide').getBoundingClientRect().left, end: Math.max(...last.map((e) => e.getBoundingClientRect().bottom)), top: bottom('section[aria-label="Changes if the request is approved"]'), form: document.querySelector('.decide form').getBoundingClientRect().top, forms: document.querySelectorAll('.decide form').length, positions: [...new Set(forms.map((e) => getComputedStyle(e).position))] };
      });
      assert.equal(m.forms, 3);
      // Beside the facts where there is room, so that facts and decisions are in view together; below them otherwise.
      const beside = width >= 1100;
      assert(beside ? m.left >= m.right : m.form >= m.facts && m.form >= m.agent, `${name} at ${width}: ${JSON.stringify(m)}`);
      if (beside) assert(m.end <= height && m.top <= height, `${name} at ${width}x${height}: a decision ends at ${m.end}, the changes at ${m.top}`);
      // Only elements for screen readers are positioned outside the flow.
      assert.deepEqual(m.positions.filter((x) => x !== 'static' && x !== 'absolute'), [], `${name} at ${width}`);
      if (beside) ends.push(Math.round(m.end));
      else gaps.push(Math.round(m.form - m.agent));
    }
  }
  await c.close();
  return `beside the facts all decisions end at ${Math.max(...ends)} px at most; below them forms begin ${Math.min(...gaps)} to ${Math.max(...gaps)} px below the agent's box`;
}

// deciding measures the page up to the end of the decision: its height, and the words in view
// without the agent's text.
const deciding = () => {
  const end = document.querySelector('.decide');
  const seen = (e) => (e.tagName === 'OPTION' ? e.selected && seen(e.parentElement) : e.checkVisibility({ contentVisibilityAuto: true }) && !e.closest('.unseen, .agent'));
  let text = '';
  const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    if (!end.contains(n) && end.compareDocumentPosition(n) & Node.DOCUMENT_POSITION_FOLLOWING) break;
    if (seen(n.parentElement)) text += (n.previousSibling?.nodeName === 'WBR' ? '' : ' ') + n.data;
  }
  return { height: end.getBoundingClientRect().bottom + scrollY, words: text.split(/\s+/).filter((w) => /[\p{L}\p{N}]/u.test(w)) };
};

// A person decides on one and a half screens of a phone and 80 words.
export async function brief(p, url) {
  await p.setViewportSize({ width: 390, height: 844 });
  await p.goto(url);
  const { height, words } = await p.evaluate(deciding);
  assert(height <= 1.5 * 844, `${url}: the decision ends at ${height} px`);
  assert(words.length <= 80, `${url}: ${words.length} words: ${words.join(' ')}`);
  return { height: Math.round(height), words: words.length };
}

async function briefly(h) {
  const { c, p, at } = await visit(h);
  const high = await h.ask('of high risk', { scope: 'orders:eu/1:delete' });
  const all = [];
  for (const url of [...Object.keys(reasons).map(at), `${h.url}/requests/${high}`]) all.push(await brief(p, url));
  await c.close();
  return `at 390x844 at most ${Math.max(...all.map((m) => m.height))} px and ${Math.max(...all.map((m) => m.words))} words`;
}

async function padding(h) {
  const { c, p, at } = await visit(h);
  const said = [];
  for (const [width, height] of widths) {
    await p.setViewportSize({ width, height });
    const tops = [];
    for (const name of ['long', 'newlines', 'empty']) {
      await p.goto(at(name));
      tops.push(await p.evaluate(() => document.querySelector('.decide form').getBoundingClientRect().top + scrollY));
    }
    const apart = Math.max(...tops) - Math.min(...tops);
    assert(apart <= 200, `at ${width} the form is at ${tops}`);
    said.push(`${Math.round(apart)} px at ${width}`);
  }
  await c.close();
  return said.join(', ');
}

// boxes of everything but the agent's box and what differs from request to request: words, ids.
const boxes = () => [...document.querySelectorAll('header, nav, main > *, main section, main form, main fieldset, main table, main tr, main button, main textarea, main h1, main h2, footer')]
  .filter((e) => !e.closest('.agent') && !e.querySelector('.agent') && !e.closest('.crumbs'))
  .map((e) => { const b = e.getBoundingClientRect(); return `${e.tagName}.${e.className} ${b.x.toFixed(1)} ${b.y.toFixed(1)} ${b.width.toFixed(1)} ${b.height.toFixed(1)}`; });

async function bidi(h) {
  const { c, p, at } = await visit(h);
  await p.goto(at('bidi'));
  assert.match(await p.locator('.agent .text').innerText(), /U\+202E/);
  const without = await p.evaluate(boxes);
  await p.goto(at('bidiOn'));
  const text = await p.locator('.agent .text').innerText();
  assert.match(text, /U\+202E.*U\+2067/s);
  const withText = await p.evaluate(boxes);
  // The box itself may be higher by the lines of the text. All elements below it move down by
  // the same distance, and not sideways.
  const parse = (l) => { const [name, x, y, w, hi] = l.split(' '); return { name, x, y: Number(y), w, hi }; };
  assert.equal(withText.length, without.length);
  const moved = new Set();
  for (const [i, l] of without.entries()) {
    const a = parse(l);
    const b = parse(withText[i]);
    assert.deepEqual([b.name, b.x, b.w, b.hi], [a.name, a.x, a.w, a.hi]);
    moved.add((b.y - a.y).toFixed(1));
  }
  assert(moved.size <= 2, `moved by ${[...moved]}`);
  // Were the characters themselves in the page, the box would still hold them.
  const before = await p.evaluate(boxes);
  await p.evaluate(() => {
    const t = document.querySelector('.agent .text');
    t.textContent = t.textContent.replace('begins.', 'begin.\u202e');
  });
  assert.deepEqual(await p.evaluate(boxes), before);
  await c.close();
  return `${without.length} boxes, none moved sideways or changed its size; all below by ${[...moved].join(' or ')} px`;
}

async function names(h) {
  const { c, p, at } = await visit(h);
  let looked = 0;
  for (const name of Object.keys(h.requested)) {
    await p.goto(at(name));
    assert.equal(await p.getByRole('region', { name: /^Agent text, not checked/ }).count(), 1, name);
  }
  for (const name of ['plain', 'long', 'newlines', 'bidi', 'bidiOn']) {
    for (const where of [at(name), `${h.url}/queue`, `${h.url}/queue?view=all`]) {
      await p.goto(where);
      const m = await p.evaluate((word) => {
        const wrong = [];
        if (document.title.includes(word)) wrong.push('the title of the document');
        let n = 0;
        for (const e of document.querySelectorAll('*')) {
          n++;
          for (const a of e.attributes) if (a.value.includes(word)) wrong.push(`${e.tagName} ${a.name}`);
          if (!e.closest('.agent') && [...e.childNodes].some((t) => t.nodeType === 3 && t.data.includes(word))) wrong.push(e.tagName);
          if (e.matches('h1, h2, h3, h4, button, a, summary, label, legend') && e.textContent.includes(word)) wrong.push(`${e.tagName} in the box`);
        }
        return { wrong, n };
      }, canary);
      assert.deepEqual(m.wrong, [], where);
      looked += m.n;
    }
  }
  await c.close();
  return `${looked} elements, and the box is named on ${Object.keys(h.requested).length} pages`;
}

async function whatIsMissing(h) {
  const { c, p, at } = await visit(h);
  await p.goto(at('plain'));
  const deny = async () => {
    const [answer] = await Promise.all([p.waitForResponse((r) => r.request().method() === 'POST'), p.getByRole('button', { name: 'Deny', exact: true }).click()]);
    await p.waitForLoadState();
    return answer.status();
  };
  const focused = () => p.evaluate(() => {
    const e = document.activeElement;
    const named = (e.getAttribute('aria-describedby') ?? e.closest('fieldset')?.getAttribute('aria-describedby') ?? '').split(' ');
    const problem = named.map((id) => document.getElementById(id)).find((d) => d?.classList.contains('problem'));
    return { name: e.name, invalid: e.getAttribute('aria-invalid'), problem: problem?.textContent, seen: problem?.checkVisibility() };
  });
  assert.equal(await deny(), 422);
  const first = await focused();
  assert.equal(first.name, 'code');
  assert(first.problem && first.seen, JSON.stringify(first));
  await c.close();
  return `422; the focus is on the reason ("${first.problem}")`;
}

export const checks = [['1 facts first', factsFirst], ['a short page', briefly], ['4 padding', padding], ['9 bidi', bidi], ['11 names', names], ['16 what is missing', whatIsMissing]];
