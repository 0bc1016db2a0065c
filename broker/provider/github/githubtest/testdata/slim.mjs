// Cuts GitHub's OpenAPI description down to what the simulator serves, following $refs, without prose and long examples.
// usage: npm install @octokit/openapi@23.0.2 in a directory DIR, then
//        node slim.mjs DIR/node_modules/@octokit/openapi/generated/api.github.com.json >openapi.json
import fs from 'node:fs';

const kept = {
  '/app': ['get'],
  '/app/installations': ['get'],
  '/app/installations/{installation_id}': ['get'],
  '/app/installations/{installation_id}/access_tokens': ['post'],
  '/app/installations/{installation_id}/suspended': ['put', 'delete'],
  '/installation/token': ['delete'],
  '/installation/repositories': ['get'],
  '/repos/{owner}/{repo}': ['get'],
  '/repos/{owner}/{repo}/installation': ['get'],
  '/repos/{owner}/{repo}/issues': ['get', 'post'],
  '/rate_limit': ['get'],
};

const whole = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const scalar = (v) => v === null || typeof v !== 'object';
// Prose is a string; a property that is called "description" is an object, and stays.
const prose = (k, v) => /^(description|summary|title|documentation_url)$/.test(k) && typeof v === 'string';
const drop = (k, v) => prose(k, v) || /^(examples|externalDocs|tags)$/.test(k) || k.startsWith('x-') || (k === 'example' && !scalar(v));
const slim = (v) => {
  if (Array.isArray(v)) return v.map(slim);
  if (scalar(v)) return v;
  return Object.fromEntries(Object.entries(v).filter(([k, e]) => !drop(k, e)).map(([k, e]) => [k, slim(e)]));
};

const out = {
  openapi: whole.openapi,
  info: { title: whole.info.title, version: whole.info.version, license: whole.info.license },
  servers: [{ url: '/' }],
  paths: {},
  components: {},
};
const seen = new Set();
const follow = (v) => {
  if (scalar(v)) return;
  if (typeof v.$ref === 'string' && !seen.has(v.$ref)) {
    seen.add(v.$ref);
    const at = v.$ref.slice(2).split('/');
    const target = slim(at.reduce((o, k) => o[k], whole));
    if (at[1] === 'responses' || at[1] === 'headers') target.description ??= '-'; // required by OpenAPI
    at.slice(0, -1).reduce((o, k) => (o[k] ??= {}), out)[at.at(-1)] = target;
    follow(target);
  }
  Object.values(v).forEach(follow);
};
for (const [path, methods] of Object.entries(kept)) {
  out.paths[path] = {};
  for (const method of methods) {
    const op = slim(whole.paths[path][method]);
    for (const r of Object.values(op.responses)) if (!r.$ref) r.description ??= '-';
    out.paths[path][method] = op;
    follow(op);
  }
}
process.stdout.write(JSON.stringify(out, null, 1) + '\n');
