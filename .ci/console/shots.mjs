// The pictures of the README, of the day that `ebb demo --console` makes. usage: node shots.mjs EBB FOLDER
import path from 'node:path';
import { Site } from './site.mjs';
import { first } from './pages.mjs';

const [ebb, folder] = process.argv.slice(2);
const site = await Site.start(ebb);
try {
  for (const { name, who, where, scheme = 'light', height = 800 } of [
    { name: 'queue', who: 'mia', where: '/queue', height: 420 },
    { name: 'request', who: 'mia', where: first('/queue', /^\/requests\/req_/), height: 860 },
    { name: 'credentials', who: 'eve', where: '/credentials', scheme: 'dark' },
  ]) {
    const c = await site.context(who, { viewport: { width: 1280, height }, colorScheme: scheme });
    const page = await c.newPage();
    await page.goto(site.url + (typeof where === 'function' ? await where(page, site.url) : where));
    await page.waitForTimeout(1500);
    await page.screenshot({ path: path.join(folder, `${name}.png`) });
    await c.close();
  }
} finally {
  await site.end();
}
