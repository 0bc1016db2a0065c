// The console in Chromium: README.md. usage: node run.mjs EBB [OUT]
import fs from 'node:fs';
import path from 'node:path';
import { Site, views } from './site.mjs';
import { pages } from './pages.mjs';
import { every } from './every.mjs';
import { checks } from './checks.mjs';
import { checks as glass } from './breakglass.mjs';
import { Served } from './serve.mjs';
import * as facts from './facts.mjs';
import * as deciding from './deciding.mjs';
import * as auditing from './auditing.mjs';
import * as following from './following.mjs';
import * as push from './push.mjs';
import * as tasks from './tasks.mjs';

const [ebb, out] = process.argv.slice(2);
const site = await Site.start(ebb);
const wrong = [];
const ran = new Set();
let looked = 0;
// run does checks one after the other; each says what it measured.
async function run(site, all) {
  for (const [name, check] of all) {
    ran.add(name);
    try {
      const said = await check(site);
      console.log(`ok    ${name}${said ? `: ${said}` : ''}`);
    } catch (e) {
      wrong.push(`${name}: ${e.message}`);
    }
  }
}
// lookAt checks one page in every view.
async function lookAt(context, { name, path: where, status = name === 'error' ? 404 : 200 }) {
  const page = await context.newPage();
  const at = typeof where === 'function' ? await where(page, site.url) : where;
  for (const v of views) {
    await page.setViewportSize(v);
    await page.emulateMedia({ colorScheme: v.scheme, forcedColors: v.forced ?? null });
    const answer = await page.goto(site.url + at);
    if (answer.status() !== status) wrong.push(`${name}: ${answer.status()}`);
    for (const w of await every(page)) wrong.push(`${name} ${v.name}: ${w}`);
    looked++;
    if (out) {
      fs.mkdirSync(out, { recursive: true });
      await page.screenshot({ path: path.join(out, `${name}-${v.name}.png`), fullPage: true });
    }
  }
  await page.close();
}
try {
  const people = new Map();
  for (const p of pages) if (!people.has(p.who)) people.set(p.who, await site.context(p.who));
  // Two pages at a time: the checks of axe take most of the time, and those of a page use one core.
  const waiting = [...pages];
  const some = async () => {
    for (let p; (p = waiting.shift());) await lookAt(people.get(p.who), p);
  };
  await Promise.all([some(), some()]);
  for (const [who, context] of people) {
    // The browser itself reports the status of the page that is an error.
    wrong.push(...context.faults.filter((f) => !f.includes('status of 404')).map((f) => `${who}: ${f}`));
    await context.close();
  }
  ran.add('every page');
  console.log(`ok    2, 7, 8, 10, 35, 36: ${looked} views of ${pages.length} pages`);
  await run(site, checks);
  await run(site, glass); // last: it changes what every page says
  const served = await Served.start(ebb, site.browser);
  try {
    await served.asks(facts.reasons);
    await auditing.issue(served);
    for (const { checks: more } of [facts, deciding, auditing, following, push]) await run(served, more);
  } finally {
    await served.end();
  }
  await run(site, tasks.checks);
} finally {
  await site.end();
}
// Each number of the acceptance list is shown here or by a Go test; that those are there is TestEveryCheckIsShown's to see.
const shown = JSON.parse(fs.readFileSync(path.join(import.meta.dirname, 'shown.json'), 'utf8'));
for (let n = 1; n <= 40; n++) {
  const by = shown[n];
  if (!by?.chromium?.length && !by?.go?.length) wrong.push(`nothing shows check ${n}`);
  for (const name of by?.chromium ?? []) if (!ran.has(name)) wrong.push(`check ${n}: "${name}" did not run`);
  if (by?.go) console.log(`      ${n} also: ${by.go.join(', ')}`);
}
for (const w of wrong) console.error(`WRONG ${w}`);
console.log(`${pages.length} pages, ${looked} views, ${ran.size} checks, ${wrong.length} wrong`);
process.exit(wrong.length ? 1 : 0);
