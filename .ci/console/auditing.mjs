// Checks 12, 29, 31, 32 and 33: lists, files, secrets, and a provider that hangs.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import zlib from 'node:zlib';

// Owner names that a spreadsheet would run as formulas if a cell contained them; ebb allows
// such names.
const formulas = ['=1+1', '+1+1', '-1+1', '@SUM(1)', '=HYPERLINK("http://evil.test","x")', "'=1+1", "=cmd|' /C calc'!A0", 'a,=1+1', 'a"=1+1'];

// issue fills the lists: 60 credentials of one task, and one each of such owners.
export async function issue(h) {
  const agent = await h.agent('lists@example.com');
  h.listed = agent.task;
  const left = [...Array(60).keys(), ...formulas];
  await Promise.all([1, 2, 3].map(async () => {
    for (let n = left.shift(); n !== undefined; n = left.shift()) {
      await h.get(typeof n === 'number' ? agent : await h.agent(n), `orders:eu/${n === +n ? n : 1}:read`);
    }
  }));
}

const auditor = (h, options) => h.context('operator', options);

// parse reads RFC 4180.
function parse(text) {
  const rows = [[]];
  let cell = '';
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const ch = text[i];
    if (quoted) {
      if (ch !== '"') cell += ch;
      else if (text[i + 1] === '"') { cell += '"'; i++; } else quoted = false;
    } else if (ch === '"') quoted = true;
    else if (ch === ',' || ch === '\n') {
      rows.at(-1).push(cell.replace(/\r$/, ''));
      cell = '';
      if (ch === '\n') rows.push([]);
    } else cell += ch;
  }
  assert.deepEqual(rows.pop(), [], 'the file ends without a line end');
  return rows;
}

// cells are what the file's cells are in a spreadsheet program (Gnumeric): formulas have no type there.
function cells(csv) {
  const out = csv.replace(/\.csv$/, '.gnumeric');
  execFileSync('ssconvert', ['--import-type=Gnumeric_stf:stf_csvtab', '--export-type=Gnumeric_XmlIO:sax', csv, out], { stdio: 'ignore', env: { ...process.env, LC_ALL: 'C.UTF-8' } });
  const raw = fs.readFileSync(out);
  const xml = (raw[0] === 0x1f ? zlib.gunzipSync(raw) : raw).toString();
  const all = [...xml.matchAll(/<gnm:Cell ([^>]*?)(\/>|>([^<]*)<\/gnm:Cell>)/g)];
  return { all: all.length, formulas: all.filter((m) => !/ValueType=/.test(m[1])).map((m) => m[3]) };
}

async function download(p, name) {
  const [file] = await Promise.all([p.waitForEvent('download'), p.getByRole('link', { name, exact: true }).click()]);
  return fs.readFileSync(await file.path(), 'utf8');
}

async function files(h) {
  const c = await auditor(h, { acceptDownloads: true });
  const p = await c.newPage();
  await p.goto(`${h.url}/credentials`);
  const csv = await download(p, 'CSV');
  const rows = parse(csv);
  const bad = rows.flat().filter((cell) => /^[=+\-@\t\r]/.test(cell));
  assert.deepEqual(bad, []);
  assert(rows.length > 60 + formulas.length, `${rows.length} rows`);
  // A spreadsheet finds no formula in it, and does find those of a file that is not written with care.
  h.file('ours.csv', csv);
  h.file('control.csv', formulas.slice(0, 2).join('\n') + '\n');
  const ours = cells(h.at('ours.csv'));
  assert.deepEqual(ours.formulas, []);
  assert(ours.all > rows.length * 10, `${ours.all} cells`);
  const control = cells(h.at('control.csv')).formulas;
  assert(control.length > 0, 'the spreadsheet runs nothing at all: it proves nothing');
  const jsonl = await download(p, 'JSONL');
  assert.match(jsonl, /^[\x20-\x7e\n]*$/);
  const owners = new Set(jsonl.trimEnd().split('\n').map((l) => JSON.parse(l).owner));
  assert.deepEqual(formulas.filter((f) => !owners.has(f)), []);
  await c.close();
  return `${rows.flat().length} cells as text, ${ours.all} in a spreadsheet, ${ours.formulas.length} formulas (${control.length} in a careless file); ${jsonl.length} bytes of ASCII say the same`;
}

const ids = (p) => p.locator('table.list tbody a[href*="/credentials/lse_"]').evaluateAll((all) => all.map((a) => a.pathname));

async function shared(h) {
  const c = await auditor(h);
  const p = await c.newPage();
  await p.goto(`${h.url}/tasks/${h.listed}`);
  await p.goto(`${h.url}/credentials`);
  await p.locator('main form[method=get] input[name=task]').fill(h.listed);
  await p.locator('main form[method=get] select[name=sort]').selectOption('oldest');
  await p.getByRole('button', { name: 'Filter' }).click();
  await p.waitForURL('**sort=oldest**');
  const first = await ids(p);
  await p.getByRole('link', { name: 'Newer' }).click();
  await p.waitForURL('**after=**');
  const second = await ids(p);
  assert.equal(first.length + second.length, 60);
  const other = await auditor(h);
  const q = await other.newPage();
  await q.goto(p.url());
  assert.deepEqual(await ids(q), second);
  await other.close();
  await c.close();
  return `the second page, ${second.length} rows, is the same in another browser`;
}

