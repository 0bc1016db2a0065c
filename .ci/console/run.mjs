// The console in Chromium: README.md. usage: node run.mjs EBB [OUT]
import fs from 'node:fs';
import path from 'node:path';
import { House, views } from './house.mjs';
import { pages } from './pages.mjs';
import { every } from './every.mjs';
import { checks } from './checks.mjs';

const [ebb, out] = process.argv.slice(2);
const house = await House.start(ebb);
const wrong = [];
let looked = 0;
try {
  const people = new Map();
  for (const p of pages) if (!people.has(p.who)) people.set(p.who, await house.context(p.who));
  for (const { name, who, path: where, status = name === 'error' ? 404 : 200 } of pages) {
    const context = people.get(who);
    const page = await context.newPage();
    const at = typeof where === 'function' ? await where(page, house.url) : where;
    for (const v of views) {
      await page.setViewportSize(v);
      await page.emulateMedia({ colorScheme: v.scheme });
      const answer = await page.goto(house.url + at);
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
  for (const [who, context] of people) {
    // The browser itself reports the status of the page that is an error.
    wrong.push(...context.faults.filter((f) => !f.includes('status of 404')).map((f) => `${who}: ${f}`));
    await context.close();
  }
  for (const [name, check] of checks) {
    try {
      await check(house);
      console.log(`ok    ${name}`);
    } catch (e) {
      wrong.push(`${name}: ${e.message}`);
    }
  }
} finally {
  await house.end();
}
for (const w of wrong) console.error(`WRONG ${w}`);
console.log(`${pages.length} pages, ${looked} views, ${checks.length} checks, ${wrong.length} wrong`);
process.exit(wrong.length ? 1 : 0);
