// Checks that must hold on every page in every view. Each returns a list of defects.
import assert from 'node:assert/strict';
import path from 'node:path';
import { AxeBuilder } from '@axe-core/playwright';
import { views } from './site.mjs';

const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

// 35: axe finds nothing.
async function axe(page) {
  const { violations } = await new AxeBuilder({ page }).withTags(tags).analyze();
  return violations.map((v) => `axe ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.target.join(' ')).join(', ')}`);
}

// 36: no sideways scroll, no control too small, nothing sticky over what has the focus.
function geometry(page) {
  return page.evaluate(() => {
    const wrong = [];
    const root = document.documentElement;
    if (root.scrollWidth > root.clientWidth) wrong.push(`the page scrolls sideways: ${root.scrollWidth} > ${root.clientWidth}`);
    const nav = document.querySelector('.top nav')?.getBoundingClientRect().height;
    if (!nav && document.querySelector('form.who')) wrong.push('there is no navigation');
    if (nav > 48) wrong.push(`the navigation wraps: it is ${nav} px high`);
    for (const e of document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')) {
      // A person can also press the label of a checkbox.
      const b = (['checkbox', 'radio'].includes(e.type) && e.labels?.[0] || e).getBoundingClientRect();
      if (b.width === 0 || e.closest('.skip')) continue;
      const label = (e.textContent || e.name || e.id).trim().slice(0, 40);
      const decides = e.closest('.decide form') && e.tagName === 'BUTTON';
      if (decides && b.height < 44) wrong.push(`a decision is ${b.height} px high: ${label}`);
      // A link inside a sentence may be as high as its line (WCAG 2.5.8, exception "inline").
      const inline = e.tagName === 'A' && getComputedStyle(e).display === 'inline';
      if (!inline && (b.height < 24 || b.width < 24)) wrong.push(`a control is ${Math.round(b.width)}x${Math.round(b.height)}: ${label}`);
      if (b.right > root.clientWidth + 1 && !e.closest('[tabindex="0"]')) wrong.push(`a control ends beyond the view: ${label}`);
    }
    for (const e of document.querySelectorAll('.name, .facts td, .facts dd')) {
      const s = getComputedStyle(e);
      if (s.textOverflow === 'ellipsis' || e.scrollWidth > e.clientWidth + 1 && s.display !== 'inline') wrong.push(`a name is cut: ${e.textContent.trim().slice(0, 40)}`);
      if (e.getBoundingClientRect().right > root.clientWidth + 1 && !e.closest('[tabindex="0"]')) wrong.push(`a fact ends beyond the view: ${e.textContent.trim().slice(0, 40)}`);
    }
    return wrong;
  });
}

// 7, 8, 10: no text of an agent is invisible or becomes markup.
async function agentText(page) {
  const wrong = [];
  const content = await page.content();
  const hidden = content.match(/[\p{Cf}\p{Co}\p{Cn}]|(?![\n\t\r])\p{Cc}/gu);
  if (hidden) wrong.push(`characters that nobody sees: ${[...new Set(hidden)].map((c) => 'U+' + c.codePointAt(0).toString(16)).join(' ')}`);
  if (content.includes('UNRENDERED-UNTRUSTED')) wrong.push('agent text was printed by mistake');
  wrong.push(...await page.evaluate(() => [...document.querySelectorAll('.agent .text *')].filter((e) => e.tagName !== 'SPAN' || [...e.attributes].some((a) => !['class', 'title'].includes(a.name)))
    .map((e) => `the agent box holds ${e.outerHTML.slice(0, 60)}`)));
  return wrong;
}

// In a wide window no table breaks a word across lines. Thumbprints of keys may break, because they have no spaces.
function words(page) {
  return page.evaluate(() => {
    const wrong = [];
    if (innerWidth < 1280) return wrong;
    for (const cell of document.querySelectorAll('main td, main th')) {
      const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
      while (texts.nextNode()) {
        const text = texts.currentNode;
        if (text.parentElement.closest('.unseen')) continue;
        const content = text.textContent.replace(/[\w-]{40,}/g, (thumbprint) => ' '.repeat(thumbprint.length));
        for (const word of content.matchAll(/\p{L}{2,20}/gu)) {
          const range = document.createRange();
          range.setStart(text, word.index);
          range.setEnd(text, word.index + word[0].length);
          if (new Set([...range.getClientRects()].filter((b) => b.width > 0).map((b) => Math.round(b.top))).size > 1) wrong.push(`a word is broken: ${word[0]} in ${text.textContent.trim().slice(0, 60)}`);
        }
      }
    }
    return wrong;
  });
}

// One h1, landmarks, a title of ours.
function outline(page) {
  return page.evaluate(() => {
    const wrong = [];
    if (document.querySelectorAll('h1').length !== 1) wrong.push(`${document.querySelectorAll('h1').length} h1`);
    if (!document.querySelector('main')) wrong.push('no main');
    if (document.querySelector('[style], script:not([src])')) wrong.push('something is inline');
    if (document.querySelector('main')?.textContent.includes('missing or differs')) wrong.push('the audit log of the demonstration lacks an entry');
    return wrong;
  });
}

export async function every(page) {
  return [...await axe(page), ...await geometry(page), ...await agentText(page), ...await outline(page), ...await words(page)];
}

// look asserts the properties of the open page in every view.
export async function look(page, name) {
  const out = process.argv[3];
  const at = page.url();
  for (const v of views) {
    await page.setViewportSize(v);
    await page.emulateMedia({ colorScheme: v.scheme, forcedColors: v.forced ?? null });
    await page.goto(at);
    assert.deepEqual(await every(page), [], `${name} ${v.name}`);
    if (out) await page.screenshot({ path: path.join(out, `${name}-${v.name}.png`), fullPage: true });
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}