async function exported(h) {
  const c = await auditor(h, { acceptDownloads: true });
  const p = await c.newPage();
  const at = `/credentials?sort=oldest&task=${h.listed}`;
  await p.goto(h.url + at);
  const listed = await ids(p);
  const rows = parse(await download(p, 'CSV'));
  await p.getByRole('link', { name: 'Newer' }).click();
  await p.waitForURL('**after=**');
  listed.push(...await ids(p));
  assert.deepEqual(rows.slice(1).map((r) => `/credentials/${r[0]}`), listed);
  await p.goto(`${h.url}/audit?kind=record.exported`);
  await p.locator('table.list tbody a').first().click();
  await p.waitForURL('**/audit/*/*');
  const said = await p.locator('main').innerText();
  for (const want of [h.listed, 'oldest', '60', 'csv']) assert(said.includes(want), `the record does not say ${want}: ${said}`);
  await c.close();
  return `${listed.length} rows, in the order of the pages; the record says the filter and how many`;
}

// secrets checks that no page or download that a person can open contains a secret.
async function secrets(h) {
  await h.get(await h.agent('secrets@example.com', 'partner:**:*'), 'partner:files:read');
  const encodings = (s) => [s, encodeURIComponent(s), Buffer.from(s).toString('base64').replace(/=+$/, ''), Buffer.from(s).toString('base64url'), Buffer.from(s).toString('hex')];
  let bytes = 0;
  let answers = 0;
  let comments = 0;
  const found = [];
  for (const who of ['operator', 'approver']) {
    const c = await h.context(who);
    const cookies = (await c.cookies()).filter((k) => k.httpOnly).map((k) => k.value);
    const wanted = [...h.secrets, ...cookies].flatMap(encodings);
    const look = (at, text) => {
      bytes += text.length;
      answers++;
      comments += (text.match(/<!--/g) ?? []).length;
      for (const s of wanted) if (text.includes(s)) found.push(`${at} holds ${s.slice(0, 8)}...`);
    };
    // Read by a script of a page of the console: as bytes, with comments and all.
    const p = await c.newPage();
    await p.goto(`${h.url}/queue`);
    const seen = new Set(['/signin', '/nowhere', '/audit/check', '/credentials.csv', '/credentials.jsonl', '/audit.csv', '/audit.jsonl']);
    const left = ['/queue', '/queue?view=all', '/tasks', '/credentials', '/audit', '/audit/chains', '/insights', '/insights?window=30d', '/settings', ...seen];
    const kinds = new Map();
    while (left.length > 0) {
      const at = left.shift();
      const text = await p.evaluate(async (to) => (await fetch(to)).text(), at);
      look(at, text);
      for (const [, href] of text.matchAll(/href="(\/[^"#]*)"/g)) {
        const next = href.replaceAll('&amp;', '&');
        // A few pages of each kind are sufficient, because one template renders all of them.
        const kind = next.replace(/[a-z]{3}_[0-9a-f]{32}|\/\d+|=[^&]*/g, '*');
        if (seen.has(next) || next.startsWith('/assets/') || (kinds.get(kind) ?? 0) >= 8) continue;
        kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
        seen.add(next);
        left.push(next);
      }
    }
    await p.goto(`${h.url}/nowhere`);
    look('/events', await p.evaluate(async () => {
      const stop = new AbortController();
      const r = await fetch('/events', { signal: stop.signal });
      const reader = r.body.getReader();
      let text = '';
      setTimeout(() => stop.abort(), 3000);
      try {
        for (;;) text += new TextDecoder().decode((await reader.read()).value);
      } catch { return text; }
    }));
    await c.close();
  }
  assert.deepEqual(found, []);
  assert.equal(comments, 0);
  return `${h.secrets.length} secrets in 5 encodings, ${answers} answers, ${(bytes / 1024 / 1024).toFixed(1)} MiB, no HTML comment`;
}

async function hangs(h) {
  const lease = await h.get(await h.agent('hangs@example.com', 'partner:**:*'), 'partner:files:read');
  const c = await auditor(h);
  const p = await c.newPage();
  h.partner.hangs = true;
  await p.goto(`${h.url}/credentials/${lease.lease_id}`);
  await p.locator('form[action$="/revoke"] input[name=reason]').fill('it leaked');
  await p.getByRole('button', { name: /^Revoke/ }).click();
  const began = Date.now();
  const until = async (what, good) => {
    for (const end = Date.now() + 90_000; ;) {
      await p.goto(`${h.url}/credentials/${lease.lease_id}`);
      const text = await p.locator('main').innerText();
      if (good(text)) return text;
      if (Date.now() > end) throw new Error(`it never said ${what}: ${text}`);
      await p.waitForTimeout(500);
    }
  };
  await until('UNSURE', (t) => t.includes('UNSURE'));
  const unsure = Date.now() - began;
  h.partner.hangs = false;
  await p.getByRole('button', { name: 'Retry at the provider now' }).click();
  const text = await until('dead at the provider', (t) => !t.includes('UNSURE') && /Dead at provider\s+since/i.test(t));
  assert.match(text, /Refused by ebb\s+since/i);
  await c.close();
  return `unsure after ${(unsure / 1000).toFixed(1)} s; then both times, apart`;
}

export const checks = [['12 files', files], ['29 shared', shared], ['31 exported', exported], ['33 hangs', hangs], ['32 secrets', secrets]];
