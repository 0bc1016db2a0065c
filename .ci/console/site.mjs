// An ebb with a day of work in it, and browsers of its people.
import { spawn } from 'node:child_process';
import readline from 'node:readline';
import { chromium } from 'playwright-core';

export const views = [[1280, 800], [390, 844]].flatMap(([width, height]) =>
  ['light', 'dark'].map((scheme) => ({ width, height, scheme, name: `${width}-${scheme}` })));
views.push({ width: 320, height: 640, scheme: 'light', name: '320-light' });
views.push({ width: 640, height: 400, scheme: 'light', name: '1280-zoom-200' }); // a window of 1280x800 at 200 %
views.push({ width: 1280, height: 800, scheme: 'dark', forced: 'active', name: '1280-forced-colors' });

export class Site {
  // start runs `ebb demo --console` until end.
  static async start(ebb) {
    const h = new Site();
    h.ebb = ebb;
    h.process = spawn(ebb, ['demo', '--console'], { stdio: ['pipe', 'pipe', 'inherit'] });
    h.lines = readline.createInterface({ input: h.process.stdout });
    h.waiting = [];
    h.links = new Map();
    h.lines.on('line', (line) => {
      const found = line.match(/^\s+(\w+)\s.*(http:\/\/\S+)$/);
      if (found) h.links.set(found[1], found[2]);
      if (line.startsWith('Press Enter')) h.waiting.splice(0).forEach((go) => go());
    });
    h.process.on('exit', (code) => { h.exited = code; h.waiting.splice(0).forEach((go) => go()); });
    await h.printed();
    if (h.links.size === 0) throw new Error('ebb demo --console made no links');
    h.url = new URL(h.links.values().next().value).origin;
    h.browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox'] });
    return h;
  }

  printed() { return this.exited !== undefined ? Promise.resolve() : new Promise((go) => this.waiting.push(go)); }

  // link returns an unused sign-in link of who.
  async link(who) {
    if (!this.links.has(who)) {
      const printed = this.printed();
      this.process.stdin.write('\n');
      await printed;
    }
    const link = this.links.get(who);
    this.links.delete(who);
    if (!link) throw new Error(`no link for ${who}`);
    return link;
  }

  // context returns a browser context in which who has signed in; without who, no person has.
  async context(who, options = {}) {
    const c = await this.browser.newContext({ viewport: { width: 1280, height: 800 }, timezoneId: 'Europe/Berlin', locale: 'en-GB', ...options });
    c.faults = [];
    c.on('page', (page) => {
      page.on('console', (m) => { if (m.type() === 'error' || /Content Security|Trusted/i.test(m.text())) c.faults.push(`${page.url()}: ${m.text()}`); });
      page.on('pageerror', (e) => c.faults.push(`${page.url()}: ${e.message}`));
    });
    if (who) {
      const p = await c.newPage();
      await p.goto(await this.link(who));
      await p.getByRole('button', { name: 'Sign in' }).click();
      await p.waitForURL('**/queue');
      await p.close();
    }
    return c;
  }

  async end() {
    await this.browser?.close();
    this.process.kill('SIGINT');
    await new Promise((go) => (this.exited !== undefined ? go() : this.process.on('exit', go)));
    if (this.exited) throw new Error(`ebb demo --console ended with ${this.exited}`);
  }
}
