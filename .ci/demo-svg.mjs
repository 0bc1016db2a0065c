// Writes a terminal recording of the demo as an animated SVG without scripts. Usage, with bubblewrap installed:
//   go run ./cmd/ebb demo | node .ci/demo-svg.mjs >docs/images/demo.svg
import { readFileSync } from 'node:fs';

const columns = 118, rows = 36, size = 13, height = 18, pad = 14, second = 0.28;
const escape = (text) => text.replace(/[&<>]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;' })[c]);
const lines = ['$ ebb demo', ...readFileSync(0, 'utf8').trimEnd().split('\n')]
  .map((line) => (line.length > columns ? line.slice(0, columns - 1) + '…' : line));
const end = lines.length * second;
const w = Math.ceil(columns * size * 0.602) + 2 * pad, h = rows * height + 2 * pad;

const drawn = lines.map((line, i) => {
  const kind = /^ {2}ok/.test(line) ? 'ok' : /^\S/.test(line) ? 'head' : 'soft';
  const delay = (i * second).toFixed(2);
  return line && `<text class="${kind}" style="animation-delay:${delay}s" x="${pad}" y="${pad + (i + 1) * height - 5}" xml:space="preserve">${escape(line)}</text>`;
}).filter(Boolean);
const steps = [];
for (let i = rows; i < lines.length; i++) {
  steps.push(`${((i / lines.length) * 100).toFixed(2)}%{transform:translateY(${-(i - rows + 1) * height}px)}`);
}

console.log(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" role="img" aria-labelledby="t" font-family="ui-monospace, SFMono-Regular, Menlo, 'DejaVu Sans Mono', monospace" font-size="${size}">
<title id="t">A recording of ebb demo: one task, from the enrolment of its sandbox to the verified audit log</title>
<style>
svg{background:#10161d;border-radius:8px}
text{fill:#e7ecf2;opacity:0;animation:show 1ms both}
.ok{fill:#8fd19e}.head{fill:#69aee8;font-weight:600}.soft{fill:#a3afbd}
.roll{animation:roll ${end.toFixed(2)}s step-end both}
@keyframes show{to{opacity:1}}
@keyframes roll{0%{transform:none}${steps.join('')}100%{transform:translateY(${-Math.max(0, lines.length - rows) * height}px)}}
@media (prefers-reduced-motion:reduce){text{opacity:1;animation:none}.roll{animation:none}}
</style>
<rect width="${w}" height="${h}" rx="8" fill="#10161d"/>
<g class="roll">
${drawn.join('\n')}
</g>
</svg>`);
