// Every relative link in the Markdown files of the repository leads to a file, and its #anchor to a heading there.
// Every picture in docs/images is on a page. Runs at the top of the repository.
// usage: node .ci/links.mjs FILE...
import fs from 'node:fs';
import path from 'node:path';

const read = (file) => fs.readFileSync(file, 'utf8');
// The anchor of a heading: lower case, without punctuation, with dashes for blanks.
const slug = (heading) => heading.toLowerCase().replace(/[`*]|\[|\]\([^)]*\)/g, '').replace(/[^\p{L}\p{N}\s_-]/gu, '').trim().replace(/\s/g, '-');
const withoutCode = (text) => text.replace(/^```[\s\S]*?^```/gm, '');
const anchors = (file) => new Set([...withoutCode(read(file)).matchAll(/^#{1,6}\s+(.*)$/gm)].map((m) => slug(m[1])));

const problems = [], pictures = new Set(fs.readdirSync('docs/images').map((name) => path.join('docs/images', name)));
let links = 0;
for (const file of process.argv.slice(2)) {
  const targets = [...withoutCode(read(file)).matchAll(/\]\(([^)\s]+)\)|(?:src|srcset|href)="([^"]+)"/g)].map((m) => m[1] ?? m[2]);
  for (const target of targets) {
    if (/^[a-z][a-z0-9+.-]*:/i.test(target)) continue; // another place, not ours to check
    links++;
    const [name, anchor] = target.split('#');
    const to = name === '' ? file : path.join(path.dirname(file), decodeURIComponent(name));
    pictures.delete(to);
    if (!fs.existsSync(to)) problems.push(`${file}: ${target}: there is no such file`);
    else if (anchor && to.endsWith('.md') && !anchors(to).has(anchor)) problems.push(`${file}: ${target}: there is no such heading`);
  }
}
for (const name of pictures) problems.push(`${name}: no page shows this picture`);
for (const p of problems) console.error(p);
console.log(`${links} links, ${problems.length} broken`);
process.exit(problems.length ? 1 : 0);
