// An ebb as operators run it: `ebb serve` with an OpenID provider, a third party that can be made to hang, and agents that
// write what agents write. Everything goes through the binary.
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import readline from 'node:readline';
import { Site } from './site.mjs';

// partner is an authorization server: it mints at once and takes back, unless it hangs.
class Partner {
  static async start() {
    const p = new Partner();
    p.minted = [];
    p.hangs = false;
    p.server = http.createServer((req, res) => {
      let body = '';
      req.on('data', (c) => { body += c; });
      req.on('end', () => {
        const form = new URLSearchParams(body);
        res.setHeader('Content-Type', 'application/json');
        if (req.url === '/token') {
          const token = `partner-${crypto.randomUUID()}`;
          p.minted.push(token);
          res.end(JSON.stringify({ access_token: token, token_type: 'Bearer', expires_in: 900, scope: form.get('scope') ?? undefined }));
        } else if (p.hangs) {
          return; // until the other side gives up
        } else if (req.url === '/revoke') {
          p.minted = p.minted.filter((t) => t !== form.get('token'));
          res.end('{}');
        } else {
          res.end(JSON.stringify({ active: p.minted.includes(form.get('token')) }));
        }
      });
    });
    await new Promise((go) => p.server.listen(0, '127.0.0.1', go));
    p.url = `http://127.0.0.1:${p.server.address().port}`;
    return p;
  }

  end() { this.server.closeAllConnections(); this.server.close(); }
}

const free = () => new Promise((go) => {
  const s = http.createServer().listen(0, '127.0.0.1', () => { const { port } = s.address(); s.close(() => go(port)); });
});

// printed is the first line of standard output that holds this.
const printed = (process, what) => new Promise((go, no) => {
  readline.createInterface({ input: process.stdout }).on('line', (line) => { if (what.test(line)) go(line); });
  process.on('exit', (code) => no(new Error(`it ended with ${code} before it said ${what}`)));
});

export class Served extends Site {
  static async start(ebb, browser) {
    const h = new Served();
    Object.assign(h, { ebb, browser, dir: fs.mkdtempSync(path.join(os.tmpdir(), 'ebb-served-')), asking: [], secrets: [], requested: {} });
    h.partner = await Partner.start();
    h.port = await free();
    // The provider must know where it leads back to, and ebb's name is made of a secret of its own: ebb says it first.
    await h.serve({});
    h.url = new URL(await h.link('approver')).origin;
    await h.stop();
    h.op = spawn('node', [path.join(import.meta.dirname, 'op.mjs'), `${h.url}/signin/oidc/callback`], { stdio: ['pipe', 'pipe', 'inherit'] });
    const { issuer, id, secret } = JSON.parse(await printed(h.op, /issuer/));
    h.file('sso', secret);
    h.file('partner', 'the-partner-secret-of-this-lane');
    h.secrets.push(secret, 'the-partner-secret-of-this-lane');
    await h.serve({
      console: { oidc: { issuer, client_id: id, client_secret_file: h.at('sso'), scopes: ['openid', 'profile'], acr_values: ['phr'] }, roles: { approver: ['approvers'], auditor: ['audit'] } },
      notify: { channels: [{ name: 'push', kind: 'webpush', config: { contact: 'ops@example.com' } }], routes: [{ channels: ['push'] }] },
      providers: [
        { name: 'orders', kind: 'jwt', resource: 'https://orders.example', reversible: ['write'] },
        { name: 'partner', kind: 'oauth', resource: 'https://partner.example', config: {
          token_endpoint: `${h.partner.url}/token`, revocation_endpoint: `${h.partner.url}/revoke`, introspection_endpoint: `${h.partner.url}/introspect`,
          client: { id: 'ebb', auth: 'client_secret_basic', secret_file: h.at('partner') },
          grants: { files: { actions: { read: 'files.read' } } } } },
      ],
    });
    return h;
  }

  async serve(config) {
    this.file('ebb.yaml', JSON.stringify({ data_dir: this.at('data'), listen: `127.0.0.1:${this.port}`, ...config }));
    this.process = spawn(this.ebb, ['serve', '--config', this.at('ebb.yaml')], { stdio: ['ignore', 'pipe', 'pipe'], env: this.env() });
    let log = '';
    this.process.stderr.on('data', (d) => { log += d; });
    await printed(this.process, /^API/).catch((e) => { throw new Error(`${e.message}: ${log}`); });
  }

  async stop() {
    if (this.process.exitCode !== null) return;
    const gone = new Promise((go) => this.process.on('exit', go));
    this.process.kill('SIGINT');
    await gone;
  }

  env() { return { PATH: process.env.PATH, HOME: this.dir, EBB_DATA_DIR: this.at('data') }; }
  at(name) { return path.join(this.dir, name); }
  file(name, text) { fs.writeFileSync(this.at(name), text, { mode: 0o600 }); }

  run(...args) {
    return new Promise((go, no) => execFile(this.ebb, args, { env: this.env() }, (err, stdout, stderr) => (err ? no(new Error(`ebb ${args.slice(0, 2).join(' ')}: ${stderr}`)) : go(stdout))));
  }

  // link is one of `ebb console`, or of the identity provider: those have no link.
  async link(who) { return (await this.run('console', '--as', who)).trim(); }

  // agent is a task with its sandbox.
  async agent(owner, scope = 'orders:**:*') {
    const { task, ticket } = JSON.parse(await this.run('task', 'open', '--name', 'a task', '--kind', 'lane', `--owner=${owner}`, '--scope', scope, '--ticket', '-o', 'json'));
    this.secrets.push(ticket);
    const key = this.at(`${task.id}.key`);
    await this.run('token', '--key', key, '--ticket', ticket);
    return { task: task.id, key };
  }

  // get is a credential that policy grants at once.
  async get(agent, scope, ...more) {
    const got = JSON.parse(await this.run('token', '--key', agent.key, '--scope', scope, '-o', 'json', ...more));
    this.secrets.push(got.access_token);
    return got;
  }

  // ask makes a request that waits for a person, in these words, and returns its id.
  async ask(reason, { owner = `owner${this.asking.length}@example.com`, scope = 'orders:eu/1:write', ttl = '10m', agent } = {}) {
    const a = agent ?? await this.agent(owner);
    const known = new Set(await this.requests(a.task));
    const waits = spawn(this.ebb, ['token', '--key', a.key, '--scope', scope, '--ttl', ttl, '--reason', reason, '--wait'], { stdio: 'ignore', env: this.env() });
    this.asking.push(waits);
    for (let i = 0; i < 200; i++) {
      const made = (await this.requests(a.task)).find((r) => !known.has(r));
      if (made) return made;
      await new Promise((go) => setTimeout(go, 100));
    }
    throw new Error('nobody was asked');
  }

  // asks makes all of these requests, three at a time; each keeps its name.
  async asks(reasons) {
    const left = Object.entries(reasons);
    await Promise.all([1, 2, 3].map(async () => {
      for (let next = left.shift(); next; next = left.shift()) {
        const [name, reason] = next;
        this.requested[name] = await this.ask(reason, { owner: `owner-of-${name}@example.com` });
      }
    }));
  }

  async requests(task) {
    return JSON.parse(await this.run('requests', 'list', '--task', task, '-o', 'json')).map((r) => r.id);
  }

  // sso is a browser that has signed in at the identity provider.
  async sso(who, password, options) {
    const c = await this.context(null, options);
    const p = await c.newPage();
    await p.goto(this.url + '/signin');
    await p.getByRole('link', { name: /sso|provider|single|sign in with/i }).click();
    await this.prove(p, who, password);
    await p.waitForURL('**/queue');
    await p.close();
    return c;
  }

  // stronger proves it again for a request, by the link on its page.
  async stronger(p, id, who) {
    await p.goto(`${this.url}/requests/${id}`);
    await p.getByRole('link', { name: 'at your identity provider' }).click();
    if (p.url().startsWith(this.url)) throw new Error(`the step-up page is ${p.url()}`);
    await this.prove(p, who, 'key');
    if (new URL(p.url()).pathname !== `/requests/${id}`) throw new Error(`the provider led back to ${p.url()}`);
  }

  // prove fills in the forms of the identity provider until the browser is back.
  async prove(p, who, password) {
    for (let i = 0; i < 4; i++) {
      if (p.url().startsWith(this.url)) return;
      if (await p.locator('input[name=login]').count()) {
        await p.fill('input[name=login]', who);
        await p.fill('input[name=password]', password);
      }
      await Promise.all([p.waitForNavigation(), p.click('button')]);
    }
  }

  async end() {
    for (const a of this.asking) a.kill();
    this.op.stdin.end();
    this.partner.end();
    await this.stop();
    fs.rmSync(this.dir, { recursive: true });
  }
}
